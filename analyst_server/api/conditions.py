"""What a request says about its answer besides what it asks for (RFC 9110, 13; RFC 7240)."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import Headers

from analyst_server.api.fields import IF_NONE_MATCH, PREFER

_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?([0-9]{1,6})\"?\s*(?=$|[,;])", re.IGNORECASE)


def tags(headers: Headers) -> list[str]:
    """Return the versions that If-None-Match names; the weak form of one is as good (13.1.2)."""
    value = ",".join(headers.getlist(IF_NONE_MATCH.name))
    return [tag.strip().removeprefix("W/") for tag in value.split(",")]


def preferred_wait_s(headers: Headers) -> int:
    """Return for how many seconds the caller prefers to wait (RFC 7240, 4.3); 0 if it does not say."""
    found = _WAIT.search(",".join(headers.getlist(PREFER.name)))
    return int(found[1]) if found else 0
