"""What lets this institution and its systems in: joining, certificate, passphrase, API tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.errors import InputError
from protocol.identity import key_fingerprint, public_key
from protocol.invitation import Invitation
from runtime.command_line import PATH, InOrder, as_json_option
from runtime.files import read_bytes, read_text
from runtime.terminal import day, token_lifetime_s, token_lines
from user_client.cli.options import (
    ask_passphrase,
    open_session,
    options_of,
    passphrase_file_option,
    path_in_environment,
    show,
)
from user_client.custody import protection
from user_client.errors import NotJoinedError, NotPreparedError, PassphraseError, PassphraseNeededError
from user_client.sdk import analyst_key, certificate_list, consortium, membership, own_certificate
from user_client.sdk.certificate_list import KnownCertificate
from user_client.sdk.own_certificate import OwnCertificate
from user_client.sdk.session import Session

token = InOrder("token", help="API tokens, with which our other systems read our rounds.")

certificate_file_option = click.option(
    "--cert", type=PATH, help="our certificate of our own PKI, then the intermediate ones, without the CA"
)
authority_file_option = click.option(
    "--ca", type=PATH, help="with --cert: the CA that has issued it; checked here before we ask"
)


@click.command()
@click.argument(
    "invitation", type=PATH, required=False, help="the file from the lead institution; not needed to continue"
)
@click.option("--wait", type=float, default=0, help="seconds to wait for the lead's approval")
@click.option("--protect", is_flag=True, help="seal the state directory under a passphrase, from the start")
@certificate_file_option
@click.option("--key", type=PATH, help="with --cert: its key (PEM), ECDSA P-256; it becomes our key")
@click.option(
    "--key-passphrase-file",
    type=PATH,
    help="file with the passphrase of --key; asked for otherwise [env: ODC_KEY_PASSPHRASE_FILE]",
)
@authority_file_option
@passphrase_file_option
@as_json_option
@click.pass_context
def join(
    context: click.Context,
    invitation: Path | None,
    wait: float,
    protect: bool,
    cert: Path | None,
    key: Path | None,
    key_passphrase_file: Path | None,
    ca: Path | None,
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Join a consortium: generate our key here, ask for a certificate, fetch it once approved."""
    if key is not None and cert is None:
        raise InputError("--key needs its certificate: --cert CHAIN.pem")
    own = _own_certificate(cert, ca, lambda: _own_key(key, key_passphrase_file))
    parsed = Invitation.from_json(read_text(invitation)) if invitation else None
    if parsed is not None:
        parsed.trust_root()  # before its fingerprint is shown to be compared
        click.echo(f"root of {parsed.consortium}: {parsed.root_fingerprint}", err=True)
        click.echo("compare it with the lead institution by telephone, and our key below", err=True)
        if parsed.certificate_name:
            click.echo(f"it asks for the certificate of our own PKI: {parsed.certificate_name}", err=True)
    options = options_of(context)
    with open_session(context) as session:
        was_member = session.is_joined()
        if protect or passphrase_file:
            is_new = not session.home.is_protected()
            protection.protect(session.home, options.passphrase(passphrase_file, is_new=is_new))
        asked = partial(_say_key, session, wait_s=wait)
        joined = membership.join(session, parsed, own=own, wait_s=wait, asked=asked)
    if joined is None:
        error = NotPreparedError("the lead institution has not approved yet; the request is with the analyst")
        error.hint = "the lead runs `odc consortium approve`; then run `odc join` again"
        raise error
    show(
        as_json,
        {"party": joined.party, "role": joined.role, "consortium": joined.consortium},
        lambda: (
            f"{'already a member of' if was_member else 'joined'} {joined.consortium} as {joined.party}"
            "\nnext: odc round TABLE"
        ),
    )


def _say_key(session: Session, *, wait_s: float) -> None:
    """Print our key while the lead compares it, and that we wait."""
    click.echo(f"our key: {key_fingerprint(session.home.key().public_key())}", err=True)
    if wait_s:
        click.echo("waiting for the lead institution, which runs `odc consortium approve`", err=True)


