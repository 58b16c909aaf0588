"""`odc consortium`: what only the lead institution does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import InputError
from protocol.identity import fingerprint
from protocol.messages import Role
from protocol.own_pki import NameMapping
from runtime.command_line import PATH, InOrder, as_json_option
from runtime.files import read_bytes, read_text
from runtime.terminal import day, minute, printable
from user_client.cli.options import (
    can_ask,
    declined,
    force_option,
    is_agreed,
    open_session,
    options_of,
    passphrase_file_option,
    refuse_to_overwrite,
    require_writable,
    show,
    write_private,
)
from user_client.custody.protection import protect as protect_directory
from user_client.sdk import approval, certificate_requests, consortium, own_certificate
from user_client.sdk.approval import (
    AnalystUnreachable,
    Approval,
    ApprovalEvent,
    Approved,
    RequestRefused,
    unsignable,
)
from user_client.sdk.certificate_requests import Waiting
from user_client.sdk.consortium import ANALYST, Member, Revoked
from user_client.sdk.session import Session
from user_client.transport import ATTEMPTS

app = InOrder("consortium", help="The lead institution: root, invitations, certificates.")


@app.command()
@click.argument("name", help="name of the consortium, for people")
@click.option("--analyst", required=True, help="address of the analyst, https://HOST:PORT")
@click.option("--party", required=True, help="our own name: lower case letters, digits, hyphens")
@click.option("--protect", is_flag=True, help="seal the whole state directory under the passphrase")
@passphrase_file_option
@click.option(
    "--analyst-invitation",
    type=PATH,
    default="analyst.invitation.json",
    help="where to write the analyst's invitation",
)
@force_option
@as_json_option
@click.pass_context
def create(
    context: click.Context,
    name: str,
    analyst: str,
    party: str,
    protect: bool,
    passphrase_file: Path | None,
    analyst_invitation: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Found a consortium: generate its root key here, and invite the analyst."""
    refuse_to_overwrite(analyst_invitation, force=force, option="--analyst-invitation")
    require_writable(analyst_invitation)
    with open_session(context) as session:
        consortium.require_no_consortium(session.home)  # before somebody types a passphrase twice
        secret = options_of(context).passphrase(passphrase_file, is_new=True)
        if protect:
            protect_directory(session.home, secret)
        membership = consortium.create_consortium(
            session, name=name, party=party, analyst_url=analyst, passphrase=secret
        )
        invitation = consortium.invite(session, ANALYST, role="analyst")
        root = fingerprint(session.home.root().certificate)
    write_private(analyst_invitation, invitation.to_json().encode())
    value = {
        "consortium_id": membership.consortium_id,
        "root_fingerprint": root,
        "analyst_invitation": str(analyst_invitation),
    }
    show(
        as_json,
        value,
        lambda: (
            f"consortium {name}, root {root}\n"
            "keep the state directory and the passphrase safe: whoever has both can issue certificates\n"
            f"next: give {analyst_invitation} to the analyst, who runs `odc-analyst join`"
        ),
    )


