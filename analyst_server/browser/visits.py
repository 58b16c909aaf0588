"""Who looks at a page: by a certificate, or by an API token that was typed once.

The token is kept by the browser alone, in a sealed cookie, and is checked again with every page: one that is
revoked opens nothing any more (docs/adr/0045).
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import Depends, Request
from starlette.responses import Response

from analyst_server.api.access import scope_of
from analyst_server.api.admission import Rates
from analyst_server.services import api_tokens
from analyst_server.services.acts import Actor, act_as
from analyst_server.services.analyst import Analyst
from analyst_server.services.api_tokens import Grant
from pages.guard import Guard
from protocol.errors import NotPermittedError, TokenRefusedError
from protocol.identity import Identity
from protocol.operations import Operation
from protocol.tokens import Scope, token_digest, token_id

COOKIE: Final = "__Host-odc-pages"
"""The prefix lets a browser take it over TLS only, and for this host alone."""
IDLE_S: Final = 30 * 60
"""A session ends when nobody has looked at a page for so long,"""
LONGEST_S: Final = 8 * 3600
"""and after this in any case."""
_RENEWED_EVERY_S: Final = 60
_SIGN_INS_PER_S: Final = 0.5
_MOST_ENDED: Final = 10_000
_LABEL: Final = "odc/v1/pages"


class SignInNeededError(Exception):
    """A page that is for somebody, asked for by nobody."""


@dataclass(frozen=True)
class Session:
    """What a sealed cookie says."""

    id: str
    token: str = field(repr=False)
    began: int
    seen: int

    @property
    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "token": self.token, "began": self.began, "seen": self.seen}

    def is_over(self, now: int) -> bool:
        return not (self.began <= now < self.began + LONGEST_S and now < self.seen + IDLE_S)


@dataclass(frozen=True)
class Visitor:
    """Who looks, and what they may do."""

    grant: Grant
    subject: str = field(repr=False)
    """Names the session, for the tokens of its forms."""
    by_certificate: bool
    actor: Actor | None = None
    """Who acts by a token; of a certificate `api.access` has said it."""

    @property
    def name(self) -> str:
        return self.grant.holder.name if self.grant.holder else "the operator"

    @property
    def holder(self) -> Identity | None:
        return self.grant.holder

    def require(self, operation: Operation, collaboration_id: str | None = None) -> None:
        """Raise `NotPermittedError` unless the visitor may call an operation, by the table of operations."""
        scope = scope_of(operation)
        if scope is not None:
            self._require_scope(scope, collaboration_id)
        elif not self.by_certificate:
            error = NotPermittedError("this page needs a client certificate: no API token is enough")
            error.hint = "open it with a browser that has the institution's certificate, or use `odc` there"
            raise error

    def _require_scope(self, scope: Scope, collaboration_id: str | None) -> None:
        try:
            self.grant.require(scope, collaboration_id)
        except NotPermittedError as error:
            is_operator = self.holder is None and not self.by_certificate
            if is_operator and scope == "manage" and self.grant.scope != "manage":
                error.hint = (
                    "create a token with `odc-analyst token create --scope manage`, and sign in with it"
                )
            raise

    def may(self, operation: Operation, collaboration_id: str | None = None) -> bool:
        """Return whether `require` would let the visitor through."""
        try:
            self.require(operation, collaboration_id)
        except NotPermittedError:
            return False
        return True


class Sessions:
    """Opens and ends the sessions of one analyst's pages."""

    def __init__(self, analyst: Analyst) -> None:
        self.analyst, self.guard = analyst, Guard(analyst.secret_for(_LABEL))
        self.sign_ins = Rates(_SIGN_INS_PER_S)
        self._ended: OrderedDict[str, None] = OrderedDict()
        """Sessions that were signed out of; their cookies would be good until they end by themselves."""

    def __repr__(self) -> str:
        return f"<Sessions, {len(self._ended)} signed out>"

    def begin(self, token: str) -> str:
        """Return the cookie of a new session; raises `TokenRefusedError` and what a certificate may raise."""
        api_tokens.check(self.analyst, token)
        now = self.analyst.clock()
        return self._cookie(Session(secrets.token_hex(16), token, now, now))

    def end(self, cookie: str) -> None:
        """Let the session of a cookie be over, whoever still has it."""
        if (session := self._open(cookie)) is not None:
            self._ended[session.id] = None
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def visitor(self, request: Request) -> Visitor:
        """Return who looks; raises `SignInNeededError`."""
        identity: Identity | None = request.state.identity
        if identity is not None:
            shown = sha256(request.state.certificate).hexdigest()
            return Visitor(Grant(identity), f"certificate {shown}", by_certificate=True)
        session = self._open(request.cookies.get(COOKIE, ""))
        if session is None:
            raise SignInNeededError
        try:
            grant = api_tokens.check(self.analyst, session.token)
        except TokenRefusedError:
            raise SignInNeededError from None
        # for the access log, and for `renew`
        request.state.grant, request.state.token_id = grant, token_id(token_digest(session.token))
        request.state.session = session
        actor = api_tokens.actor_of(grant, session.token)
        return Visitor(grant, f"session {session.id}", by_certificate=False, actor=actor)

    def renew(self, request: Request, response: Response) -> None:
        """Let a session that is in use go on."""
        session: Session | None = getattr(request.state, "session", None)
        now = self.analyst.clock()
        if session is not None and session.seen + _RENEWED_EVERY_S <= now:
            self.keep(response, self._cookie(Session(session.id, session.token, session.began, now)))

    @staticmethod
    def keep(response: Response, cookie: str) -> None:
        """Let the browser keep a cookie until it is closed."""
        response.set_cookie(COOKIE, cookie, secure=True, httponly=True, samesite="strict")

    def _cookie(self, session: Session) -> str:
        return self.guard.seal(session.as_json)

    def _open(self, cookie: str) -> Session | None:
        opened = self.guard.open(cookie)
        if opened is None:
            return None
        try:
            session = Session(**opened)
        except TypeError:  # of another version
            return None
        is_over = session.is_over(self.analyst.clock()) or session.id in self._ended
        return None if is_over else session


def sessions_of(request: Request) -> Sessions:
    """Return the sessions of the application that serves a request."""
    sessions: Sessions = request.app.state.sessions
    return sessions


async def _visitor(request: Request) -> Visitor:
    found = await to_thread.run_sync(sessions_of(request).visitor, request)
    if found.actor is not None:  # here, for what a thread says of itself ends with it
        act_as(found.actor)
    return found


TheVisitor = Annotated[Visitor, Depends(_visitor)]
"""Who looks at the page; without one the browser is led to the sign-in."""
TheSessions = Annotated[Sessions, Depends(sessions_of)]
