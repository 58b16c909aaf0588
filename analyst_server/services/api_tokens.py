"""API tokens: creating, listing and revoking them, and what the holder of one may do.

An institution's token reads what the institution may read of its rounds, and nothing that is signed or
sealed for it. A token of the analyst's operator reads every round and, with the scope ``manage``, takes the
operator's steps. An institution's token ends, or is revoked, together with the certificate that created it.
"""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass
from typing import Final

from analyst_server.services.acts import Actor, note
from analyst_server.services.analyst import Analyst, find, find_as_member
from analyst_server.store import Token, Unit
from protocol.errors import (
    AlreadyExistsError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    TokenRefusedError,
)
from protocol.identity import Identity, load_certificate
from protocol.limits import MAX_TOKEN_S, MAX_TOKENS_OF_A_PARTY
from protocol.tokens import Scope, TokenRequest, TokenRow, token_digest, token_id

log = logging.getLogger(__name__)

NOTED_EVERY_S: Final = 60
"""How often the last use is noted: a write for each request would cost more than the request."""


@dataclass(frozen=True)
class Grant:
    """What the sender of a request may do by a certificate or a token."""

    holder: Identity | None
    """The member whose collaborations it sees; None is the analyst's operator, who sees all."""
    scope: Scope = "read"
    only: str | None = None
    """The only collaboration it is valid for; None means all."""

    def require(self, scope: Scope, collaboration_id: str | None) -> None:
        """Raise `NotPermittedError` unless the grant covers a scope and a collaboration."""
        if scope == "manage" and self.scope != "manage":
            raise NotPermittedError(
                "this request needs an API token of the analyst's operator with the scope manage"
            )
        if collaboration_id is not None and self.only not in (None, collaboration_id):
            raise NotPermittedError("this API token is for another collaboration")


def actor_of(grant: Grant, token: str) -> Actor:
    """Return who acts with a token that grants this."""
    return Actor("token", token_id(token_digest(token)), is_operator=grant.holder is None)


def check(analyst: Analyst, token: str) -> Grant:
    """Return what a token grants now.

    Raises
    ------
    TokenRefusedError
        If the token is unknown, revoked or past its end.
    CertificateRefusedError, CertificateRevokedError
        If the certificate that created it is no longer valid.
    """
    digest, now = token_digest(token), analyst.clock()
    with analyst.records.begin() as unit:
        row = unit.token(token_id(digest))
    if row is None or not hmac.compare_digest(row.digest, digest):
        raise TokenRefusedError("this API token is unknown")
    if row.revoked_at is not None:
        raise TokenRefusedError("this API token was revoked")
    if row.expires_at <= now:
        raise TokenRefusedError("this API token has ended")
    holder = analyst.root.identify(load_certificate(row.certificate), at=now) if row.certificate else None
    if row.last_used_at is None or row.last_used_at + NOTED_EVERY_S <= now:
        _note_use(analyst, row.id, now)
    return Grant(holder, _scope(row), row.collaboration_id)


def create(
    analyst: Analyst, sender: Identity, certificate: bytes, request: TokenRequest
) -> tuple[TokenRow, bool]:
    """Register a token that an institution generated; return it as it is listed, and whether it is new.

    Raises
    ------
    AlreadyExistsError
        If the same token was created for something else.
    NotFoundError
        If the institution is not a member of the collaboration.
    """
    if sender.role == "analyst":
        raise NotPermittedError("the analyst's own tokens are created by `odc-analyst token create`")
    with analyst.records.begin(write=True) as unit:
        if request.collaboration_id is not None:
            find_as_member(unit, request.collaboration_id, sender)
        ends = int(load_certificate(certificate).not_valid_after_utc.timestamp())
        row = _row(analyst, request, "read", min(request.expires_at, ends))
        row.party, row.certificate = sender.name, certificate
        return _keep(analyst, unit, row)


def create_for_operator(analyst: Analyst, request: TokenRequest, scope: Scope) -> TokenRow:
    """Register a token that the analyst's operator generated; return it as it is listed."""
    with analyst.records.begin(write=True) as unit:
        if request.collaboration_id is not None:
            find(unit, request.collaboration_id)
        return _keep(analyst, unit, _row(analyst, request, scope, request.expires_at))[0]


def listing(analyst: Analyst, owner: Identity | None) -> list[TokenRow]:
    """Return the tokens of an institution or, with None, of the operator, without the tokens themselves."""
    with analyst.records.begin() as unit:
        return [_shown(row) for row in unit.tokens(_party(owner))]


def revoke(analyst: Analyst, owner: Identity | None, token: str) -> None:
    """Refuse the token of an id from now on; a second time changes nothing. Raises `NotFoundError`."""
    with analyst.records.begin(write=True) as unit:
        row = unit.token(token)
        if row is None or row.party != _party(owner):
            error = NotFoundError("there is no such API token")
            error.hint = (
                "`odc token list` shows those of your institution, `odc-analyst token list` the analyst's own"
            )
            raise error
        if row.revoked_at is None:
            row.revoked_at = analyst.clock()
            note(unit, "revoke token", row.revoked_at, row.id)
    log.info("API token %s was revoked", row.id[:8])


def _party(owner: Identity | None) -> str:
    return owner.name if owner else ""


def _row(analyst: Analyst, request: TokenRequest, scope: Scope, expires_at: int) -> Token:
    now = analyst.clock()
    if not now < expires_at <= now + MAX_TOKEN_S:
        raise MalformedMessageError("token request", f"must end within {MAX_TOKEN_S // 86400} days from now")
    return Token(
        id=token_id(request.digest),
        digest=request.digest,
        scope=scope,
        party="",
        collaboration_id=request.collaboration_id,
        label=request.label,
        created_at=now,
        expires_at=expires_at,
    )


def _keep(analyst: Analyst, unit: Unit, row: Token) -> tuple[TokenRow, bool]:
    unit.alone_with(f"tokens of {row.party}")  # there are so many at most
    earlier = unit.token(row.id)
    if earlier is not None:
        asked = ("digest", "scope", "party", "collaboration_id", "label", "expires_at")
        if any(getattr(earlier, name) != getattr(row, name) for name in asked):
            raise AlreadyExistsError("this API token was created for something else")
        return _shown(earlier), False
    unit.forget_tokens(row.party, before=analyst.clock())
    if len(unit.tokens(row.party)) >= MAX_TOKENS_OF_A_PARTY:
        raise LimitExceededError("API tokens that have not ended", MAX_TOKENS_OF_A_PARTY)
    unit.add(row)
    note(unit, "create token", analyst.clock(), row.id)
    log.info("API token %s was created for %s", row.id[:8], row.party or "the operator")
    return _shown(row), True


def _note_use(analyst: Analyst, row_id: str, now: int) -> None:
    with analyst.records.begin(write=True) as unit:
        row = unit.token(row_id)
        if row is not None:
            row.last_used_at = now


def _shown(row: Token) -> TokenRow:
    return TokenRow(
        token_id=row.id,
        label=row.label,
        scope=_scope(row),
        collaboration_id=row.collaboration_id,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked=row.revoked_at is not None,
    )


def _scope(row: Token) -> Scope:
    """Return the scope of a token; an institution's token never manages."""
    return "manage" if row.scope == "manage" and not row.party else "read"
