"""Read stored arrays and compare them with their digests, before a round is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analyst_server.blobs import Blobs, DamagedBlobError, StoredArray
from analyst_server.training import progress


def require_intact(arrays: Iterable[StoredArray], blobs: Blobs) -> None:
    """Raise `DamagedBlobError` for the first array that is not what was signed."""
    progress.begin("checking")
    for array in arrays:
        if not array.is_intact(blobs):
            raise DamagedBlobError(array.key)


def damaged_arrays(uplinks: Sequence[Mapping[str, StoredArray]], blobs: Blobs) -> list[list[str]]:
    """Return, for each uplink, the names of its arrays that are not what was signed."""
    return [[name for name, array in arrays.items() if not array.is_intact(blobs)] for arrays in uplinks]
