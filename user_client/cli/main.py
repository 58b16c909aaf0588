"""`odc`: an institution's command."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from protocol import __version__
from protocol.errors import OdcError, for_terminal
from protocol.invitation import Invitation
from user_client.cli import consortium, forget, ledger, round_commands, terms, tokens
from user_client.cli.options import (
    AsJson,
    Options,
    PassphraseFile,
    open_session,
    passphrase,
    set_up_logging,
    show,
)
from user_client.custody.files import read_bytes, read_text
from user_client.errors import NotPreparedError
from user_client.sdk import join as join_consortium
from user_client.sdk import renew as renew_certificate
from user_client.sdk import renew_own, update_revocations

log = logging.getLogger(__name__)

PROGRAM = "odc"
app = typer.Typer(
    no_args_is_help=True,
    help="An institution in an ODC consortium.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(consortium.app, name="consortium")
app.add_typer(terms.app, name="terms")
app.add_typer(round_commands.anchor, name="anchor")
app.add_typer(ledger.app, name="ledger")
app.add_typer(tokens.app, name="token")
for command in (
    round_commands.prepare,
    round_commands.contribute,
    round_commands.status,
    round_commands.receive,
    round_commands.predict,
    forget.forget,
):
    app.command()(command)


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="state directory of this institution [env: ODC_HOME; default: ~/.odc]")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="say what happens meanwhile")] = False,
) -> None:
    """Options of every command."""
    set_up_logging(verbose)
    context.obj = Options(home or Path(os.environ.get("ODC_HOME") or Path.home() / ".odc"))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"odc {__version__}")


@app.command()
def join(
    context: typer.Context,
    invitation: Annotated[
        Path | None, typer.Argument(help="the file from the lead institution; not needed to go on")
    ] = None,
    wait: Annotated[float, typer.Option(help="seconds to wait for the lead's approval")] = 0,
    as_json: AsJson = False,
) -> None:
    """Join a consortium: make our key here, ask for a certificate, fetch it once approved."""
    parsed = Invitation.from_json(read_text(invitation)) if invitation else None
    if parsed is not None:
        parsed.trust_root()  # before its fingerprint is shown to be compared
        typer.echo(f"root of {parsed.consortium}: {parsed.root_fingerprint}", err=True)
        typer.echo("compare it with the lead institution by telephone", err=True)
    with open_session(context) as session:
        membership = join_consortium(session, parsed, wait_s=wait)
    if membership is None:
        error = NotPreparedError("the lead institution has not approved yet; the request is with the analyst")
        error.hint = "the lead runs `odc consortium approve`; then run `odc join` again"
        raise error
    show(
        as_json,
        {"party": membership.party, "role": membership.role, "consortium": membership.consortium},
        lambda: f"joined {membership.consortium} as {membership.party}\nnext: odc status",
    )


@app.command()
def renew(
    context: typer.Context,
    wait: Annotated[float, typer.Option(help="seconds to wait for the lead's approval")] = 0,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Renew our certificate before it ends. The lead renews its own, with the passphrase of the root."""
    with open_session(context) as session:
        if session.membership.role == "lead":
            certificate = renew_own(session, passphrase(passphrase_file))
        else:
            renewed = renew_certificate(session, wait_s=wait)
            if renewed is None:
                error = NotPreparedError("the lead institution has not approved the renewal yet")
                error.hint = "the lead runs `odc consortium approve`; then run `odc renew` again"
                raise error
            certificate = renewed
    ends = certificate.not_valid_after_utc.date().isoformat()
    show(as_json, {"ends": ends}, lambda: f"our certificate now ends on {ends}")


@app.command()
def revocations(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="a list from the lead institution; the analyst is asked otherwise")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold to the newest list of certificates the lead has taken back."""
    with open_session(context) as session:
        count = update_revocations(session, read_bytes(file) if file else None)
        path = session.home.revocations_path
    value = {"revoked": count, "list": str(path) if count else None}
    show(as_json, value, lambda: f"{count} certificates of this consortium are revoked")


def main() -> None:
    """Run the command; our own errors end it with two lines and their exit code."""
    try:
        app(prog_name=PROGRAM)
    except OdcError as error:
        typer.echo(for_terminal(PROGRAM, error), err=True)
        sys.exit(error.exit_code)
    except Exception as error:  # a fault of ours: its text may quote a table, so it is told on request
        log.info("unexpected error", exc_info=True)
        typer.echo(for_terminal(PROGRAM, OdcError(f"unexpected {type(error).__name__}")), err=True)
        sys.exit(OdcError.exit_code)
