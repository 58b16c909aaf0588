"""`odc`: the command of an institution, put together from the modules of this package."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from protocol import __version__
from protocol.errors import InputError
from user_client.cli import (
    access,
    audit,
    browser,
    checkpoints,
    cohort,
    consortium,
    desk,
    evaluation,
    model,
    parts,
    round_commands,
    terms,
    walk,
)
from user_client.cli.options import AsJson, Options, PassphraseFile, open_session, set_up_logging, show


class _OptionsAnywhere(TyperGroup):
    """Takes the options of every command behind a command as well."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own Context is private
        return super().parse_args(ctx, options_first(args))


app = typer.Typer(
    cls=_OptionsAnywhere,
    invoke_without_command=True,
    help="An institution in an ODC consortium.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a help text are no markup
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(consortium.app, name="consortium")
app.add_typer(terms.app, name="terms")
app.add_typer(round_commands.anchor, name="anchor")
app.add_typer(audit.ledger, name="ledger")
app.add_typer(access.token, name="token")


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


app.command(name="round")(walk.round_)
for command in checkpoints.COMMANDS:
    audit.ledger.command()(command)
for module in (access, desk, walk, round_commands, parts, evaluation, model, cohort, audit, browser):
    for command in module.COMMANDS:
        app.command()(command)
