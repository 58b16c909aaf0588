"""Attempts at uploads that nobody has begun: each is refused, so nothing is stored."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Final

from protocol.operations import APPEND, UPLOAD_OFFSET
from protocol.version import UPLOAD_MEDIA_TYPE, WHOLE_DIGEST_FIELD
from user_client.sdk.conformance_attempts import Attempt, refusal
from user_client.transport import AnalystConnection

_WHOSE: Final = "| owner | the certificate of the institution that created the upload or token |"
_CARRIES: Final = "| `Upload-Offset: N` | decimal; where the body starts in the stream |"
_COMPLETED: Final = "with `?1` only: the whole digest of section 8"


def attempts(member: AnalystConnection) -> Iterator[Attempt]:
    """Yield what is tried with the certificate of a member."""
    upload_id = secrets.token_hex(16)
    place, path = UPLOAD_OFFSET.url(upload_id=upload_id), APPEND.url(upload_id=upload_id)
    whole = base64.b64encode(secrets.token_bytes(32)).decode()
    part = {"content-type": UPLOAD_MEDIA_TYPE, "upload-offset": "0", "upload-complete": "?0"}
    last = {**part, "upload-complete": "?1", WHOLE_DIGEST_FIELD: f"sha-256=:{whole}:"}

    def patch(what: str, says: str, expected: str, headers: dict[str, str]) -> Attempt:
        return Attempt(what, "11", refusal(member, expected, "PATCH", path, b"", headers), says)

    yield Attempt(
        "the offset of an unknown upload", "11", refusal(member, "not-found", "HEAD", place), _WHOSE
    )
    yield patch("bytes for an unknown upload", _WHOSE, "not-found", part)
    yield patch("the end of an unknown upload", _WHOSE, "not-found", last)
    yield patch("bytes without their offset", _CARRIES, "malformed-message", {
        name: value for name, value in part.items() if name != "upload-offset"
    })  # fmt: skip
    yield patch("bytes before the start", _CARRIES, "malformed-message", {**part, "upload-offset": "-1"})
    yield patch("the end without the whole digest", _COMPLETED, "malformed-message",
        {name: value for name, value in last.items() if name != WHOLE_DIGEST_FIELD})  # fmt: skip
