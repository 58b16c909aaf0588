"""The invitation: a one-time file from the lead institution, and the request that answers it.

It carries everything a newcomer has to know, the join secret included, so it travels like a
password: by a channel the analyst does not see.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from protocol.codec import explain
from protocol.envelope import join_mac
from protocol.errors import InputError, InvitationError, MalformedMessageError
from protocol.identity import TrustRoot, certificate_request, fingerprint, load_certificate
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import Enrolment, Role
from protocol.texts import Identifier, Name, PartyName

_Url = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+/?$", max_length=2000)]
_Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def is_analyst_url(url: str) -> bool:
    """Return whether an address can be an analyst's: https, a host and perhaps a port."""
    try:
        TypeAdapter(_Url).validate_python(url)
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number, or too large
        return False


class Invitation(BaseModel):
    """The content of an invitation file (JSON)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    odc_invitation: Literal[1] = 1
    consortium: Name
    consortium_id: Identifier
    role: Role
    party: PartyName
    analyst_url: _Url
    invitation_id: Identifier
    join_secret: _Hex32 = Field(repr=False)
    expires_at: int
    root_fingerprint: str
    root_certificate: str = Field(repr=False)
    ticket: str = Field(repr=False)
    """Base64 of the signed `InvitationTicket`."""
    certificate_name: Name | None = None
    """The name in the certificate of the party's own PKI (`NameMapping`), if the lead requires one."""

    @classmethod
    def from_json(cls, text: str) -> Invitation:
        """Parse a file; raises `InvitationError` if it is no invitation."""
        if len(text) > MAX_MESSAGE_BYTES:
            raise InvitationError("the file is too large for an invitation")
        try:
            return cls.model_validate_json(text)
        except ValueError:  # its message would repeat the secret
            raise InvitationError("the file is not an ODC invitation") from None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2, exclude_none=True) + "\n"

    def trust_root(self) -> TrustRoot:
        """Return the root certificate that the newcomer trusts from now on.

        The fingerprint is what people compare by telephone, so it has to be this root's.

        Raises `CertificateRefusedError`, and `InvitationError` if the parts do not belong together.
        """
        root = TrustRoot(load_certificate(self.root_certificate.encode()))
        if self.root_fingerprint != fingerprint(root.certificate):
            raise InvitationError("the file was changed: its fingerprint is not that of its root")
        if self.consortium_id != root.consortium_id:
            raise InvitationError("the file was changed: its root is of another consortium")
        return root

    def answer(self, key: ec.EllipticCurvePrivateKey, chain: Sequence[bytes] = ()) -> Enrolment:
        """Return the request for a certificate for ``key``. The lead decides about role and names.

        ``chain`` is what the party's own PKI says of the key, if the invitation asks for it.
        """
        csr = certificate_request(key, self.party)
        try:
            ticket = base64.b64decode(self.ticket, validate=True)
            mac = join_mac(bytes.fromhex(self.join_secret), ticket, csr, chain)
            return Enrolment(ticket=ticket, csr=csr, chain=tuple(chain), mac=mac)
        except ValueError:  # not base64, or nothing
            raise InvitationError("the file is damaged: its ticket cannot be read") from None


class Rejection(BaseModel):
    """Why the lead issues no certificate for a request, or a party does not sign terms (JSON)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    reason: Name

    @classmethod
    def body_of(cls, reason: str) -> bytes:
        """Return the JSON that is sent; raises `InputError` if the reason is no line of text."""
        try:
            return cls(reason=reason).model_dump_json().encode()
        except ValidationError as error:
            raise InputError(explain(error)) from None

    @classmethod
    def from_json(cls, data: bytes) -> Rejection:
        """Raises `MalformedMessageError`."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise MalformedMessageError("rejection", explain(error)) from None
