"""The id of a request, by which two logs are compared: our own, or the trace of a W3C ``traceparent``."""

from __future__ import annotations

import re
import secrets
from typing import Final

HEADER: Final = "traceparent"
MEMBER: Final = "request"
"""The member of a problem document that names the request."""
_TRACEPARENT: Final = re.compile(
    "(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}"
    "-[0-9a-f]{2}(?P<more>-.*)?"
)
_MOST_CHARACTERS: Final = 512
_REQUEST: Final = re.compile("[0-9a-f]{16}|[0-9a-f]{32}")


def new_trace() -> str:
    """Return a new trace id: 32 random hexadecimal digits."""
    return secrets.token_hex(16)


def traceparent(trace: str) -> str:
    """Return the header of one request of a trace (W3C Trace Context, level 1), marked as not sampled."""
    return f"00-{trace}-{secrets.token_hex(8)}-00"


def request_id(header: str | None) -> str:
    """Return the trace id of a header, or a new id of 16 digits without a valid one."""
    found = _TRACEPARENT.fullmatch(header) if header and len(header) <= _MOST_CHARACTERS else None
    if found is None or (found["version"] == "00" and found["more"]):
        return secrets.token_hex(8)
    return found["trace"]


def is_request_id(value: object) -> bool:
    """Return whether a value is an id that a log may hold."""
    return isinstance(value, str) and _REQUEST.fullmatch(value) is not None