@click.command()
@click.option("--remove", is_flag=True, help="store the secrets unsealed again")
@click.option("--change", is_flag=True, help="change the passphrase")
@passphrase_file_option
@click.option(
    "--new-passphrase-file",
    type=PATH,
    help="file with the new passphrase, with --change; asked for otherwise",
)
@as_json_option
@click.pass_context
def protect(
    context: click.Context,
    remove: bool,
    change: bool,
    passphrase_file: Path | None,
    new_passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Seal the secrets of our state directory under a passphrase; at the lead, that of the root key."""
    if remove and change:
        raise InputError("--remove and --change cannot be given together")
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
            home.unlock(secret)  # before somebody types the new one twice
            new = ask_passphrase("New passphrase", new_passphrase_file, is_new=True)
            protection.change_passphrase(home, secret, new)
        else:
            protection.protect(home, secret)
        value = {"home": str(home.path), "protected": home.is_protected(), "sealed": len(home.secrets())}
    show(as_json, value, lambda: _protection_text(home.path, value, is_changed=change))


def _protection_text(path: Path, value: dict[str, Any], *, is_changed: bool) -> str:
    if not value["protected"]:
        return f"{path} is not sealed: whoever can read its files has our secrets; use disk encryption"
    lines = [f"{path} is protected: {value['sealed']} files can be opened only with the passphrase"]
    if is_changed:
        lines.append("the old passphrase still opens copies that were made before")
    lines.append("without the passphrase they are lost: keep a copy of it where you keep your other keys")
    return "\n".join(lines)


@click.command()
@click.option("--wait", type=float, default=0, help="seconds to wait for the lead's approval")
@certificate_file_option
@authority_file_option
@passphrase_file_option
@as_json_option
@click.pass_context
def renew(
    context: click.Context,
    wait: float,
    cert: Path | None,
    ca: Path | None,
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Renew our certificate before it ends. The lead renews its own with the passphrase of the root."""
    with open_session(context) as session:
        if session.membership.role == "lead":
            if cert or ca:
                raise InputError("the lead renews with the passphrase of the root, without --cert and --ca")
            certificate = consortium.renew_own(session, options_of(context).passphrase(passphrase_file))
        else:
            own = _own_certificate(cert, ca, session.home.key)
            renewed = membership.renew(session, own=own, wait_s=wait)
            if renewed is None:
                error = NotPreparedError("the lead institution has not approved the renewal yet")
                error.hint = "the lead runs `odc consortium approve`; then run `odc renew` again"
                raise error
            certificate = renewed
    ends = certificate.not_valid_after_utc.date().isoformat()
    show(as_json, {"ends": ends}, lambda: f"our certificate now ends on {ends}")


@click.command()
@click.argument(
    "file",
    type=PATH,
    required=False,
    help="a list from the lead institution; fetched from the analyst otherwise",
)
@as_json_option
@click.pass_context
def revocations(context: click.Context, file: Path | None, as_json: bool) -> None:
    """Use the newest revocation list: certificates that the lead has revoked."""
    with open_session(context) as session:
        count = membership.update_revocations(session, read_bytes(file) if file else None)
        path = session.home.revocations_path
    value = {"revoked": count, "list": str(path) if count else None}
    show(as_json, value, lambda: f"{count} certificates of this consortium are revoked")


@click.command()
@click.argument(
    "fingerprint", required=False, help="of the analyst's new key; without it, show the one that is believed"
)
@as_json_option
@click.pass_context
def trust_analyst(context: click.Context, fingerprint: str | None, as_json: bool) -> None:
    """Believe an analyst with another key than before, after its operator and the lead have confirmed it."""
    with open_session(context) as session:
        if fingerprint is not None:
            analyst_key.believe(session.home, fingerprint)
        found = analyst_key.believed(session.home)
    said = analyst_key.in_words(found) if found else "none yet: the first that signs something for us"
    show(as_json, {"analyst_key": found}, lambda: f"the analyst's key: {said}")


@click.command()
@as_json_option
@click.pass_context
def certificates(context: click.Context, as_json: bool) -> None:
    """List the certificates of this consortium that the analyst knows of; look for your own name."""
    with open_session(context) as session:
        rows = [_certificate(one) for one in certificate_list.list_certificates(session)]
    show(as_json, {"certificates": rows}, lambda: "\n".join(map(_certificate_line, rows)))


def _certificate(one: KnownCertificate) -> dict[str, Any]:
    certificate = one.member.certificate
    return {
        "party": one.member.identity.name,
        "role": one.member.identity.role,
        "state": one.member.state,
        "until": int(certificate.not_valid_after_utc.timestamp()),
        "key_fingerprint": key_fingerprint(public_key(certificate)),
        "expected": one.is_expected,
    }


def _certificate_line(row: dict[str, Any]) -> str:
    line = (
        f"{row['party']:<24} {row['role']:<12} {row['state']:<8} until {day(row['until'])}"
        f"  key {row['key_fingerprint']}"
    )
    if row["expected"] is not False:
        return line
    whose = "the analyst's that we believe" if row["role"] == "analyst" else "ours"
    return f"{line}\n  this key is not {whose}: ask the lead institution why it was certified"


@token.command(name="create")
@click.option("--label", default="", help="which system it is for")
@click.option("--collaboration", "-c", help="the one collaboration it can read (default: all)")
@click.option("--days", type=int, default=90, help="how long it is valid; not longer than our certificate")
@as_json_option
@click.pass_context
def create_token(
    context: click.Context, label: str, collaboration: str | None, days: int, as_json: bool
) -> None:
    """Create a token that can read status, report and ledger. It is shown once and stored nowhere."""
    with open_session(context) as session:
        meant = None if collaboration is None else session.round(collaboration).id
        made = membership.create_token(
            session, lifetime_s=token_lifetime_s(days), label=label, collaboration_id=meant
        )
    value: dict[str, Any] = {"token": made.token, **made.row.model_dump()}
    show(as_json, value, lambda: f"{made.token}\n{token_lines([made.row])}\nit is not shown again")


@token.command(name="list")
@as_json_option
@click.pass_context
def list_tokens(context: click.Context, as_json: bool) -> None:
    """List our tokens: their purpose, when they end, and when each was last used."""
    with open_session(context) as session:
        rows = membership.list_tokens(session)
    show(as_json, {"tokens": [row.model_dump() for row in rows]}, lambda: token_lines(rows) or "no tokens")


@token.command(name="revoke")
@click.argument(
    "token_or_id", metavar="TOKEN", help="its id, as `odc token list` shows it, or the token itself"
)
@as_json_option
@click.pass_context
def revoke_token(context: click.Context, token_or_id: str, as_json: bool) -> None:
    """Revoke a token: the analyst refuses it from then on."""
    with open_session(context) as session:
        membership.revoke_token(session, token_or_id)
    show(as_json, {"revoked": True}, lambda: "revoked")


def _own_certificate(
    certificate: Path | None, authority: Path | None, key: Callable[[], ec.EllipticCurvePrivateKey]
) -> OwnCertificate | None:
    """Read the certificate of our own PKI for a key, or return None if no file is named."""
    if certificate is not None:
        return own_certificate.read_own_certificate(
            read_bytes(certificate), key(), read_bytes(authority) if authority else None
        )
    if authority is not None:
        raise InputError("--ca needs the certificate to check: --cert CHAIN.pem")
    return None


def _own_key(file: Path | None, passphrase_file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read the key that belongs to --cert, asking for its passphrase if it has one; raises `InputError`."""
    if file is None:
        raise InputError("--cert needs the key of the certificate: --key KEY.pem")
    named = passphrase_file or path_in_environment("ODC_KEY_PASSPHRASE_FILE")
    try:
        return own_certificate.read_own_key(
            read_bytes(file), lambda: ask_passphrase("Passphrase of --key", named, is_new=False)
        )
    except (PassphraseError, PassphraseNeededError) as error:
        error.hint = "name a file that contains it: --key-passphrase-file FILE, or ODC_KEY_PASSPHRASE_FILE"
        raise


COMMANDS: Final[tuple[click.Command, ...]] = (
    join,
    protect,
    renew,
    revocations,
    trust_analyst,
    certificates,
)
"""The commands of this module that stand directly behind `odc`."""