@app.command()
@click.argument(
    "party", required=False, help="the institution's name: lower case letters, digits, hyphens; or `analyst`"
)
@click.option(
    "--from",
    "names",
    type=PATH,
    help="invite the institutions in a file, one name a line, into the folder --out",
)
@click.option("--out", type=PATH, help="where to write it (default: PARTY.invitation.json)")
@click.option(
    "--replace", is_flag=True, help="allow a name that was used before; its unused invitation becomes invalid"
)
@click.option("--ca", type=PATH, help="require a certificate from the institution's own PKI: its CA")
@click.option("--name", help="with --ca: its name there, dns:HOST, uri:URI, email:ADDRESS or subject:RFC4514")
@force_option
@as_json_option
@click.pass_context
def invite(
    context: click.Context,
    party: str | None,
    names: Path | None,
    out: Path | None,
    replace: bool,
    ca: Path | None,
    name: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a one-time invitation for an institution. It contains a secret: send it like a password."""
    if names is not None:
        if party is not None or replace or ca is not None or name is not None:
            raise InputError("--from invites institutions by their names alone: omit all others but --out")
        _invite_all(context, names, out or Path(), as_json=as_json)
        return
    if party is None:
        raise InputError("name the institution, or a file of names with --from")
    if (ca is None) != (name is None):
        raise InputError("--ca and --name must be given together: the CA, and the name in the certificate")
    mapping = (
        NameMapping(own_certificate.read_authority(read_bytes(ca)), name) if ca and name is not None else None
    )
    path = out or Path(f"{party}.invitation.json")
    refuse_to_overwrite(path, force=force or replace)
    require_writable(path)
    with open_session(context) as session:
        role: Role = "analyst" if party == ANALYST else "institution"
        invitation = consortium.invite(session, party, role=role, replace_earlier=replace, mapping=mapping)
    write_private(path, invitation.to_json().encode())
    joins = f"odc-analyst join {path.name}" if role == "analyst" else f"odc join {path.name} --wait 600"
    show(
        as_json,
        {
            "party": party,
            "invitation": str(path),
            "root_fingerprint": invitation.root_fingerprint,
            "certificate_name": invitation.certificate_name,
        },
        lambda: (
            f"invitation for {party} written to {path}; it expires in 14 days\n"
            f"root to compare by telephone: {invitation.root_fingerprint}"
            + (f"\nit has to send its own certificate: {_mapping(mapping)}" if mapping else "")
            + f"\nnext: send it to {party}, who runs `{joins}`; then odc consortium approve"
        ),
    )


def _invite_all(context: click.Context, file: Path, folder: Path, *, as_json: bool) -> None:
    """Write the invitations of all institutions in a file; those that are not used yet are written again."""
    lines = (line.strip() for line in read_text(file).splitlines())
    parties = [line for line in lines if line and not line.startswith("#")]
    if not parties:
        raise InputError(f"{file} has no name in it")
    require_writable(folder / "invitation.json")
    with open_session(context) as session:
        found = consortium.invite_all(session, parties)
    for invitation in found:
        write_private(folder / f"{invitation.party}.invitation.json", invitation.to_json().encode())
    value = [
        {"party": one.party, "invitation": str(folder / f"{one.party}.invitation.json")} for one in found
    ]
    show(
        as_json,
        {"root_fingerprint": found[0].root_fingerprint, "invitations": value},
        lambda: (
            f"{len(found)} invitations written to {folder}, each with a secret for one institution\n"
            f"root to compare by telephone: {found[0].root_fingerprint}"
        ),
    )


@app.command(name="list")
@as_json_option
@click.pass_context
def list_(context: click.Context, as_json: bool) -> None:
    """Show who has a certificate, who was invited, and when that ends."""
    with open_session(context) as session:
        invited = consortium.invitations(session)
        issued = consortium.members(session)
        now = session.clock()
    value = {
        "members": [_member(member) for member in issued],
        "invitations": [
            {
                "party": one.party,
                "role": one.role,
                "ends": day(one.expires_at),
                "expired": one.expires_at <= now,
            }
            for one in invited
        ],
    }
    show(as_json, value, lambda: "\n".join(_listing(value)))


@app.command()
@click.argument("party", help="the institution's name, or `analyst`")
@passphrase_file_option
@as_json_option
@click.pass_context
def revoke(context: click.Context, party: str, passphrase_file: Path | None, as_json: bool) -> None:
    """Revoke all certificates of a party; the analyst refuses them from then on."""
    secret = options_of(context).passphrase(passphrase_file)
    with open_session(context) as session:
        revoked = consortium.revoke(session, party, secret)
        path = session.home.revocations_path
    value = {
        "party": party,
        "revoked": revoked.certificates,
        "invitations_withdrawn": revoked.invitations,
        "list": str(path) if revoked.certificates else None,
    }
    show(as_json, value, lambda: "\n".join(_revoked_text(party, revoked, path)))


def _revoked_text(party: str, revoked: Revoked, path: Path) -> Iterator[str]:
    if revoked.invitations:
        yield f"{revoked.invitations} unused invitations of {party} are withdrawn"
    if revoked.certificates:
        yield f"{revoked.certificates} certificates of {party} are revoked; the analyst refuses them"
        yield (
            "members fetch the list with `odc revocations`; "
            f"if the analyst is not trusted to send it, send them {path}"
        )


@app.command()
@click.option("--request", type=PATH, help="the analyst's request file")
@click.option(
    "--out",
    type=PATH,
    default="analyst-certificate.pem",
    help="where to write the analyst's certificate",
)
@click.option(
    "--host", multiple=True, help="with --request: another name or address of the analyst; repeat for more"
)
@click.option("--party", multiple=True, help="sign only for this party; repeat for more")
@click.option("--yes", is_flag=True, help="sign without asking")
@click.option(
    "--watch",
    type=float,
    default=0,
    help="sign without asking as requests come, until all who are invited have joined or for so many "
    "seconds; can be combined with --request",
)
@passphrase_file_option
@as_json_option
@click.pass_context
def approve(
    context: click.Context,
    request: Path | None,
    out: Path,
    host: tuple[str, ...],
    party: tuple[str, ...],
    yes: bool,
    watch: float,
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Show requests for certificates, at the analyst or in its request file, and sign them if you agree."""
    if request is not None:
        require_writable(out)
    with open_session(context, attempts=1 if watch else ATTEMPTS) as session:
        passphrase = partial(options_of(context).passphrase, passphrase_file)
        approval = Approval(session, passphrase, parties=party, report=partial(_report, session))
        approved: list[Approved] = []
        if request is not None:
            of_file = certificate_requests.check_request(session, read_bytes(request), hosts=host)
            _confirm([of_file], yes=yes)
            approved.append(approval.approve_file(of_file))
            write_private(out, approved[0].certificate.public_bytes(Encoding.PEM))
            click.echo(f"the certificate is in {out}", err=True)
        if watch:
            approved += approval.watch(watch)
        elif request is None and (waiting := approval.waiting()):
            _confirm(waiting, yes=yes)
            approved += approval.approve(waiting)
    rows = [{"party": one.identity.name, "role": one.identity.role} for one in approved]
    show(
        as_json,
        {"approved": rows, "certificate": str(out) if request else None},
        lambda: "\n".join(_approved_in_words(approved, out if request else None)),
    )
    if approval.refused and not watch:
        raise unsignable(approval.refused)


@app.command()
@click.argument("party", help="the party whose request is rejected")
@click.option("--reason", required=True, help="why; the party reads it, and the analyst can")
@as_json_option
@click.pass_context
def reject(context: click.Context, party: str, reason: str, as_json: bool) -> None:
    """Reject a party's request for a certificate; an invitation that it answers is withdrawn."""
    with open_session(context) as session:
        count = approval.reject(session, party, reason)
    show(as_json, {"party": party, "rejected": count}, lambda: f"rejected what {party} has asked for")


def _approved_in_words(approved: Sequence[Approved], analysts: Path | None) -> Iterator[str]:
    """Yield what was approved and what comes next; ``analysts`` has the analyst's certificate."""
    for one in approved:
        yield f"approved {one.identity.name} as {one.identity.role}"
    if analysts is not None:
        serves = f"odc-analyst serve --certificate {analysts.name}"
        yield f"next: give {analysts} to the analyst, who runs `{serves}`"
    elif approved:
        yield "next: odc"
    else:
        yield "no requests wait"


def _report(session: Session, event: ApprovalEvent) -> None:
    """Print what happens during an approval."""
    if isinstance(event, RequestRefused):
        line = f"cannot be signed: {printable(event.reason)}"
    elif isinstance(event, AnalystUnreachable):
        line = f"{minute(session.clock())} {printable(event.reason)}; still watching"
    else:
        line = f"{minute(session.clock())} signed for {_in_words(event.request)}"
    click.echo(line, err=True)


def _confirm(waiting: Sequence[Waiting], *, yes: bool) -> None:
    """Show what would be signed and ask; raises `InputError` if nobody agrees."""
    for one in waiting:
        click.echo(_in_words(one), err=True)
    if yes:
        return
    if not can_ask():
        names = ", ".join(one.identity.name for one in waiting)
        error = InputError(f"nobody has agreed to sign for {names}, and there is no terminal to ask at")
        error.hint = "compare the keys, then sign all with --yes, or one with --party NAME --yes"
        raise error
    if not is_agreed(f"Sign {'this certificate' if len(waiting) == 1 else f'{len(waiting)} certificates'}?"):
        raise declined("nothing was signed")


def _in_words(one: Waiting) -> str:
    parts = [f"{one.identity.name} as {one.identity.role}"]
    parts.append(f"by {one.kind} {one.request_id[:8]}")
    if one.since is not None:
        parts.append(f"since {minute(one.since)}")
    if one.hosts:
        parts.append(f"server names {', '.join(one.hosts)}")
    lines = [", ".join(parts), f"  key {one.key_fingerprint}"]
    if one.mapping is not None:
        lines.append(f"  its own certificate is valid: {_mapping(one.mapping)}")
    return "\n".join(lines)


def _mapping(mapping: NameMapping) -> str:
    authority = mapping.authority
    subject = printable(authority.subject.rfc4514_string())
    return f"{mapping.name} by the CA {subject}\n  CA {fingerprint(authority)}"


def _member(member: Member) -> dict[str, Any]:
    return {
        "party": member.identity.name,
        "role": member.identity.role,
        "state": member.state,
        "ends": member.certificate.not_valid_after_utc.date().isoformat(),
        "fingerprint": fingerprint(member.certificate),
    }


def _listing(value: dict[str, Any]) -> list[str]:
    rows = [(row, row["state"]) for row in value["members"]]
    rows += [(row, "expired" if row["expired"] else "invited") for row in value["invitations"]]
    return [f"{row['party']:<24} {row['role']:<12} {state:<8} ends {row['ends']}" for row, state in rows]
