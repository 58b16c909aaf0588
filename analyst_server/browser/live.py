"""The part of a page that renews itself: asked for again and again, and answered when there is news."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.status import MostWait, TheChanges
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import PageRoute, show
from analyst_server.browser.looking import ONE, moving_tag, now_values, seen
from analyst_server.browser.visits import TheVisitor
from protocol.answers import Status

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_NO_NEWS: Final = 204


@router.get(f"{ONE}/live")
async def live(
    request: Request,
    analyst: TheAnalyst,
    visitor: TheVisitor,
    changes: TheChanges,
    most_wait_s: MostWait,
    collaboration_id: str,
    known: str = "",
) -> Response:
    """Return where a collaboration stands as a part of its page, once that is not ``known`` any more.

    While an uplink arrives the answer comes at once: how much has come is asked for every second.
    """
    request.state.session = None  # a page that nobody looks at keeps no session alive
    look = partial(to_thread.run_sync, seen, analyst, visitor, collaboration_id)
    status = await look()
    owner = f"page of {visitor.name}"
    with changes.watch(collaboration_id, owner=owner, party=None) as watch:
        ends = time.monotonic() + most_wait_s
        while watch is not None and moving_tag(status) == known and not _is_arriving(status):
            if not await watch.changed(ends - time.monotonic()):
                break
            status = await look()
    if moving_tag(status) == known:
        return Response(status_code=_NO_NEWS)
    return show(request, "live.html", visitor=visitor, **now_values(request, visitor, status))


def _is_arriving(status: Status) -> bool:
    return any(member["uplink"] == "receiving" for member in status["members"])
