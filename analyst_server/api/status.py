"""The handler of a status: at once, or when there is news (docs/protocol.md, "Waiting for a status")."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response

from analyst_server.api.access import Granted
from analyst_server.api.conditions import preferred_wait_s, tags
from analyst_server.api.fields import (
    IF_NONE_MATCH,
    MEMBERS,
    NOT_STORED,
    PREFER,
    PREFERENCE_APPLIED,
    UNTIL,
    WEAK_TAG,
    WHILE,
)
from analyst_server.api.surface import Says, TheAnalyst, serve
from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from analyst_server.services.changes import Changes
from protocol import operations
from protocol.answers import MOVING, Status
from protocol.identity import Identity
from protocol.states import COMPUTING, State

router = APIRouter()

_ABOUT: Final = (WEAK_TAG, NOT_STORED, PREFERENCE_APPLIED)
_SAYS: Final = (
    Says(200, fields=_ABOUT),
    Says(304, "Nothing has changed since the version that the caller has.", _ABOUT),
)


async def _changes(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


async def _most_wait_s(request: Request) -> int:
    seconds: int = request.app.state.status_wait_s
    return seconds


TheChanges = Annotated[Changes, Depends(_changes)]
MostWait = Annotated[int, Depends(_most_wait_s)]
"""Seconds for which an answer is held at most; 0: none is."""


@serve(
    router,
    operations.COLLABORATION_STATUS,
    answers=Status,
    reads=(IF_NONE_MATCH, PREFER),
    queries=(MEMBERS, UNTIL, WHILE),
    says=_SAYS,
)
async def collaboration_status(
    analyst: TheAnalyst,
    grant: Granted,
    changes: TheChanges,
    most_wait_s: MostWait,
    collaboration_id: str,
    request: Request,
    members: str = "",
    until: str = "",
    expected: Annotated[str, Query(alias=WHILE.name)] = "",
) -> Response:
    """Return the state of a collaboration, and whom it waits for; at once, or when it has changed."""
    waits_through = until == State.RELEASED
    is_own = members == "own"
    use_case = views.own_status if is_own else views.status
    look = partial(to_thread.run_sync, _look, use_case, analyst, grant.holder, collaboration_id)
    known = tags(request.headers)
    first = seen = await look()
    is_expected = first.state == expected  # who has just taken a step knows what it has led to
    wait_s = min(preferred_wait_s(request.headers), most_wait_s)
    if wait_s == 0:
        return _answer(seen, known)
    party = grant.holder.name if grant.holder else ""
    with changes.watch(collaboration_id, owner=party, party=party if is_own else None) as watch:
        if watch is None:
            return _answer(seen, known)
        ends = time.monotonic() + wait_s

        def is_no_news() -> bool:
            is_known = seen.tag in known or (is_expected and seen.tag == first.tag)
            return is_known or (waits_through and seen.is_computed_now)

        while is_no_news() and await watch.changed(ends - time.monotonic()):
            seen = await look()
        if (
            is_no_news() and seen.is_computed_now and not changes.is_closed
        ):  # how far it is is no news, but not what it was
            seen = await look()
            known = [] if b'"computing":' in seen.body else known
        return _answer(seen, known, held_s=0 if changes.is_closed else wait_s)


class _Seen(NamedTuple):
    tag: str
    """The name of this version (`tag_of`)."""
    body: bytes
    state: str
    is_computed_now: bool
    """Whether the end comes by itself; a round that is held waits for the operator."""


def _look(
    use_case: Callable[[Analyst, Identity | None, str], Status],
    analyst: Analyst,
    viewer: Identity | None,
    collaboration_id: str,
) -> _Seen:
    """Return a status as it is sent; here, in a thread, because it may have thousands of members."""
    status = use_case(analyst, viewer, collaboration_id)
    is_computed_now = status["state"] in COMPUTING and not status.get("held")
    return _Seen(f'"{tag_of(status)}"', bytes(JSONResponse(status).body), status["state"], is_computed_now)


def tag_of(status: Status) -> str:
    """Return the name of a version of a status: what moves all the time is no news."""
    members = [
        {name: value for name, value in member.items() if name not in MOVING} for member in status["members"]
    ]
    named = json.dumps({**status, "members": members, "computing": None}).encode()
    return hashlib.sha256(named).hexdigest()[:32]


def _answer(seen: _Seen, known: list[str], held_s: int = 0) -> Response:
    headers = {WEAK_TAG.name: f"W/{seen.tag}", **NOT_STORED.fixed}
    if held_s:
        headers[PREFERENCE_APPLIED.name] = f"wait={held_s}"
    if seen.tag in known:
        return Response(status_code=304, headers=headers)
    return Response(seen.body, headers=headers, media_type=operations.JSON)
