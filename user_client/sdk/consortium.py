"""The lead institution's consortium: root, invitations, certificates."""

from __future__ import annotations

import base64
import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import ValidationError

from protocol.codec import explain
from protocol.envelope import sign
from protocol.errors import CertificateRefusedError, InputError, OdcError, UnreadableFileError
from protocol.identity import (
    Identity,
    TrustRoot,
    certified_name,
    fingerprint,
    load_certificate,
)
from protocol.invitation import Invitation, is_analyst_url
from protocol.limits import MAX_NAME_CHARS
from protocol.messages import InvitationTicket, Role
from protocol.operations import PUBLISH_REVOCATIONS
from protocol.own_pki import NameMapping
from runtime.files import write_whole
from user_client.custody.authority import Authority
from user_client.custody.home import Home, Membership, revocations_der
from user_client.custody.passphrase import require_long_enough
from user_client.errors import NotJoinedError
from user_client.sdk.session import Session

ANALYST: Final = "analyst"
"""The analyst's name in every consortium; no institution may have it."""
INVITATION_VALIDITY_S: Final = 14 * 24 * 3600

MemberState = Literal["valid", "ended", "revoked"]


@dataclass(frozen=True)
class Revoked:
    """How much was revoked for a party."""

    certificates: int
    invitations: int


@dataclass(frozen=True)
class Member:
    """A certificate this root has issued, and whether it is valid."""

    identity: Identity
    certificate: x509.Certificate
    state: MemberState


def require_no_consortium(home: Home) -> None:
    """Raise `InputError` if the state directory belongs to a consortium already."""
    if home.is_joined():
        raise InputError(f"{home.path} belongs to a consortium already; choose another --home")


def create_consortium(
    session: Session, *, name: str, party: str, analyst_url: str, passphrase: str
) -> Membership:
    """Generate the root, store it locked, and make this institution the lead.

    Raises `InputError` if the state directory belongs to a consortium already, or an argument is malformed.
    """
    home, now = session.home, session.clock()
    require_no_consortium(home)
    require_long_enough(passphrase)
    authority = Authority.create(name, now=now)
    root = TrustRoot(authority.certificate)
    membership = Membership(name, root.consortium_id, analyst_url, "lead", party)
    _ticket(root.consortium_id, "lead", party, expires_at=now)  # checks the name as in every invitation
    if not is_analyst_url(analyst_url):
        raise InputError("the analyst's address must be https://HOST:PORT and nothing more")
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InputError(f"the name of the consortium must be 1 to {MAX_NAME_CHARS} printable characters")
    certificate = authority.issue(home.make_key().public_key(), membership.identity, now=now)
    record(home, certificate)
    if home.is_protected():
        home.unlock(passphrase)  # one passphrase for the directory and the root
        home.write_secret(home.root_key_path, authority.private_bytes())
    else:
        write_whole(home.root_key_path, authority.lock(passphrase))
    write_whole(home.consortium_path / "root.pem", authority.certificate.public_bytes(Encoding.PEM))
    home.write_membership(membership, certificate, authority.certificate)
    return membership


def invite(
    session: Session,
    party: str,
    *,
    role: Role = "institution",
    replace_earlier: bool = False,
    mapping: NameMapping | None = None,
) -> Invitation:
    """Create a one-time invitation, and store its secret to recognise the answer.

    Parameters
    ----------
    replace_earlier : bool
        Allow a name that was used before. Its unused invitation becomes invalid, and others may take the new
        party for the one before.
    mapping : NameMapping, optional
        Require a certificate of the party's own PKI by this CA and for this name, now and whenever it renews.
        The next invitation for the party replaces or removes this requirement.

    Raises
    ------
    InputError
        If the name is malformed or belongs to another party, or if a mapping is given for the analyst.
    """
    home, membership, known = session.home, require_leading(session), _Known.of(session)
    if party == membership.party or (party == ANALYST) != (role == "analyst"):
        raise InputError(f"{party} is the name of the {'lead' if party == membership.party else 'analyst'}")
    if mapping is not None and role == "analyst":
        raise InputError("only an institution can be required to have a certificate of its own PKI")
    known.refuse_valid(party)
    if not replace_earlier:
        known.refuse_used(party)
    invitation = _invitation(session, role, party, certificate_name=mapping.name if mapping else None)
    _store(home, invitation, known.unused.get(party, []), mapping)
    return invitation


