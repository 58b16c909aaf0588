"""The wire versions that this build speaks, and how two sides agree on one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from protocol.errors import UnsupportedVersionError

WIRE_VERSIONS: Final = (1,)
MEDIA_TYPE: Final = "application/vnd.odc.v1+msgpack"
STREAM_MEDIA_TYPE: Final = "application/vnd.odc.v1+stream"
UPLOAD_MEDIA_TYPE: Final = "application/partial-upload"
TERMS_SCHEMA_VERSION: Final = 1


def negotiate(theirs: Collection[int], *, peer: str) -> int:
    """Return the newest wire version both sides speak.

    Raises `UnsupportedVersionError`, which says who has to upgrade, when there is none.
    """
    common = set(theirs) & set(WIRE_VERSIONS)
    if not common:
        we_are_older = bool(theirs) and max(theirs) > max(WIRE_VERSIONS)
        raise UnsupportedVersionError(WIRE_VERSIONS, sorted(theirs), "this program" if we_are_older else peer)
    return max(common)
