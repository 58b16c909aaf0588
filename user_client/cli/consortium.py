"""`odc consortium`: what only the lead institution does."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import InvitationError, for_terminal
from protocol.identity import fingerprint
from user_client.cli.options import AsJson, PassphraseFile, open_session, options_of, show
from user_client.custody.files import read_bytes, write_whole
from user_client.custody.protection import protect as protect_directory
from user_client.sdk import (
    Approved,
    Member,
    Session,
    approve_pending,
    approve_request,
    create_consortium,
    invitations,
    members,
)
from user_client.sdk import invite as make_invitation
from user_client.sdk import revoke as revoke_party
from user_client.sdk.consortium import ANALYST

app = typer.Typer(no_args_is_help=True, help="The lead institution: root, invitations, certificates.")

WATCH_S = 2.0


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the consortium, for people")],
    analyst: Annotated[str, typer.Option(help="address of the analyst, https://HOST:PORT")],
    party: Annotated[str, typer.Option(help="our own name: lower case letters, digits, hyphens")],
    protect: Annotated[
        bool, typer.Option("--protect", help="seal the whole state directory under the passphrase")
    ] = False,
    passphrase_file: PassphraseFile = None,
    analyst_invitation: Annotated[Path, typer.Option(help="where to write the analyst's invitation")] = Path(
        "analyst.invitation.json"
    ),
    as_json: AsJson = False,
) -> None:
    """Found a consortium: draw its root key here, and invite the analyst."""
    secret = options_of(context).passphrase(passphrase_file, is_new=True)
    with open_session(context) as session:
        if protect:
            protect_directory(session.home, secret)
        membership = create_consortium(
            session, name=name, party=party, analyst_url=analyst, passphrase=secret
        )
        invitation = make_invitation(session, ANALYST, role="analyst")
        root = fingerprint(session.home.root().certificate)
    write_whole(analyst_invitation, invitation.to_json().encode())
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
            "keep the state directory and the passphrase safe: they issue every certificate\n"
            f"next: give {analyst_invitation} to the analyst, who runs `odc-analyst join`"
        ),
    )


@app.command()
def invite(
    context: typer.Context,
    party: Annotated[
        str, typer.Argument(help="the institution's name: lower case letters, digits, hyphens; or `analyst`")
    ],
    out: Annotated[
        Path | None, typer.Option(help="where to write it [default: PARTY.invitation.json]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a one-time invitation for an institution. It holds a secret: send it like a password."""
    path = out or Path(f"{party}.invitation.json")
    with open_session(context) as session:
        invitation = make_invitation(session, party, role="analyst" if party == ANALYST else "institution")
    write_whole(path, invitation.to_json().encode())
    show(
        as_json,
        {"party": party, "invitation": str(path), "root_fingerprint": invitation.root_fingerprint},
        lambda: (
            f"invitation for {party} written to {path}; it ends in 14 days\n"
            f"root to compare by telephone: {invitation.root_fingerprint}"
        ),
    )


@app.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """Show who holds a certificate, who was invited, and until when."""
    with open_session(context) as session:
        invited = invitations(session)
        issued = members(session)
        now = session.clock()
    value = {
        "members": [_member(member) for member in issued],
        "invitations": [
            {
                "party": one.party,
                "role": one.role,
                "ends": _date(one.expires_at),
                "expired": one.expires_at <= now,
            }
            for one in invited
        ],
    }
    show(as_json, value, lambda: "\n".join(_listing(value)))


@app.command()
def revoke(
    context: typer.Context,
    party: Annotated[str, typer.Argument(help="the institution's name, or `analyst`")],
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Take back all certificates of a party; the analyst refuses them from then on."""
    secret = options_of(context).passphrase(passphrase_file)
    with open_session(context) as session:
        count = revoke_party(session, party, secret)
        path = session.home.revocations_path
    show(
        as_json,
        {"party": party, "revoked": count, "list": str(path)},
        lambda: (
            f"{count} certificates of {party} are revoked; the analyst refuses them\n"
            "members fetch the list with `odc revocations`; "
            f"where the analyst itself is not believed, send them {path}"
        ),
    )


@app.command()
def approve(
    context: typer.Context,
    request: Annotated[Path | None, typer.Option(help="the analyst's request file")] = None,
    out: Annotated[Path, typer.Option(help="where to write the analyst's certificate")] = Path(
        "analyst-certificate.pem"
    ),
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="a further name or address the analyst answers to, with --request; repeat for more"
        ),
    ] = None,
    watch: Annotated[float, typer.Option(help="seconds to wait until all who are invited have joined")] = 0,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Issue certificates for the requests at the analyst, or for the analyst's own request file."""
    secret, told = options_of(context).passphrase(passphrase_file), set[str]()
    with open_session(context) as session:
        if request is not None:
            approved = [approve_request(session, read_bytes(request), secret, hosts=host or ())]
            write_whole(out, approved[0].certificate.public_bytes(Encoding.PEM))
        else:
            approved = _approve_or_tell(session, secret, told) if watch else approve_pending(session, secret)
            end = time.monotonic() + watch
            while _is_awaiting(session) and time.monotonic() < end:
                time.sleep(WATCH_S)
                approved += _approve_or_tell(session, secret, told)
    rows = [{"party": one.identity.name, "role": one.identity.role} for one in approved]
    show(
        as_json,
        {"approved": rows, "certificate": str(out) if request else None},
        lambda: "\n".join(f"approved {row['party']} as {row['role']}" for row in rows) or "no requests wait",
    )


def _member(member: Member) -> dict[str, Any]:
    return {
        "party": member.identity.name,
        "role": member.identity.role,
        "state": member.state,
        "ends": member.certificate.not_valid_after_utc.date().isoformat(),
        "fingerprint": fingerprint(member.certificate),
    }


def _date(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _listing(value: dict[str, Any]) -> list[str]:
    rows = [(row, row["state"]) for row in value["members"]]
    rows += [(row, "expired" if row["expired"] else "invited") for row in value["invitations"]]
    return [f"{row['party']:<24} {row['role']:<12} {state:<8} ends {row['ends']}" for row, state in rows]


def _is_awaiting(session: Session) -> bool:
    """Whether an institution still may answer an invitation of ours."""
    now = session.clock()
    return any(one.role == "institution" and one.expires_at > now for one in invitations(session))


def _approve_or_tell(session: Session, secret: str, told: set[str]) -> list[Approved]:
    """Approve what can be; a request that cannot does not end the watch, and is told once."""
    try:
        return approve_pending(session, secret)
    except InvitationError as error:
        if error.detail not in told:
            typer.echo(for_terminal("odc", error), err=True)
            told.add(error.detail)
        return []
