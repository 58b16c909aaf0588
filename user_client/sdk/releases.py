"""What this institution has sent, over all rounds.

Two uplinks of one row are easier to attack than one, and their epsilons add up. So a second round on the same
rows is named before it happens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.messages import Receipt, UplinkManifest
from protocol.terms import Terms
from user_client.custody.home import Home
from user_client.custody.keystream import KeyStream
from user_client.custody.round_directory import PREPARED_FILE, RECEIPT_FILE, RELEASE_FILE, RoundDirectory
from user_client.tables.fields import as_text

Fingerprints = NDArray[np.uint64]
KEY_BYTES: Final = 32


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


def overlaps(home: Home, table: pa.Table, *, apart_from: str) -> list[Overlap]:
    """Return the earlier rounds to which rows of a table were sent.

    A row is known by the values of all its columns, whatever their order. In a table with other columns it is
    not known again.
    """
    found = []
    for directory in _received(home):
        if directory.collaboration_id != apart_from and directory.holds(RELEASE_FILE):
            stored = json.loads(directory.read_secret(RELEASE_FILE))
            here = _fingerprints(table, bytes.fromhex(stored["key"]))
            if count := int(np.isin(here, np.array(stored["fingerprints"], np.uint64)).sum()):
                found.append(Overlap(_release(directory), count))
    return sorted(found, key=lambda overlap: overlap.release.received_at)


def record_rows(directory: RoundDirectory, table: pa.Table, leaving: NDArray[np.int64]) -> None:
    """Store fingerprints of the rows that leave; they are keyed, because a row has few possible values."""
    key = KeyStream.fresh("odc/v1/row-fingerprints").read(KEY_BYTES)
    sent = np.sort(_fingerprints(table, key)[leaving])  # in no order that tells the rows apart
    content = {"key": key.hex(), "fingerprints": sent.tolist()}
    directory.write_secret(RELEASE_FILE, json.dumps(content).encode())


def _received(home: Home) -> Iterator[RoundDirectory]:
    """Yield the rounds of which the analyst has our uplink."""
    for collaboration_id in home.collaborations_with(RECEIPT_FILE):
        yield RoundDirectory(home, collaboration_id)


def _release(directory: RoundDirectory) -> Release:
    terms, manifest = directory.load(Terms), directory.load(UplinkManifest)
    prepared = json.loads(directory.read_secret(PREPARED_FILE)) if directory.holds(PREPARED_FILE) else {}
    return Release(
        collaboration_id=directory.collaboration_id,
        title=terms.title,
        received_at=directory.load(Receipt).received_at,
        rows=manifest.rows,
        latent_dim=terms.latent_dim,
        privacy=manifest.privacy.model_dump(),
        analyst=directory.home.membership().analyst_url,
        table=prepared.get("source", ""),
        found={name: prepared.get(name) for name in ("information", "attacks")},
    )


def _fingerprints(table: pa.Table, key: bytes) -> Fingerprints:
    """Return a number for each row: a keyed digest of its fields, in the order of the columns' names.

    A column of something other than numbers, times and text cannot be in terms, and tells no row here.
    """
    all_names = table.column_names  # a new list each time it is asked for
    names, fields = [], []
    for place in np.argsort(all_names, kind="stable").tolist():
        with suppress(pa.ArrowException):
            fields.append(as_text(table.column(place)))
            names.append(all_names[place])
    whole = pc.binary_join_element_wise(*fields, "\x1f", null_handling="replace", null_replacement="")
    header = "\x1f".join(names)
    digests = (
        hashlib.blake2b(f"{header}\n{row}".encode(), key=key, digest_size=8).digest()
        for row in whole.to_pylist()
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
