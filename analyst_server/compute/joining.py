"""Rows that several parties hold different columns of: joined by their hashes, before anything is aligned.

In the place of a group's parties comes one with their blocks side by side, as arXiv:2403.02780v5, section II
has it: X~_i = [X_{i,1} F_{i,1}, ..., X_{i,d} F_{i,d}], and A_i alike. The parties share no column, so the
block basis F_i is orthonormal, and what follows goes as with rows of one party. docs/adr/0085
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, StoredArray, store_array, store_blocks
from analyst_server.compute.checking import require_intact
from analyst_server.compute.sequence import PartyArrays, RoundSpec
from protocol.joined_rows import ROW_KEY_BYTES, JoinedRows

AT_ONCE_ROWS: Final = 2**16
_Hashes = NDArray[np.bytes_]


@dataclass(frozen=True)
class JoinedParties:
    """A group whose rows are joined.

    Attributes
    ----------
    arrays : PartyArrays
        What stands in the place of its parties, under the name of the one that has the labels.
    sent : mapping of str to int
        How many rows each of its parties has sent, in their order.
    """

    arrays: PartyArrays
    sent: Mapping[str, int]

    @property
    def rows(self) -> int:
        """How many rows all of them have."""
        return self.arrays.rep.shape[0]

    @property
    def in_words(self) -> str:
        """How many rows who has in common."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{' and '.join(self.sent)} have {rows} in common"

    def as_json(self) -> dict[str, Any]:
        """Return what the report shows."""
        return {"labels": self.arrays.party, "rows": self.rows, "sent": dict(self.sent)}

    def kept(self) -> dict[str, Any]:
        """Return what the records keep until the model is judged."""
        return {
            "party": self.arrays.party,
            "dither": self.arrays.dither,
            "sent": dict(self.sent),
            "arrays": {name: found.as_json() for name, found in _named(self.arrays).items()},
        }

    @classmethod
    def from_kept(cls, value: Mapping[str, Any]) -> Self:
        """Return what `kept` was asked of."""
        found = {name: StoredArray.from_json(one) for name, one in value["arrays"].items()}
        return cls(PartyArrays(value["party"], **found, dither=value["dither"]), value["sent"])


def join_rows(spec: RoundSpec, blobs: Blobs) -> tuple[JoinedParties, ...]:
    """Join the rows of each group, and write them to the folder of the spec.

    Of each party 16 bytes a row are in memory, and a block of its representation.

    Raises
    ------
    ValueError
        If a party is missing, its row keys are not ascending and distinct, or no row is at all of a group.
    DamagedBlobError
        If an array is not what was signed.
    """
    by_name = {party.party: party for party in spec.parties}
    return tuple(_joined(group, by_name, spec.folder, blobs) for group in spec.joined_rows)


def _joined(
    group: JoinedRows, by_name: Mapping[str, PartyArrays], folder: str, blobs: Blobs
) -> JoinedParties:
    if missing := [party for party in group.parties if party not in by_name]:
        raise ValueError(f"the rows of {', '.join(group.parties)} are joined, and {missing[0]} has sent none")
    parties = [by_name[party] for party in group.parties]
    require_intact([array for party in parties for array in party.arrays], blobs)
    hashes = [_hashes(party, blobs) for party in parties]
    common = reduce(_in_both, hashes)
    if not len(common):
        raise ValueError(
            f"{', '.join(group.parties)} have no row in common: none of their row keys ({group.row_key}) is"
            " the same, so their tables name rows differently or are of other rows"
        )
    places = [np.searchsorted(own, common) for own in hashes]
    key = f"{folder}/joined-{group.labels}"
    found = _side_by_side(parties, places, key, blobs)
    labelled = group.parties.index(group.labels)
    labels = parties[labelled].labels.open(blobs)[places[labelled]]
    joined = PartyArrays(
        group.labels,
        labels=store_array(blobs, f"{key}-labels", labels, survives_power_cut=True),
        # at least so much noise is in every block
        dither=min(party.dither for party in parties),
        **found,
    )
    return JoinedParties(joined, {party.party: party.rep.shape[0] for party in parties})


def _hashes(party: PartyArrays, blobs: Blobs) -> _Hashes:
    """Return the row keys of a party, (n,), as texts of 16 bytes.

    NumPy takes zeros at the end for the end of a text; of texts of one length it still tells any two apart.
    """
    if party.row_keys is None:
        raise ValueError(f"{party.party} has sent no row keys")
    found: _Hashes = np.ascontiguousarray(party.row_keys.open(blobs)).view(f"S{ROW_KEY_BYTES}")[:, 0]
    ascends = found[1:] > found[:-1]
    if not ascends.all():
        raise ValueError(
            f"the row keys of {party.party} are not ascending, each once: see row {int(ascends.argmin()) + 2}"
        )
    return found


def _in_both(first: _Hashes, second: _Hashes) -> _Hashes:
    """Return what two ascending lists have in common."""
    return np.intersect1d(first, second, assume_unique=True)


def _side_by_side(
    parties: Sequence[PartyArrays], places: Sequence[NDArray[np.intp]], key: str, blobs: Blobs
) -> dict[str, StoredArray]:
    """Write the blocks of the joined rows and of the anchor side by side; scales follow their columns."""

    def wide(name: str, arrays: Sequence[StoredArray]) -> StoredArray:
        opened = [array.open(blobs) for array in arrays]
        return store_array(blobs, f"{key}-{name}", np.concatenate(opened, axis=-1), survives_power_cut=True)

    reps = [party.rep.open(blobs) for party in parties]
    rows, width = len(places[0]), sum(rep.shape[1] for rep in reps)

    def blocks() -> Iterator[NDArray[Any]]:
        for start in range(0, rows, AT_ONCE_ROWS):
            some = [own[start : start + AT_ONCE_ROWS] for own in places]
            yield np.concatenate([rep[own] for rep, own in zip(reps, some, strict=True)], axis=1)

    found = {
        "rep": store_blocks(blobs, f"{key}-rep", blocks(), (rows, width), reps[0].dtype),
        "anchor_rep": wide("anchor_rep", [party.anchor_rep for party in parties]),
    }
    for name in ("rep_scale", "anchor_rep_scale"):
        scales = [getattr(party, name) for party in parties]
        if scales[0] is not None:
            found[name] = wide(name, scales)
    return found


def _named(arrays: PartyArrays) -> dict[str, StoredArray]:
    names = ("rep", "anchor_rep", "labels", "rep_scale", "anchor_rep_scale")
    found = {name: getattr(arrays, name) for name in names}
    return {name: array for name, array in found.items() if array is not None}