def invite_all(session: Session, parties: Sequence[str]) -> list[Invitation]:
    """Return an invitation of each institution: a new one, or the one that it has not used yet.

    What is known of the consortium is read once, and nothing is written if a name is refused.

    Raises
    ------
    InputError
        If a name is malformed, is there twice, or belongs to a party: the lead, the analyst, or one that
        has or had a certificate.
    """
    membership, known = require_leading(session), _Known.of(session)
    for party, times in Counter(parties).items():
        if times > 1 or party in (membership.party, ANALYST):
            raise InputError(f"{party} is there twice" if times > 1 else f"{party} is no new institution")
        known.refuse_valid(party)
        if not known.open_invitations(party):
            known.refuse_used(party)
    still_open = {party: known.open_invitations(party) for party in parties}
    new = {party: _invitation(session, "institution", party) for party in parties if not still_open[party]}
    for party, invitation in new.items():
        _store(session.home, invitation, known.unused.get(party, []))
    return [new[party] if party in new else still_open[party][-1] for party in parties]


def _store(
    home: Home, invitation: Invitation, replaced: Sequence[Invitation], mapping: NameMapping | None = None
) -> None:
    """Keep an invitation, with what its answer must satisfy, in the place of earlier ones for the party."""
    if mapping is not None:
        _write_mapping(home, invitation.party, mapping)
    home.write_secret(invitation_path(home, invitation.invitation_id), invitation.to_json().encode())
    for earlier in replaced:
        invitation_path(home, earlier.invitation_id).unlink(missing_ok=True)
    if mapping is None:  # last: no answer to an earlier invitation may skip its check
        _mapping_path(home, invitation.party).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Known:
    """What the lead knows of the names in its consortium, at one moment."""

    now: int
    certified: Mapping[str, list[Member]]
    unused: Mapping[str, list[Invitation]]

    @classmethod
    def of(cls, session: Session) -> Self:
        certified, unused = defaultdict[str, list[Member]](list), defaultdict[str, list[Invitation]](list)
        for member in members(session):
            certified[member.identity.name].append(member)
        for invitation in invitations(session):
            unused[invitation.party].append(invitation)
        return cls(session.clock(), certified, unused)

    def open_invitations(self, party: str) -> list[Invitation]:
        """Return those that the party may still use."""
        return [one for one in self.unused.get(party, []) if one.expires_at > self.now]

    def refuse_valid(self, party: str) -> None:
        """Raise `InputError` if the party has a valid certificate."""
        if any(member.state == "valid" for member in self.certified.get(party, [])):
            error = InputError(f"{party} has a valid certificate already")
            error.hint = f"it renews with `odc renew`; for another key: `odc consortium revoke {party}` first"
            raise error

    def refuse_used(self, party: str) -> None:
        """Raise `InputError` if a name was invited or certified before."""
        if self.open_invitations(party):
            error = InputError(f"there is an unused invitation for {party}")
            error.hint = "to withdraw it and create another, repeat the command with --replace"
            raise error
        if before := self.certified.get(party):
            error = InputError(f"{party} had a certificate before, now {before[-1].state}")
            error.hint = "if it is the same institution, or its successor, invite it by itself with --replace"
            raise error


