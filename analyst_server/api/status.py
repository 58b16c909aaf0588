"""The handler of a status: at once, or when there is news (docs/protocol.md, "Waiting for a status")."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from analyst_server.api.access import Granted
from analyst_server.api.conditions import preferred_wait_s, tags
from analyst_server.api.surface import TheAnalyst, serve
from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from analyst_server.services.changes import Changes
from protocol import operations
from protocol.identity import Identity
from protocol.operations import Status

router = APIRouter()

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "Nothing has changed since the version that the caller has."},
}
"""What the OpenAPI document says besides the table of operations."""


async def _changes(request: Request) -> Changes:
    changes: Changes = request.app.state.changes
    return changes


async def _most_wait_s(request: Request) -> int:
    seconds: int = request.app.state.status_wait_s
    return seconds


TheChanges = Annotated[Changes, Depends(_changes)]
MostWait = Annotated[int, Depends(_most_wait_s)]
"""Seconds for which an answer is held at most; 0: none is."""


@serve(router, operations.COLLABORATION_STATUS, responses=_RESPONSES)
async def collaboration_status(
    analyst: TheAnalyst,
    grant: Granted,
    changes: TheChanges,
    most_wait_s: MostWait,
    collaboration_id: str,
    request: Request,
    members: str = "",
) -> Response:
    """Return the state of a collaboration, and whom it waits for; at once, or when it has changed."""
    is_own = members == "own"
    use_case = views.own_status if is_own else views.status
    look = partial(to_thread.run_sync, _look, use_case, analyst, grant.holder, collaboration_id)
    known = tags(request.headers)
    seen = await look()
    wait_s = min(preferred_wait_s(request.headers), most_wait_s)
    if wait_s == 0:
        return _answer(seen, known)
    party = grant.holder.name if grant.holder else ""
    with changes.watch(collaboration_id, owner=party, party=party if is_own else None) as watch:
        if watch is None:
            return _answer(seen, known)
        ends = time.monotonic() + wait_s
        while seen.tag in known and await watch.changed(ends - time.monotonic()):
            seen = await look()
        return _answer(seen, known, held_s=0 if changes.is_closed else wait_s)


class _Seen(NamedTuple):
    tag: str
    """The name of this version, whenever the members were last seen."""
    body: bytes


def _look(
    use_case: Callable[[Analyst, Identity | None, str], Status],
    analyst: Analyst,
    viewer: Identity | None,
    collaboration_id: str,
) -> _Seen:
    """Return a status as it is sent; here, in a thread, because it may have thousands of members."""
    status = use_case(analyst, viewer, collaboration_id)
    members = [{**member, "last_seen_at": None} for member in status["members"]]
    named = json.dumps({**status, "members": members}).encode()
    return _Seen(f'"{hashlib.sha256(named).hexdigest()[:32]}"', bytes(JSONResponse(status).body))


def _answer(seen: _Seen, known: list[str], held_s: int = 0) -> Response:
    headers = {"etag": f"W/{seen.tag}", "cache-control": "no-store"}
    if held_s:
        headers["preference-applied"] = f"wait={held_s}"
    if seen.tag in known:
        return Response(status_code=304, headers=headers)
    return Response(seen.body, headers=headers, media_type=operations.JSON)
