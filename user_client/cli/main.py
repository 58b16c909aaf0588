"""`odc`: the command of an institution, put together from the modules of this package."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Final

import click

from protocol import __version__
from protocol.errors import InputError
from protocol.texts import visible
from runtime.command_line import PATH, SETTINGS, InOrder, as_json_option, completion_option, version_option
from runtime.start_up import loading
from user_client.cli.options import (
    Options,
    open_session,
    passphrase_file_option,
    set_up_logging,
    show,
)
from user_client.errors import ConnectionFailedError

_ATTEMPTS: Final = 2
_TIMEOUT_S: Final = 5.0
"""Whoever only asks where they are is told so soon, by what is stored here if the analyst is away."""
_WITHOUT_NUMBERS: Final[Mapping[str, str]] = {
    "join": "access.join",
    "protect": "access.protect",
    "renew": "access.renew",
    "revocations": "access.revocations",
    "trust-analyst": "access.trust_analyst",
    "certificates": "access.certificates",
    "token": "access.token",
    "consortium": "consortium.app",
}
"""Commands that need neither numbers nor tables, and where they are: these start in half of the time."""


class _Commands(Mapping[str, click.Command]):
    """Commands by their names, loaded when asked for: those without numbers alone, the others together."""

    def __init__(self) -> None:
        self._added: dict[str, click.Command] = {}

    @cached_property
    def _declared(self) -> Mapping[str, click.Command]:
        with loading():
            from user_client.cli.commands import COMMANDS
        return {**self._added, **COMMANDS}

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __getitem__(self, name: str) -> click.Command:
        if name in self._added:
            return self._added[name]
        if name in _WITHOUT_NUMBERS:
            module, _, attribute = _WITHOUT_NUMBERS[name].partition(".")
            with loading():
                found: click.Command = getattr(import_module(f"user_client.cli.{module}"), attribute)
            return found
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


class _Odc(InOrder):
    """Takes the options of every command behind a command as well, and loads the one that was typed."""

    sections: Mapping[str, Sequence[str]] = {
        "A round": (
            "round", "wait", "status", "terms", "anchor", "prepare", "contribute", "receive",
        ),
        "With the model": (
            "predict", "evaluate", "explain", "coefficients", "cohort", "export", "serve", "train", "part",
        ),
        "Membership": (
            "join", "renew", "protect", "certificates", "revocations", "trust-analyst", "token", "consortium",
        ),
        "What left, and what others did": (
            "policy", "releases", "report", "ledger", "evidence", "forget",
        ),
        "This machine and the analyst": ("ui", "doctor", "conformance", "version"),
    }  # fmt: skip

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(context, options_first(args))


def options_first(words: list[str]) -> list[str]:
    """Return a command line with ``--verbose`` and ``--home`` before the command."""
    first, rest, left = [], [], iter(words)
    for word in left:
        if word == "--":
            rest += [word, *left]
        elif word == "--verbose" or word.startswith("--home="):
            first.append(word)
        elif word == "--home":
            first += [word, *islice(left, 1)]
        else:
            rest.append(word)
    return first + rest


@click.group("odc", cls=_Odc, commands=_Commands(), invoke_without_command=True, context_settings=SETTINGS)
@click.option(
    "--home", type=PATH, help="state directory of this institution [env: ODC_HOME; default: ~/.odc]"
)
@passphrase_file_option
@click.option("--verbose", is_flag=True, help="log what happens meanwhile")
@version_option("odc", __version__)
@click.option("--json", "as_json", is_flag=True, help="print JSON for machines; of a command, behind it")
@completion_option("odc")
@click.pass_context
def app(
    context: click.Context,
    home: Path | None,
    passphrase_file: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """An institution in an ODC consortium."""
    set_up_logging(verbose)
    chosen = home or Path(os.environ.get("ODC_HOME") or Path.home() / ".odc")
    context.obj = Options(chosen, passphrase_file)
    if context.invoked_subcommand is not None:
        if as_json:
            raise InputError("--json stands behind the command, or alone: odc COMMAND --json")
        return
    from user_client.cli import where

    with open_session(context, attempts=_ATTEMPTS, timeout_s=_TIMEOUT_S) as session:
        try:
            found = where.where(session)
        except ConnectionFailedError:
            if not as_json:
                click.echo(visible(where.known_here(session)))
            raise
    show(as_json, found, lambda: where.where_in_words(found))
    if not as_json:
        click.echo("odc --help lists all commands", err=True)


@app.command()
@as_json_option
def version(as_json: bool) -> None:
    """Print the version."""
    show(as_json, {"program": "odc", "version": __version__}, lambda: f"odc {__version__}")
