"""Signed messages as they are stored, and where the arrays of an uplink lie in the blobs."""

from __future__ import annotations

from analyst_server.blobs import StoredArray
from analyst_server.store import Reserved, Uplink, UplinkState
from protocol.codec import M
from protocol.envelope import decode_stored
from protocol.errors import ProtocolError
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.version import OlderServerError


def read_stored(kind: type[M], signed: bytes, what: str) -> M:
    """Return a message that was verified before it was stored.

    Raises `OlderServerError`, with ``what`` it is, if it cannot be read: it could when it was stored, so a
    newer version did that, which shares the records while servers are upgraded one after another.
    """
    try:
        return decode_stored(kind, signed)
    except ProtocolError as error:
        raise OlderServerError(what) from error


def blob_key(uplink: Uplink | UplinkState | Reserved) -> str:
    """Return the key of the arrays of an uplink, which lie one after another without digests."""
    return f"{uplink.collaboration_id}/uplinks/{uplink.id}"


def partial_key(whole: str, takeovers: int) -> str:
    """Return the key under which an upload grows; its next process gives it another."""
    return f"{whole}.{takeovers}" if takeovers else whole


def damaged_key(whole: str) -> str:
    """Return the key of the mark that the bytes of an uplink are awaited again."""
    return whole + ".damaged"


def stored_manifest(uplink: Uplink) -> UplinkManifest:
    """Return the manifest; it was checked when the upload began."""
    return read_stored(UplinkManifest, uplink.manifest, "uplinks of this collaboration")


def stored_downlink(signed: bytes) -> DownlinkManifest:
    """Return the manifest of a downlink, which the analyst has signed."""
    return read_stored(DownlinkManifest, signed, "downlinks of this collaboration")


def stored_arrays(uplink: Uplink) -> dict[str, StoredArray]:
    """Return the arrays of an uplink by name, in the order of the manifest."""
    manifest, found, offset = stored_manifest(uplink), {}, 0
    for spec in manifest.arrays:
        found[spec.name] = StoredArray.of(spec, blob_key(uplink), offset, manifest.chunk_bytes)
        offset += spec.payload_bytes
    return found
