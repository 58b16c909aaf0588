"""The wire versions that this build speaks, how two sides agree on one, and what nobody here can verify."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from protocol.errors import ProtocolError, StorageError, UnsupportedVersionError

WIRE_VERSIONS: Final = (1,)
MEDIA_TYPE: Final = "application/vnd.odc.v1+msgpack"
STREAM_MEDIA_TYPE: Final = "application/vnd.odc.v1+stream"
UPLOAD_MEDIA_TYPE: Final = "application/partial-upload"
WHOLE_DIGEST_FIELD: Final = "odc-whole-digest"
"""The header field with an uplink's whole digest. Repr-Digest carries the same where either side is older."""


class UnknownAlgorithmError(ProtocolError):
    """A message that is signed with an algorithm that this program cannot verify."""

    code = "unknown-algorithm"
    title = "Signature algorithm is not known"
    hint = (
        "upgrade this side to a version that knows the algorithm, or have it signed again with one that both"
        " know"
    )

    def __init__(self, kind: str, algorithm: str, known: Sequence[str]) -> None:
        detail = f"{kind}: is signed with {algorithm}, and this program knows {', '.join(known)}"
        super().__init__(detail, algorithm=algorithm, known=list(known))


class OlderServerError(StorageError):
    """A record of the analyst that a newer version has stored, and the server that was asked cannot read."""

    code = "older-server"
    title = "This server is older than a record"
    hint = (
        "ask again: another server of this analyst may be newer; otherwise the analyst's operator has to"
        " upgrade the one that answered"
    )

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this server of the analyst is older than the {what}, and cannot read them", what=what
        )


def negotiate(theirs: Collection[int], *, peer: str) -> int:
    """Return the newest wire version both sides speak.

    Raises `UnsupportedVersionError`, which says who has to upgrade, when there is none.
    """
    common = set(theirs) & set(WIRE_VERSIONS)
    if not common:
        we_are_older = bool(theirs) and max(theirs) > max(WIRE_VERSIONS)
        raise UnsupportedVersionError(WIRE_VERSIONS, sorted(theirs), "this program" if we_are_older else peer)
    return max(common)
