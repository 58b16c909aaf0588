"""What this institution has sent, over all rounds.

Two uplinks of one row are easier to attack than one, and their epsilons add up. So a second round on the same
rows is named before it happens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.messages import Receipt, UplinkManifest
from protocol.terms import Terms
from user_client.custody.home import Home
from user_client.custody.keystream import KeyStream
from user_client.custody.round_directory import (
    OLD_RELEASE_FILE,
    PREPARED_FILE,
    RECEIPT_FILE,
    RELEASE_FILE,
    RoundDirectory,
)
from user_client.custody.scratch import Scratch
from user_client.rows import Block, Matrix64, Rows
from user_client.sdk.row_fingerprints import (
    KEY_BYTES,
    Fingerprints,
    RowValues,
    texts_of,
    values_of,
)

_BY_VALUES: Final = b"odc row2"
"""Before the key where fingerprints are of values; earlier versions kept those of texts."""
SORTED_AT_ONCE: Final = 2**20
"""Fingerprints that are in memory at once, about."""
KEPT_AT_ONCE: Final = 2**16
"""Fingerprints of one block: those of one part of a table are few."""


@dataclass(frozen=True)
class Release:
    """One uplink that the analyst has received.

    Attributes
    ----------
    received_at : int
        Unix time, by the analyst's receipt.
    rows : int
        How many were sent.
    privacy : dict
        What the manifest states was done to them.
    """

    collaboration_id: str
    title: str
    received_at: int
    rows: int
    latent_dim: int
    privacy: dict[str, Any]
    analyst: str
    """Its address."""
    table: str
    """Digest of the file that was prepared; empty for a table in memory."""
    found: dict[str, Any]
    """What `odc prepare` measured of it: `information` and `attacks`."""


@dataclass(frozen=True)
class Overlap:
    """Rows of a table that were sent in an earlier round."""

    release: Release
    rows: int


def list_releases(home: Home) -> Iterator[Release]:
    """Yield what was sent, the oldest round first."""
    found = [_release(directory) for directory in _received(home)]
    yield from sorted(found, key=lambda release: release.received_at)


class OwnRows:
    """The rows of a table, taken part by part, each as a fingerprint under a key of its own."""

    def __init__(self, scratch: Scratch) -> None:
        self.key = KeyStream.fresh("odc/v1/row-fingerprints").read(KEY_BYTES)
        self._kept = _Kept(scratch)

    def look(self, _part: pa.Table, read: pa.Table) -> Callable[[], None]:
        """Return what takes these rows of the table: as `SeenRows.look`."""
        return _taking([self.fingerprinted(values_of(read))])

    def fingerprinted(self, values: RowValues) -> tuple[_Kept, Fingerprints]:
        """Return the fingerprints of some rows, and where they are kept."""
        return self._kept, values.fingerprints(self.key)

    def rows(self) -> Rows:
        """Return all fingerprints, as rows of one column with the same bytes."""
        return self._kept.rows()

    def repeated(self) -> int:
        """Return how many rows of the table equal one before them in every column."""
        return sum(int((np.diff(some) == 0).sum()) for some in _ascending(self.rows()))


class SeenRows:
    """The rows of a table, taken part by part: which were sent before, and what we keep to know them again.

    What is kept is a keyed fingerprint, because a row has few possible values.
    """

    def __init__(self, home: Home, scratch: Scratch, *, apart_from: str) -> None:
        """Look for rows that were sent in rounds of ``home``, except for the one of the id ``apart_from``."""
        self._own = OwnRows(scratch)
        self._earlier = [
            earlier
            for directory in _received(home)
            if directory.collaboration_id != apart_from
            and (earlier := _Earlier.of(directory, scratch)) is not None
        ]

    def look(self, part: pa.Table, read: pa.Table) -> Callable[[], None]:
        """Return what takes these rows of the table; several threads may look at some each.

        ``part`` has them as they are in the file, and ``read`` with some of their texts as numbers.
        """
        values = values_of(read)
        return _taking([self._own.fingerprinted(values), *_looked_for(self._earlier, part, values)])

    def repeated_rows(self) -> int:
        """Return how many rows of the table equal one before them in every column."""
        return self._own.repeated()

    def overlaps(self) -> list[Overlap]:
        """Return the earlier rounds to which rows of the table were sent, the oldest first."""
        known = [(each.directory, each.how_many_known()) for each in self._earlier]
        found = [Overlap(_release(directory), rows) for directory, rows in known if rows]
        return sorted(found, key=lambda overlap: overlap.release.received_at)

    def store(self, directory: RoundDirectory, leaving: NDArray[np.bool_]) -> None:
        """Store the fingerprints of the rows that leave: ``leaving``, (n,), says which of the table do."""
        sent = self._own.rows().where(leaving)
        ascending = (found.astype("<u8", copy=False).data for found in _ascending(sent))
        directory.write_secret_of(RELEASE_FILE, chain([_BY_VALUES, self._own.key], ascending))
        directory.remove(OLD_RELEASE_FILE)


class SentRows:
    """Which rows of a table were sent in one round, by the fingerprints that were kept of them."""

    def __init__(self, directory: RoundDirectory, scratch: Scratch) -> None:
        found = _Earlier.of(directory, scratch)
        self._sent = [] if found is None else [found]

    @property
    def are_known(self) -> bool:
        """Whether anything was kept that tells them."""
        return bool(self._sent)

    def look(self, part: pa.Table, read: pa.Table) -> Callable[[], None]:
        """Return what takes these rows of the table: as `SeenRows.look`."""
        return _taking(_looked_for(self._sent, part, values_of(read)) if self._sent else [])

    def in_table(self, rows: int) -> NDArray[np.bool_]:
        """Return which of the ``rows`` of the table were sent, (n,), in their order."""
        known = np.zeros(rows, np.bool_)
        for each in self._sent:
            known |= each.which_known()
        return known


def _looked_for(
    earlier: Sequence[_Earlier], part: pa.Table, values: RowValues
) -> list[tuple[_Kept, Fingerprints]]:
    """Return the fingerprints of some rows as each earlier round would know them, and where they are kept."""
    texts = texts_of(part) if any(each.is_by_text for each in earlier) else values
    return [
        (each.looked_for, (texts if each.is_by_text else values).fingerprints(each.key)) for each in earlier
    ]


def _taking(found: Sequence[tuple[_Kept, Fingerprints]]) -> Callable[[], None]:
    def take() -> None:
        for kept, fingerprints in found:
            kept.add(fingerprints)

    return take


class _Kept:
    """Fingerprints that come part by part: as rows of one column, with the same bytes."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._blocks: list[Block] = []
        self._waiting: list[Fingerprints] = []

    def add(self, found: Fingerprints) -> None:
        self._waiting.append(found)
        if sum(map(len, self._waiting)) >= KEPT_AT_ONCE:
            self._keep()

    def rows(self) -> Rows:
        self._keep()
        return Rows(self._blocks, 1)

    def _keep(self) -> None:
        if any(map(len, self._waiting)):
            as_rows = np.concatenate(self._waiting).view(np.float64)[:, None]
            self._blocks.append(self._scratch.keep_one(as_rows))
        self._waiting.clear()


