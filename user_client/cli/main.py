"""`odc`: an institution's command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from protocol import __version__
from protocol.errors import InputError
from protocol.identity import key_fingerprint
from protocol.invitation import Invitation
from runtime.files import read_bytes, read_text
from user_client.cli import consortium, forget, ledger, round_commands, terms, tokens
from user_client.cli.options import (
    AsJson,
    Options,
    PassphraseFile,
    ask_passphrase,
    open_session,
    options_of,
    set_up_logging,
    show,
)
from user_client.cli.own_certificate import (
    AuthorityFile,
    CertificateFile,
    KeyFile,
    KeyPassphraseFile,
    own_certificate,
    read_key,
)
from user_client.custody import protection
from user_client.errors import NotJoinedError, NotPreparedError
from user_client.sdk import join as join_consortium
from user_client.sdk import renew as renew_certificate
from user_client.sdk import renew_own, update_revocations

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
    passphrase_file: PassphraseFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="say what happens meanwhile")] = False,
) -> None:
    """Options of every command."""
    set_up_logging(verbose)
    chosen = home or Path(os.environ.get("ODC_HOME") or Path.home() / ".odc")
    context.obj = Options(chosen, passphrase_file)


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
    protect: Annotated[
        bool, typer.Option("--protect", help="seal the state directory under a passphrase, from the start")
    ] = False,
    cert: CertificateFile = None,
    key: KeyFile = None,
    key_passphrase_file: KeyPassphraseFile = None,
    ca: AuthorityFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Join a consortium: make our key here, ask for a certificate, fetch it once approved."""
    if key is not None and cert is None:
        raise InputError("--key needs what our own PKI says of it: --cert CHAIN.pem")
    own = own_certificate(cert, ca, lambda: read_key(key, key_passphrase_file))
    parsed = Invitation.from_json(read_text(invitation)) if invitation else None
    if parsed is not None:
        parsed.trust_root()  # before its fingerprint is shown to be compared
        typer.echo(f"root of {parsed.consortium}: {parsed.root_fingerprint}", err=True)
        typer.echo("compare it with the lead institution by telephone, and our key below", err=True)
        if parsed.certificate_name:
            typer.echo(f"it wants the certificate of our own PKI: {parsed.certificate_name}", err=True)
    options = options_of(context)
    with open_session(context) as session:
        if protect or passphrase_file:
            is_new = not session.home.is_protected()
            protection.protect(session.home, options.passphrase(passphrase_file, is_new=is_new))
        membership = join_consortium(session, parsed, own=own, wait_s=wait)
        typer.echo(f"our key: {key_fingerprint(session.home.key().public_key())}", err=True)
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
def protect(
    context: typer.Context,
    remove: Annotated[bool, typer.Option("--remove", help="write the secrets as they are again")] = False,
    change: Annotated[
        bool, typer.Option("--change", help="lock the directory by another passphrase")
    ] = False,
    passphrase_file: PassphraseFile = None,
    new_passphrase_file: Annotated[
        Path | None, typer.Option(help="file with the new passphrase, with --change; asked for otherwise")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Seal the secrets of our state directory under a passphrase. The lead's is that of the root key."""
    if remove and change:
        raise InputError("--remove and --change are two things: do one, then the other")
    options = options_of(context)
    with open_session(context) as session:
        home = session.home
        if not home.key_path.exists():
            raise NotJoinedError(f"there is no key in {home.path}")
        if (remove or change) and not home.is_protected():
            raise InputError(f"{home.path} is not protected by a passphrase")
        is_new = not home.is_protected() and not home.root_key_path.exists()
        secret = options.passphrase(passphrase_file, is_new=is_new)
        if remove:
            protection.unprotect(home, secret)
        elif change:
            new = ask_passphrase("New passphrase", new_passphrase_file, is_new=True)
            protection.change_passphrase(home, secret, new)
        else:
            protection.protect(home, secret)
        value = {"home": str(home.path), "protected": home.is_protected(), "sealed": len(home.secrets())}
    show(as_json, value, lambda: _protection_text(home.path, value, is_changed=change))


def _protection_text(path: Path, value: dict[str, Any], *, is_changed: bool) -> str:
    if not value["protected"]:
        return f"{path} is open to whoever can read it: keep its permissions, and use disk encryption"
    lines = [f"{path} is protected: {value['sealed']} files open with the passphrase alone"]
    if is_changed:
        lines.append("the old passphrase still opens copies that were made before")
    lines.append("there is no way back without it: keep a copy where you keep your other keys")
    return "\n".join(lines)


@app.command()
def renew(
    context: typer.Context,
    wait: Annotated[float, typer.Option(help="seconds to wait for the lead's approval")] = 0,
    cert: CertificateFile = None,
    ca: AuthorityFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Renew our certificate before it ends. The lead renews its own, with the passphrase of the root."""
    with open_session(context) as session:
        if session.membership.role == "lead":
            if cert or ca:
                raise InputError("the lead renews by the root's passphrase alone, without --cert and --ca")
            certificate = renew_own(session, options_of(context).passphrase(passphrase_file))
        else:
            own = own_certificate(cert, ca, session.home.key)
            renewed = renew_certificate(session, own=own, wait_s=wait)
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
