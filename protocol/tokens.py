"""API tokens: how other systems of an institution, or of the analyst, ask without a certificate.

A token is 256 random bits. The analyst keeps its digest alone, which needs no salt and no slow hash: there
is nothing to guess.
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from protocol.codec import explain
from protocol.errors import InputError, MalformedMessageError, TokenRefusedError
from protocol.messages import UnixTime
from protocol.texts import FieldText, Identifier, is_id

TOKEN_PREFIX: Final = "odct_"  # noqa: S105  # what tells a token from other secrets, in a file or a scanner
_TOKEN: Final = re.compile(TOKEN_PREFIX + "[A-Za-z0-9_-]{43}")
_ID_DIGITS: Final = 32


Scope = Literal["read", "manage"]
"""What a token allows: reading, or also the steps of the analyst's operator."""


class TokenRequest(BaseModel):
    """A request to accept a token that the institution generated: no answer ever contains one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    label: FieldText = ""
    collaboration_id: Identifier | None = None
    """The one collaboration it is for; without it, all collaborations of the institution."""
    expires_at: UnixTime

    @classmethod
    def of(cls, **asked: Any) -> TokenRequest:
        """Return the request for what a person has asked for; raises `InputError` for what cannot be."""
        try:
            return cls(**asked)
        except ValidationError as error:
            raise InputError(f"the token cannot be created: {explain(error)}") from None

    @classmethod
    def from_json(cls, data: bytes) -> TokenRequest:
        """Raises `MalformedMessageError`."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise MalformedMessageError("token request", explain(error)) from None


class TokenRow(BaseModel):
    """A token as it is listed, without the token itself."""

    model_config = ConfigDict(frozen=True, strict=True)

    token_id: Identifier
    label: FieldText
    scope: Scope
    collaboration_id: Identifier | None
    created_at: UnixTime
    expires_at: UnixTime
    last_used_at: UnixTime | None
    revoked: bool

    @classmethod
    def from_answer(cls, value: Any) -> TokenRow:
        """Raises `MalformedMessageError`."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise MalformedMessageError("API token", explain(error)) from None


def new_token() -> str:
    """Return a new random token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    """Return the digest to store, 64 hexadecimal digits; raises `TokenRefusedError` if it is no token."""
    if not _TOKEN.fullmatch(token):
        raise TokenRefusedError("this is no API token")
    return sha256(b"odc/v1/api-token\x00" + token.encode()).hexdigest()


def token_id(digest: str) -> str:
    """Return the id of a token for lists and logs: it grants nothing."""
    return digest[:_ID_DIGITS]


def id_of(named: str) -> str:
    """Return the id of a token that a person named by its id or by the token itself.

    The token must not get into an address, which servers log.

    Raises `InputError`.
    """
    if named.startswith(TOKEN_PREFIX):
        return token_id(token_digest(named))
    if not is_id(named):
        raise InputError("a token's id is 32 hexadecimal digits; `token list` shows it")
    return named
