"""What one party does in a simulated round: what `odc prepare` does, with randomness that repeats."""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyst_server.blobs import MemoryBlobs, StoredArray, at_least_single
from analyst_server.compute.sequence import PartyArrays
from orthonormal_data_collaboration.bases import ORTHONORMAL, Condition, basis_under
from protocol.errors import InputError
from protocol.messages import ArraySpec
from protocol.row_bounds import RowBounds
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.scratch import Scratch
from user_client.sdk import PrivacyOptions
from user_client.sdk.anchor import as_anchor, public_matrix
from user_client.sdk.desk import AttackLevel
from user_client.sdk.hold_out import HoldOut, choose
from user_client.sdk.payload import Made, make_uplink
from user_client.sdk.privacy import Draws, draw_basis
from user_client.secret.expansion import Matrix64, expand_anchor
from user_client.tables import EncodedTable, encode_table, strata

_IN_MEMORY_BYTES: Final = 2**31
"""Encoded rows of a simulation stay in memory up to this size; they are nobody's secret."""
_SEED_BYTES: Final = 32


@dataclass(frozen=True)
class Streams:
    """Streams of bytes that repeat: one for each party and purpose, whatever the others draw."""

    seed: bytes

    @classmethod
    def of(cls, random_state: Any) -> Streams:
        """Return the streams of a seed, a generator, or of nothing that repeats (None).

        Raises `InputError` for anything else.
        """
        if isinstance(random_state, np.random.RandomState):
            return cls(random_state.bytes(_SEED_BYTES))
        try:
            rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InputError(
                "random_state is a whole number from 0 on, a RandomState, a Generator or None,"
                f" got {random_state!r}"
            ) from None
        return cls(rng.bytes(_SEED_BYTES))

    def of_party(self, party: str) -> Callable[[str], Callable[[int], bytes]]:
        """Return what gives a party its stream for a purpose."""
        own = KeyStream(self.seed, f"simulation/party/{party}").read(_SEED_BYTES)
        return lambda purpose: KeyStream(own, f"odc/v1/{purpose}").read

    def of_lead(self) -> bytes:
        """Return the seed of the anchor, or of the features of sums, which the lead draws."""
        return KeyStream(self.seed, "simulation/lead").read(_SEED_BYTES)


@dataclass(frozen=True, repr=False)
class Encoded:
    """The rows of one party, encoded, and those of them that it keeps back."""

    name: str
    table: EncodedTable
    kept: HoldOut


@dataclass(frozen=True, repr=False)
class Sent:
    """What one party has made, and what of it lies at the analyst."""

    made: Made
    specs: tuple[ArraySpec, ...]
    arrays: PartyArrays

    @property
    def has_noise(self) -> bool:
        stated = self.made.applied.record()
        return stated.dither is not None or stated.epsilon is not None


def new_scratch() -> Scratch:
    """Return where the rows of a simulated party are."""
    return Scratch(Path(tempfile.gettempdir()), in_memory_bytes=_IN_MEMORY_BYTES)


def encoded(terms: Terms, name: str, table: pa.Table, share: float | None, streams: Streams) -> Encoded:
    """Encode a table by the terms, and choose the share of the rows that is kept back."""
    found = encode_table(table, terms.schema_of(name), new_scratch().keep)
    share = terms.hold_out if share is None else share
    groups = found.labels if found.task == "classes" else strata(found.labels, found.task)
    chosen = choose(groups, share, streams.of_party(name)("hold-out"))
    return Encoded(name, found, HoldOut(found.digest, share, np.packbits(chosen)))


def anchor_of(terms: Terms, public: Any, streams: Streams) -> Matrix64:
    """Return the anchor A, (a, m): expanded from the lead's seed, or rows of a public table."""
    seed = streams.of_lead()
    if terms.anchor.traits.travels_as_matrix:
        return as_anchor(terms, public_matrix(terms, public, random.Random(seed).sample))  # noqa: S311  # repeats
    public_matrix(terms, public)  # refuses a table that would not be used
    stream = KeyStream(seed, f"odc/v1/anchor/{terms.anchor.kind}")
    width = terms.table_schema.width
    return expand_anchor(terms.anchor.kind, stream.read, rows=terms.anchor.rows, features=width)


class Senders:
    """The parties of a round of rows, who send one after another to blobs in memory."""

    def __init__(
        self,
        terms: Terms,
        anchor: Matrix64,
        streams: Streams,
        *,
        bases: Condition | None,
        level: AttackLevel,
    ) -> None:
        self.terms, self.anchor, self.blobs = terms, anchor, MemoryBlobs()
        self._streams, self._level = streams, level
        self._draw: Callable[..., Matrix64] = draw_basis if bases is None else basis_under(bases)
        self._is_bounded = bases is None or bases in ORTHONORMAL

    def send(self, party: Encoded, options: PrivacyOptions) -> Sent:
        """Do what `odc prepare` and `odc contribute` do, but for the network and the disk.

        Raises
        ------
        InputError
            If an option does not go with the terms.
        RowTooLongError
            If the analyst would refuse a row.
        """
        terms, name = self.terms, party.name
        made = make_uplink(
            terms,
            party.table,
            party.kept,
            self.anchor,
            options,
            new_scratch(),
            party=name,
            level=self._level,
            fits_alone=len(party.kept) > 0,  # it is compared on the rows that are kept back
            draws=Draws(self._streams.of_party(name), self._draw),
        )
        # what is not orthonormal may lengthen rows, and no institution could send it
        bounds = RowBounds.of(terms, name, made.applied.record()) if self._is_bounded else RowBounds(name)
        body = io.BytesIO()
        specs = tuple(made.payload.write(body, bounds))
        arrays = self._stored(name, specs, body.getvalue())
        return Sent(made, specs, PartyArrays(name, *arrays, dither=made.applied.record().dither or 0.0))

    def _stored(self, name: str, specs: tuple[ArraySpec, ...], body: bytes) -> list[StoredArray]:
        self.blobs.append(name, 0, body)
        self.blobs.commit(name)
        found, offset = [], 0
        for spec in specs:
            found.append(StoredArray(name, offset, spec.dtype, spec.shape))
            offset += spec.payload_bytes
        return found


def decoded(stored: StoredArray, scale: StoredArray | None, blobs: MemoryBlobs) -> NDArray[Any]:
    """Return an array as the analyst reads it."""
    return at_least_single(blobs, stored, scale)