def _ticket(consortium_id: str, role: Role, party: str, *, expires_at: int) -> InvitationTicket:
    """Return the ticket of a new invitation; raises `InputError` if the party's name is malformed."""
    try:
        return InvitationTicket(
            consortium_id=consortium_id,
            invitation_id=secrets.token_hex(16),
            role=role,
            party=party,
            expires_at=expires_at,
        )
    except ValidationError as error:
        raise InputError(explain(error)) from None


def _invitation(
    session: Session, role: Role, party: str, *, certificate_name: str | None = None
) -> Invitation:
    """Return an invitation with a new join secret; raises `InputError` if the party's name is malformed."""
    home, membership = session.home, session.membership
    expires_at = session.clock() + INVITATION_VALIDITY_S
    ticket = _ticket(membership.consortium_id, role, party, expires_at=expires_at)
    root_pem = (home.consortium_path / "root.pem").read_text()
    return Invitation(
        consortium=membership.consortium,
        consortium_id=membership.consortium_id,
        role=ticket.role,
        party=ticket.party,
        analyst_url=membership.analyst_url,
        invitation_id=ticket.invitation_id,
        join_secret=secrets.token_hex(32),
        expires_at=ticket.expires_at,
        root_fingerprint=fingerprint(load_certificate(root_pem.encode())),
        root_certificate=root_pem,
        ticket=base64.b64encode(sign(ticket, home.key(), home.certificate())).decode(),
        certificate_name=certificate_name,
    )


def renew_own(session: Session, passphrase: str) -> x509.Certificate:
    """Issue a new certificate for the lead's own key; nobody else has to approve it."""
    home = session.home
    authority = unlock_root(session, passphrase)
    identity = session.membership.identity
    certificate = authority.issue(home.key().public_key(), identity, now=session.clock())
    record(home, certificate)
    home.write_certificate(certificate)
    return certificate


def members(session: Session) -> list[Member]:
    """Return every certificate this root has issued, sorted by name and age."""
    home, now = session.home, session.clock()
    root = home.root()
    found: list[Member] = []
    for path in (home.consortium_path / "issued").glob("*.pem"):
        certificate = load_certificate(path.read_bytes())
        found.append(Member(certified_name(certificate), certificate, state_of(certificate, root, now)))
    return sorted(found, key=lambda one: (one.identity.name, one.certificate.not_valid_before_utc))


def state_of(certificate: x509.Certificate, root: TrustRoot, now: int) -> MemberState:
    """Return whether a certificate of this root is valid, has ended, or is on the list that ``root`` has."""
    if root.revocations is not None and certificate.serial_number in root.revocations.revoked_at:
        return "revoked"
    return "ended" if certificate.not_valid_after_utc.timestamp() <= now else "valid"


def invitations(session: Session) -> list[Invitation]:
    """Return the invitations that were not used yet, including expired ones."""
    require_leading(session)
    found: list[Invitation] = []
    for path in sorted(session.home.consortium_path.glob("invitations/*.json")):
        try:
            found.append(Invitation.from_json(session.home.read_secret(path).decode()))
        except UnreadableFileError:
            if path.exists():  # else another command has used or withdrawn it meanwhile
                raise
    return found


def never_invited(session: Session, parties: Sequence[str]) -> list[str]:
    """Return those of the parties who have neither a certificate nor an invitation of this lead.

    Nobody but the lead can tell, and its invitations are not read in a protected directory: nothing is
    returned there.
    """
    home = session.home
    if not home.root_key_path.exists() or home.is_protected():
        return []
    known = {member.identity.name for member in members(session)}
    known |= {each.party for each in invitations(session)}
    return [party for party in parties if party not in known]


