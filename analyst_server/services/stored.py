"""Where the arrays of an uplink lie in the blobs, and what its manifest says of each."""

from __future__ import annotations

from analyst_server.store import Reserved, StoredArray, Uplink, UplinkState
from protocol.envelope import decode_stored
from protocol.messages import UplinkManifest


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
    return decode_stored(UplinkManifest, uplink.manifest)


def stored_arrays(uplink: Uplink) -> dict[str, StoredArray]:
    """Return the arrays of an uplink by name, in the order of the manifest."""
    manifest, found, offset = stored_manifest(uplink), {}, 0
    for spec in manifest.arrays:
        found[spec.name] = StoredArray.of(spec, blob_key(uplink), offset, manifest.chunk_bytes)
        offset += spec.payload_bytes
    return found
