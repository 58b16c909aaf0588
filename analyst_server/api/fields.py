"""Header fields and query parameters, each with what it may contain: for handlers and for the description."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from protocol.operations import UPLOAD_OFFSET as UPLOAD


@dataclass(frozen=True)
class Field:
    """A header field or a query parameter.

    Attributes
    ----------
    about : str
        What it says, in a sentence.
    pattern : str, optional
        A regular expression for the whole value; of a request, any other is refused. Without it, what is not
        understood is ignored.
    is_needed : bool
        Of a request, whether one without it is refused; of an answer, whether it always has it.
    example : str, optional
    """

    name: str
    about: str
    pattern: str | None = None
    is_needed: bool = False
    example: str | None = None

    def takes(self, value: str) -> bool:
        """Return whether a value is one of this field."""
        return self.pattern is None or re.fullmatch(self.pattern, value) is not None

    @property
    def fixed(self) -> dict[str, str]:
        """Return the field with the only value that it can have."""
        return {self.name: self.pattern or ""}


_NUMBER: Final = "[0-9]{1,18}"
_BOOLEAN: Final = r"\?[01]"

# What requests say

MEMBERS: Final = Field("members", "`own`: of all members the caller alone.", example="own")
AFTER_PARTY: Final = Field(
    "after", "The last party of the page before; from the first without it.", pattern="[a-z0-9-]{0,63}"
)
AFTER_DIGEST: Final = Field(
    "after",
    "The SHA-256 of the last certificate of the page before, in hexadecimal.",
    pattern="([0-9a-f]{2})*",
)
BEGINS: Final = Field(
    "begins", "How the ids of those wanted begin, in hexadecimal digits.", pattern="[0-9a-f]{0,32}"
)
AFTER_COLLABORATION: Final = Field(
    "after",
    "Asks for a page of 200 at most: `next` of the page before, and empty for the first. All in one answer"
    " without it.",
    pattern="([0-9a-f]{32})?",
)
MOST: Final = Field("most", "How many are wanted at most; 1024 without it.", pattern="[0-9]{1,6}")
UNTIL: Final = Field(
    "until", "`released`: that the round is computed is no news, and is waited through.", example="released"
)
WHILE: Final = Field(
    "while",
    "The state that the caller's own step has led to: while it is that, the caller has the newest version.",
    example="collecting",
)
START: Final = Field("start", "The number of the first entry wanted; 0 without it.", pattern="[0-9]{1,15}")

ACCEPT_ENCODING: Final = Field(
    "Accept-Encoding",
    "With `gzip`, an answer of 600 bytes or more is compressed; with the coding of the analyst's certificate,"
    " one of 100.",
    example="gzip",
)
IF_NONE_MATCH: Final = Field("If-None-Match", "The versions that the caller has (RFC 9110, 13.1.2).")
PREFER: Final = Field(
    "Prefer",
    "`wait=N`: with a version that is still the newest, for how many seconds to wait.",
    example="wait=25",
)
RANGE: Final = Field("Range", "`bytes=N-` or `bytes=N-M`; other forms are ignored.", example="bytes=0-")
IF_RANGE: Final = Field("If-Range", "The ETag that the first part had.")
UPLOAD_OFFSET: Final = Field(
    "Upload-Offset", "Where the body begins in the stream.", _NUMBER, is_needed=True, example="0"
)
UPLOAD_COMPLETE: Final = Field(
    "Upload-Complete",
    "`?1` if the stream ends with this body, else `?0`.",
    _BOOLEAN,
    is_needed=True,
    example="?1",
)
WHOLE_DIGEST: Final = Field(
    "ODC-Whole-Digest",
    "The whole digest, as `sha-256=:BASE64:`; needed with `Upload-Complete: ?1`, and read only then.",
)
REPR_DIGEST: Final = Field(
    "Repr-Digest", "The same, read where a client of an earlier version sends no other."
)

# What answers say

WEAK_TAG: Final = Field("ETag", "Names this version of the status.", 'W/"[0-9a-f]{32}"', is_needed=True)
TAG: Final = Field("ETag", "Names these bytes.", '"[^"]+"', is_needed=True)
PREFERENCE_APPLIED: Final = Field(
    "Preference-Applied", "For how many seconds at most the answer was held.", "wait=[0-9]{1,6}"
)
NOT_STORED: Final = Field("Cache-Control", "The answer is not to be stored.", "no-store", is_needed=True)
FOR_A_DAY: Final = Field("Cache-Control", "How long the answer may be kept.", "max-age=86400", is_needed=True)
ACCEPT_RANGES: Final = Field("Accept-Ranges", "Parts can be fetched.", "bytes", is_needed=True)
CONTENT_LENGTH: Final = Field("Content-Length", "Bytes of the answer.", _NUMBER, is_needed=True)
PART: Final = Field(
    "Content-Range",
    "Which bytes these are, and of how many.",
    f"bytes {_NUMBER}-{_NUMBER}/{_NUMBER}",
    is_needed=True,
)
NO_PART: Final = Field("Content-Range", "How many bytes there are.", rf"bytes \*/{_NUMBER}", is_needed=True)
LOCATION: Final = Field(
    "Location", "The address of the upload.", UPLOAD.url(upload_id="[0-9a-f]{32}"), is_needed=True
)
KEPT: Final = Field("Upload-Offset", "How many bytes of the stream are kept.", _NUMBER, is_needed=True)
BEGUN: Final = Field(
    "Upload-Begun", "How many bytes of the next chunk have come besides, unchecked.", _NUMBER, is_needed=True
)
LENGTH: Final = Field("Upload-Length", "Bytes of the whole stream.", _NUMBER, is_needed=True)
IS_COMPLETE: Final = Field("Upload-Complete", "Whether the uplink is complete.", _BOOLEAN, is_needed=True)
SCHEMES: Final = Field("WWW-Authenticate", "The scheme of a token.", "Bearer", is_needed=True)
RETRY_AFTER: Final = Field("Retry-After", "After how many seconds to ask again.", "[0-9]+")