def revoke(session: Session, party: str, passphrase: str) -> Revoked:
    """Revoke every certificate and withdraw every unused invitation of a party, and tell the analyst.

    The analyst refuses the certificates from then on. The revocation list is stored before it is sent, and
    calling again sends it again. A withdrawn invitation needs no list: the lead signs no answer to it.

    Returns
    -------
    Revoked
        How many certificates of the party are revoked now, and how many invitations were withdrawn.

    Raises
    ------
    InputError
        If the party has neither a certificate nor an invitation, or is the lead itself.
    """
    if party == require_leading(session).party:
        raise InputError("the lead institution cannot revoke itself: found a new consortium")
    home, now = session.home, session.clock()
    serials = {one.certificate.serial_number: now for one in members(session) if one.identity.name == party}
    unused = [one for one in invitations(session) if one.party == party]
    if not serials and not unused:
        error = InputError(f"no certificate was issued to {party}")
        error.hint = "`odc consortium list` shows the members"
        raise error
    for invitation in unused:
        invitation_path(home, invitation.invitation_id).unlink(missing_ok=True)
    if not serials:
        return Revoked(0, len(unused))
    with home.changing_revocations() as root:
        held = root.revocations
        known = held.revoked_at if held else {}
        if not serials.keys() <= known.keys():
            number = held.number + 1 if held else 1
            der = unlock_root(session, passphrase).revoke({**serials, **known}, number=number, now=now)
            home.write_revocations(der)
    try:
        _publish_revocations(session)
    except OdcError:
        if party != ANALYST:  # a revoked analyst need not be told; calling again tells its successor
            raise
    return Revoked(len(serials), len(unused))


def _publish_revocations(session: Session) -> None:
    """Send the stored list, and then a newer one that another command has stored and sent meanwhile."""
    while True:
        sent = revocations_der(session.home.revocations_path.read_bytes())
        try:
            session.connection.ask(PUBLISH_REVOCATIONS, sent)
        except CertificateRefusedError:  # also of one that is older than the analyst's
            if revocations_der(session.home.revocations_path.read_bytes()) == sent:
                raise
        else:
            return


def require_leading(session: Session) -> Membership:
    """Return our membership; raises `NotJoinedError` unless we are the lead institution."""
    membership = session.membership
    if membership.role != "lead":
        error = NotJoinedError(f"{membership.party} is not the lead institution of {membership.consortium}")
        error.hint = "this command is for the lead institution alone"
        raise error
    return membership


def unlock_root(session: Session, passphrase: str) -> Authority:
    """Unlock the root key of the consortium we lead; raises `PassphraseError`."""
    require_leading(session)
    home = session.home
    certificate = load_certificate((home.consortium_path / "root.pem").read_bytes())
    if home.is_protected():  # with the passphrase of the root key
        if not home.is_unlocked:
            home.unlock(passphrase)
        return Authority.from_bytes(home.read_secret(home.root_key_path), certificate)
    return Authority.unlock(home.root_key_path.read_bytes(), passphrase, certificate)


def invitation_path(home: Home, invitation_id: str) -> Path:
    """Return where the lead stores an invitation until it is used."""
    return home.consortium_path / "invitations" / f"{invitation_id}.json"


def mapping_of(home: Home, party: str) -> NameMapping | None:
    """Return the CA and name required of a party's certificate of its own PKI; None if none is required."""
    path = _mapping_path(home, party)
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_bytes())
        return NameMapping(load_certificate(stored["ca"].encode()), stored["name"])
    except (ValueError, TypeError, KeyError, AttributeError, OdcError):
        raise UnreadableFileError(path, "it is damaged") from None


def _write_mapping(home: Home, party: str, mapping: NameMapping) -> None:
    stored = {"ca": mapping.authority.public_bytes(Encoding.PEM).decode(), "name": mapping.name}
    write_whole(_mapping_path(home, party), json.dumps(stored, indent=2).encode())


def _mapping_path(home: Home, party: str) -> Path:
    return home.consortium_path / "mappings" / f"{party}.json"


def record(home: Home, certificate: x509.Certificate) -> None:
    """Store a certificate before it is handed out: one that is not stored could not be revoked."""
    path = home.consortium_path / "issued" / f"{certificate.serial_number:x}.pem"
    write_whole(path, certificate.public_bytes(Encoding.PEM))
