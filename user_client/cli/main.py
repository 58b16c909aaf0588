"""`odc`: the command of an institution, put together from the modules of this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from protocol import __version__
from protocol.errors import InputError
from runtime.start_up import loading
from user_client.cli.options import AsJson, Options, PassphraseFile, open_session, set_up_logging, show

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


class _Commands(Mapping[str, Any]):
    """Commands by their names, made when one is asked for.

    Those without numbers are imported alone, and the others all together. What a command takes is read from
    its signature, which for all of them would take a tenth of the start.
    """

    def __init__(self, of_this_module: Mapping[str, Any]) -> None:
        self._made = dict(of_this_module)

    @cached_property
    def _declared(self) -> Mapping[str, Callable[..., None] | typer.Typer]:
        from user_client.cli import commands

        return commands.declared()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            where = _WITHOUT_NUMBERS.get(name)
            with loading():
                self._made[name] = _command(name, _imported(where) if where else self._declared[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._made, **self._declared})

    def __len__(self) -> int:
        return len({**self._made, **self._declared})


def _imported(where: str) -> Callable[..., None] | typer.Typer:
    module, _, attribute = where.partition(".")
    found: Callable[..., None] | typer.Typer = getattr(import_module(f"user_client.cli.{module}"), attribute)
    return found


def _command(name: str, declared: Callable[..., None] | typer.Typer) -> Any:
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(declared, typer.Typer):
        alone.add_typer(declared, name=name)
    else:
        alone.command(name=name)(declared)
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
