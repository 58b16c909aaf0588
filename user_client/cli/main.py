"""`odc`: the command of an institution, put together from the modules of this package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from protocol import __version__
from user_client.cli import access, audit, cohort, consortium, desk, evaluation, model, round_commands, terms
from user_client.cli.options import Options, PassphraseFile, set_up_logging

app = typer.Typer(
    no_args_is_help=True,
    help="An institution in an ODC consortium.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(consortium.app, name="consortium")
app.add_typer(terms.app, name="terms")
app.add_typer(round_commands.anchor, name="anchor")
app.add_typer(audit.ledger, name="ledger")
app.add_typer(access.token, name="token")


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="state directory of this institution [env: ODC_HOME; default: ~/.odc]")
    ] = None,
    passphrase_file: PassphraseFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="log what happens meanwhile")] = False,
) -> None:
    """Options of every command."""
    set_up_logging(verbose)
    chosen = home or Path(os.environ.get("ODC_HOME") or Path.home() / ".odc")
    context.obj = Options(chosen, passphrase_file)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"odc {__version__}")


for module in (access, desk, round_commands, evaluation, model, cohort, audit):
    for command in module.COMMANDS:
        app.command()(command)
