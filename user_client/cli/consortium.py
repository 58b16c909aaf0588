"""`odc consortium`: what only the lead institution does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import InputError, InvitationError
from protocol.identity import fingerprint
from protocol.messages import Role
from runtime.files import read_bytes, write_whole
from runtime.terminal import day, minute, printable
from user_client.cli.options import AsJson, PassphraseFile, can_ask, open_session, options_of, show
from user_client.custody.authority import Authority
from user_client.custody.protection import protect as protect_directory
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.sdk import (
    Approved,
    Member,
    NameMapping,
    Revoked,
    Session,
    Waiting,
    approve_checked,
    approve_waiting,
    check_request,
    create_consortium,
    invitations,
    members,
    read_authority,
    unlock_root,
    waiting_requests,
)
from user_client.sdk import invite as make_invitation
from user_client.sdk import revoke as revoke_party
from user_client.sdk.consortium import ANALYST
from user_client.transport import ATTEMPTS

app = typer.Typer(no_args_is_help=True, help="The lead institution: root, invitations, certificates.")

FIRST_PAUSE_S: Final = 0.1
WATCH_S: Final = 2.0
"""A watch looks again after the first, and less often while nobody comes."""


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
    replace: Annotated[
        bool, typer.Option("--replace", help="take a name that was used before; its unused invitation ends")
    ] = False,
    ca: Annotated[
        Path | None, typer.Option(help="the CA of the institution's own PKI, whose word we want for its key")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="with --ca: its name there, dns:HOST, uri:URI, email:ADDRESS or subject:RFC4514"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a one-time invitation for an institution. It holds a secret: send it like a password."""
    if (ca is None) != (name is None):
        raise InputError("--ca and --name belong together: which CA, and whom it has to name")
    mapping = NameMapping(read_authority(read_bytes(ca)), name) if ca and name is not None else None
    path = out or Path(f"{party}.invitation.json")
    with open_session(context) as session:
        role: Role = "analyst" if party == ANALYST else "institution"
        invitation = make_invitation(session, party, role=role, replace_earlier=replace, mapping=mapping)
    write_whole(path, invitation.to_json().encode())
    show(
        as_json,
        {
            "party": party,
            "invitation": str(path),
            "root_fingerprint": invitation.root_fingerprint,
            "certificate_name": invitation.certificate_name,
        },
        lambda: (
            f"invitation for {party} written to {path}; it ends in 14 days\n"
            f"root to compare by telephone: {invitation.root_fingerprint}"
            + (f"\nit has to come with its own certificate: {_mapping(mapping)}" if mapping else "")
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
                "ends": day(one.expires_at),
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
        revoked = revoke_party(session, party, secret)
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
            f"where the analyst itself is not believed, send them {path}"
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
    party: Annotated[
        list[str] | None, typer.Option(help="sign for this party alone; repeat for more")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="sign without asking")] = False,
    watch: Annotated[
        float,
        typer.Option(
            help="seconds to go on signing, without asking, until all who are invited have joined; "
            "with --request too"
        ),
    ] = 0,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the requests for certificates at the analyst, or its own request file, and sign on consent."""
    with open_session(context, attempts=1 if watch else ATTEMPTS) as session:
        work = _Approval(session, partial(options_of(context).passphrase, passphrase_file), set(party or ()))
        approved: list[Approved] = []
        if request is not None:
            approved += work.of_file(request, out, hosts=host or (), is_agreed=yes)
        if watch:
            approved += work.watch(watch)
        elif request is None:
            approved += work.once(is_agreed=yes)
    rows = [{"party": one.identity.name, "role": one.identity.role} for one in approved]
    show(
        as_json,
        {"approved": rows, "certificate": str(out) if request else None},
        lambda: "\n".join(f"approved {row['party']} as {row['role']}" for row in rows) or "no requests wait",
    )
    if work.refused and not watch:
        raise InvitationError("; ".join(work.refused))


class _Approval:
    """One sitting of the lead: signs for the parties chosen, or all, with a root key that is opened once."""

    def __init__(self, session: Session, passphrase: Callable[[], str], parties: set[str]) -> None:
        self._session, self._passphrase, self._parties = session, passphrase, parties
        self.refused: list[str] = []
        """Why requests cannot be signed, each once."""

    @cached_property
    def _root(self) -> Authority:
        return unlock_root(self._session, self._passphrase())

    def of_file(self, request: Path, out: Path, *, hosts: Sequence[str], is_agreed: bool) -> list[Approved]:
        """Sign what the analyst has sent as a file, before it serves."""
        waiting = check_request(self._session, read_bytes(request), hosts=hosts)
        _confirm([waiting], is_agreed=is_agreed)
        approved = approve_checked(self._session, waiting, self._root)
        write_whole(out, approved.certificate.public_bytes(Encoding.PEM))
        typer.echo(f"the certificate is in {out}", err=True)
        return [approved]

    def once(self, *, is_agreed: bool) -> list[Approved]:
        waiting = self._waiting()
        if not waiting:
            return []
        _confirm(waiting, is_agreed=is_agreed)
        return approve_waiting(self._session, waiting, self._root)

    def watch(self, seconds: float) -> list[Approved]:
        """Sign what comes, and say so.

        Neither a request that cannot be signed nor an analyst that is not there yet ends the watch.
        """
        _ = self._root  # while somebody is there to be asked, and to be told that the passphrase is wrong
        approved: list[Approved] = []
        end, pause_s, is_told = time.monotonic() + seconds, FIRST_PAUSE_S, False
        while True:
            try:
                signed, is_told = self._signed_now(), False
            except TlsFailedError:
                raise  # waiting does not mend it
            except ConnectionFailedError as error:
                if time.monotonic() >= end:
                    raise
                if not is_told:
                    typer.echo(f"{self._now()} {printable(error.detail)}; still watching", err=True)
                signed, is_told = [], True
            approved += signed
            if not self._is_awaiting() or time.monotonic() >= end:
                return approved
            pause_s = FIRST_PAUSE_S if signed else pause_s
            time.sleep(pause_s)
            pause_s = min(1.25 * pause_s, WATCH_S)

    def _signed_now(self) -> list[Approved]:
        waiting = self._waiting()
        approved = approve_waiting(self._session, waiting, self._root)
        for one in waiting:
            typer.echo(f"{self._now()} signed for {_in_words(one)}", err=True)
        return approved

    def _now(self) -> str:
        return minute(self._session.clock())

    def _waiting(self) -> list[Waiting]:
        waiting, refused = waiting_requests(self._session)
        for reason in refused:
            if reason not in self.refused:
                self.refused.append(reason)
                typer.echo(f"cannot be signed: {printable(reason)}", err=True)
        return [one for one in waiting if not self._parties or one.identity.name in self._parties]

    def _is_awaiting(self) -> bool:
        """Whether an institution still may answer an invitation of ours."""
        now = self._session.clock()
        return any(
            one.role == "institution"
            and one.expires_at > now
            and (not self._parties or one.party in self._parties)
            for one in invitations(self._session)
        )


def _confirm(waiting: Sequence[Waiting], *, is_agreed: bool) -> None:
    """Show what would be signed and ask; raises `InputError` if nobody agrees."""
    for one in waiting:
        typer.echo(_in_words(one), err=True)
    if is_agreed:
        return
    if not can_ask():
        names = ", ".join(one.identity.name for one in waiting)
        error = InputError(f"nobody has agreed to sign for {names}, and there is no terminal to ask at")
        error.hint = "compare the keys, then sign with --yes, or for one with --party NAME --yes"
        raise error
    if not typer.confirm(f"Sign {len(waiting)} certificates?", err=True):
        raise InputError("nothing was signed")


def _in_words(one: Waiting) -> str:
    parts = [f"{one.identity.name} as {one.identity.role}"]
    parts.append(f"by {one.kind} {one.request_id[:8]}")
    if one.since is not None:
        parts.append(f"since {minute(one.since)}")
    if one.hosts:
        parts.append(f"server names {', '.join(one.hosts)}")
    lines = [", ".join(parts), f"  key {one.key_fingerprint}"]
    if one.mapping is not None:
        lines.append(f"  its own certificate holds: {_mapping(one.mapping)}")
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