def _fingerprints(block: Matrix64) -> Fingerprints:
    """Return the fingerprints in a block of `_Kept`."""
    return block.view(np.uint64)[:, 0]


def _ascending(kept: Rows) -> Iterator[Fingerprints]:
    """Yield fingerprints in ascending order, which is none that tells the rows apart.

    They are spread evenly over all numbers. So many of them are sorted in turns, each of which reads all;
    equal ones come in one turn.
    """
    turns = -(-len(kept) // SORTED_AT_ONCE)
    for turn in range(turns):
        first, last = (2**64 * which // turns for which in (turn, turn + 1))
        found = np.concatenate(
            [
                numbers[(numbers >= first) & (numbers <= last - 1)]
                for numbers in map(_fingerprints, kept.blocks())
            ]
        )
        found.sort()
        yield found


@dataclass(frozen=True, repr=False)
class _Earlier:
    """What was sent in one earlier round, and the same fingerprints of the rows of this table."""

    directory: RoundDirectory
    is_by_text: bool
    key: bytes
    sent: Rows
    """In ascending order, of one column; equal ones are in one block."""
    looked_for: _Kept

    @classmethod
    def of(cls, directory: RoundDirectory, scratch: Scratch) -> _Earlier | None:
        """Return what was sent in a round, if that was kept and is anything."""
        if directory.holds(RELEASE_FILE):
            data = directory.read_secret(RELEASE_FILE)
            is_by_text = not data.startswith(_BY_VALUES)
            start = 0 if is_by_text else len(_BY_VALUES)
            key, sent = data[start : start + KEY_BYTES], np.frombuffer(data, "<u8", offset=start + KEY_BYTES)
        elif directory.holds(OLD_RELEASE_FILE):
            content = json.loads(directory.read_secret(OLD_RELEASE_FILE))
            is_by_text, key = True, bytes.fromhex(content["key"])
            sent = np.array(content["fingerprints"], np.uint64)
        else:
            return None
        kept = _Kept(scratch)
        for start in range(0, len(sent), SORTED_AT_ONCE):
            some = sent[start : start + SORTED_AT_ONCE]
            kept.add(some[~np.isin(some, sent[start - 1 : start])])  # a row that was sent twice counts once
        return cls(directory, is_by_text, key, kept.rows(), _Kept(scratch)) if len(sent) else None

    def how_many_known(self) -> int:
        """Return how many rows of the table were sent.

        As many as are sorted at once are in memory, whatever was sent in however many rounds.
        """
        looked_for = self.looked_for.rows()
        return sum(
            _how_many_among(sent, numbers)
            for sent in map(_fingerprints, self.sent.blocks())
            for numbers in map(_fingerprints, looked_for.blocks())
        )

    def which_known(self) -> NDArray[np.bool_]:
        """Return which rows of the table were sent, (n,), in their order."""
        found = [
            np.logical_or.reduce(
                [
                    sent[np.searchsorted(sent[:-1], numbers)] == numbers
                    for sent in map(_fingerprints, self.sent.blocks())
                ]
            )
            for numbers in map(_fingerprints, self.looked_for.rows().blocks())
        ]
        return np.concatenate(found) if found else np.zeros(0, np.bool_)


def _how_many_among(sent: Fingerprints, numbers: Fingerprints) -> int:
    """Return how many numbers are among those that were sent, which are in ascending order."""
    inside = numbers[(numbers >= sent[0]) & (numbers <= sent[-1])]
    inside.sort()  # a search for numbers in their order finds most of them near the one before
    return int((sent[np.searchsorted(sent, inside)] == inside).sum())


def _received(home: Home) -> Iterator[RoundDirectory]:
    """Yield the rounds of which the analyst has our uplink."""
    for collaboration_id in home.collaborations_with(RECEIPT_FILE):
        yield RoundDirectory(home, collaboration_id)


def stored_summary(directory: RoundDirectory) -> dict[str, Any]:
    """Return what `odc prepare` has stored of an uplink, of whatever version; nothing if it is damaged."""
    try:
        found = json.loads(directory.read_secret(PREPARED_FILE)) if directory.holds(PREPARED_FILE) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _release(directory: RoundDirectory) -> Release:
    terms, manifest = directory.load(Terms), directory.load(UplinkManifest)
    prepared = stored_summary(directory)
    return Release(
        collaboration_id=directory.collaboration_id,
        title=terms.title,
        received_at=directory.load(Receipt).received_at,
        rows=manifest.rows,
        latent_dim=terms.latent_dim if manifest.has_sums else manifest.rep.shape[1],
        privacy=manifest.privacy.model_dump(),
        analyst=directory.home.membership().analyst_url,
        table=prepared.get("source", ""),
        found={name: prepared.get(name) for name in ("information", "attacks")},
    )
