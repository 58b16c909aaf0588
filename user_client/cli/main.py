"""`odc`: the command of an institution, put together from the modules of this package."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from protocol import __version__
from protocol.errors import InputError
from user_client.cli.options import AsJson, Options, PassphraseFile, open_session, set_up_logging, show

_DEFINED_IN: Final[Mapping[str, str]] = {
    "round": "walk.round_",
    "join": "access.join",
    "protect": "access.protect",
    "renew": "access.renew",
    "revocations": "access.revocations",
    "trust-analyst": "access.trust_analyst",
    "certificates": "access.certificates",
    "policy": "desk.policy",
    "wait": "walk.wait",
    "doctor": "walk.doctor",
    "conformance": "walk.conformance",
    "prepare": "round_commands.prepare",
    "contribute": "round_commands.contribute",
    "status": "round_commands.status",
    "receive": "round_commands.receive",
    "predict": "round_commands.predict",
    "part": "parts.part",
    "evaluate": "evaluation.evaluate",
    "report": "evaluation.report",
    "train": "model.train",
    "export": "model.export",
    "coefficients": "model.coefficients",
    "explain": "model.explain",
    "serve": "model.serve",
    "cohort": "cohort.cohort",
    "forget": "audit.forget",
    "releases": "audit.releases",
    "evidence": "audit.evidence",
    "ui": "browser.ui",
    "consortium": "consortium.app",
    "terms": "terms.app",
    "anchor": "round_commands.anchor",
    "ledger": "audit.ledger",
    "token": "access.token",
}
"""Everything that stands behind `odc`, in the order of its help: the module of this package that defines it,
and a function of it, or a Typer application with further commands."""


class _Commands(Mapping[str, Any]):
    """Commands by their names, whose modules are imported when the command is asked for.

    A command that joins a consortium starts without the code that reads tables.
    """

    def __init__(self, of_this_module: Mapping[str, Any]) -> None:
        self._loaded = dict(of_this_module)
        self._names = list(dict.fromkeys([*of_this_module, *_DEFINED_IN]))

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load_command(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _load_command(name: str) -> Any:
    module, _, attribute = _DEFINED_IN[name].partition(".")
    found = getattr(import_module(f"user_client.cli.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name=name)(found)
    return typer.main.get_group(alone).commands[name]


class _Odc(TyperGroup):
    """Takes the options of every command behind a command as well, and loads the one that was typed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(self.commands)  # type: ignore[assignment]  # nobody adds one later

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own Context is private
        return super().parse_args(ctx, options_first(args))


app = typer.Typer(
    cls=_Odc,
    invoke_without_command=True,
    help="An institution in an ODC consortium.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a help text are no markup
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(_version_text())
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="state directory of this institution [env: ODC_HOME; default: ~/.odc]")
    ] = None,
    passphrase_file: PassphraseFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="log what happens meanwhile")] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="print the version", is_eager=True, callback=_print_version),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Without a command: where we are, and what comes next."""
    set_up_logging(verbose)
    chosen = home or Path(os.environ.get("ODC_HOME") or Path.home() / ".odc")
    context.obj = Options(chosen, passphrase_file)
    if context.invoked_subcommand is not None:
        if as_json:
            raise InputError("--json stands behind the command, or alone: odc COMMAND --json")
        return
    from user_client.cli import walk

    with open_session(context) as session:
        found = walk.where(session)
    show(as_json, found, lambda: walk.where_in_words(found))
    if not as_json:
        typer.echo("odc --help lists all commands", err=True)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    show(as_json, {"program": "odc", "version": __version__}, _version_text)


def _version_text() -> str:
    return f"odc {__version__}"
