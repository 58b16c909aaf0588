"""The handler of the list of collaborations: all of them, those whose id begins so, or a page."""

from __future__ import annotations

from fastapi import APIRouter

from analyst_server.api.access import Granted
from analyst_server.api.fields import AFTER_COLLABORATION, BEGINS
from analyst_server.api.surface import TheAnalyst, serve
from analyst_server.services import views
from protocol import operations
from protocol.answers import Collaborations
from protocol.errors import MalformedMessageError

router = APIRouter()


@serve(router, operations.LIST_COLLABORATIONS, queries=(BEGINS, AFTER_COLLABORATION))
def list_collaborations(
    analyst: TheAnalyst, grant: Granted, begins: str = "", after: str | None = None
) -> Collaborations:
    """List the collaborations that the caller can see, the oldest first: all at once, or a page."""
    if not BEGINS.takes(begins):
        raise MalformedMessageError("begins", "is not how an id begins")
    if after is None:
        return {"collaborations": views.listing(analyst, grant.holder, grant.only, begins=begins)}
    if not AFTER_COLLABORATION.takes(after):
        raise MalformedMessageError("after", "is no id of a collaboration")
    shown, last = views.page(analyst, grant.holder, grant.only, after, begins=begins)
    return {"collaborations": shown, "next": last} if last else {"collaborations": shown}
