"""The handler of the downlink: whole, in parts, or acknowledged (RFC 9110; docs/protocol.md)."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from analyst_server.api.access import Sender
from analyst_server.api.conditions import tags
from analyst_server.api.surface import TheAnalyst, serve
from analyst_server.services import downlinks
from analyst_server.services.downlinks import DownlinkStream
from protocol import operations
from protocol.version import STREAM_MEDIA_TYPE

router = APIRouter()

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    206: {"description": "The part that Range asks for.", "content": {STREAM_MEDIA_TYPE: {}}},
    304: {"description": "Acknowledged: the caller has this version."},
    416: {"description": "There is no byte where Range begins."},
}
"""What the OpenAPI document says besides the table of operations."""
_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")


@serve(router, operations.FETCH_DOWNLINK, responses=_RESPONSES)
def fetch_downlink(analyst: TheAnalyst, sender: Sender, collaboration_id: str, request: Request) -> Response:
    """Return the caller's change-of-basis matrix and the model, in parts if asked, or note their arrival."""
    return _answer(downlinks.fetch(analyst, sender, collaboration_id), request.headers)


def _answer(downlink: DownlinkStream, headers: Headers) -> Response:
    """Return the answer to a request with these headers; a condition comes before a range (13.2.2)."""
    about = {"etag": downlink.tag, "accept-ranges": "bytes", "cache-control": "no-store"}
    if downlink.tag in tags(headers):
        downlink.acknowledge()
        return Response(status_code=304, headers=about)
    found = _RANGE.fullmatch(headers.get("range", ""))
    if found is None or headers.get("if-range", downlink.tag) != downlink.tag:
        about["content-length"] = str(downlink.length)
        return StreamingResponse(downlink.whole(), media_type=STREAM_MEDIA_TYPE, headers=about)
    start, last = int(found[1]), int(found[2] or downlink.length)
    end = min(last + 1, downlink.length)
    if start >= downlink.length or end <= start:
        error = {**about, "content-range": f"bytes */{downlink.length}"}
        raise HTTPException(416, headers=error)
    about["content-range"] = f"bytes {start}-{end - 1}/{downlink.length}"
    about["content-length"] = str(end - start)
    return StreamingResponse(downlink.pieces(start, end), 206, media_type=STREAM_MEDIA_TYPE, headers=about)
