"""The arrays of an uplink of rows, in the number types of the terms, written to a file block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from protocol.arrays import (
    dequantise,
    digest_in_chunks,
    largest_of,
    little_endian,
    quantise,
    quantise_by,
    raw_bytes,
    scale_of,
)
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import LABELS, ArraySpec, Dtype
from protocol.terms import Terms
from user_client.rows import Matrix64, Rows
from user_client.sdk.prepared import PreparedArray
from user_client.sdk.privacy import Treated

REP: Final = "rep"
AnyArray = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Payload:
    """What leaves, before it is written.

    Attributes
    ----------
    rep : (n, l) Rows
        X~_i, before it is rounded.
    rep_dtype : {"i1", "f2", "f4", "f8"}
    rep_scale : (l,) ndarray of float32, optional
        Of 8-bit integers.
    others : tuple of (str, ndarray, str)
        The name of each other array, the array as it is on the wire, and its number type.
    """

    rep: Rows
    rep_dtype: Dtype
    rep_scale: NDArray[np.float32] | None
    others: tuple[tuple[str, AnyArray, Dtype], ...]

    @property
    def arrays(self) -> tuple[PreparedArray, ...]:
        """Name, number type and size of each array, in their order."""
        rep_bytes = self.rep.shape[0] * self.rep.shape[1] * np.dtype(self.rep_dtype).itemsize
        return (
            PreparedArray(REP, self.rep_dtype, self.rep.shape, rep_bytes),
            *(PreparedArray(name, dtype, array.shape, array.nbytes) for name, array, dtype in self.others),
        )

    def decoded(self, rep: Matrix64) -> Matrix64:
        """Return some rows of X~_i, (k, l), as the analyst reads them."""
        values = self._rounded(rep)
        scaled = values if self.rep_scale is None else dequantise(values, self.rep_scale)
        return scaled.astype(np.float64)

    def write(self, file: BinaryIO) -> Iterator[ArraySpec]:
        """Write every array, and yield its line of the manifest."""
        yield _written(file, REP, self.rep_dtype, self.rep.shape, map(self._rounded, self.rep.blocks()))
        for name, array, dtype in self.others:
            yield _written(file, name, dtype, array.shape, [array])

    def _rounded(self, block: Matrix64) -> AnyArray:
        values = block if self.rep_scale is None else quantise_by(self.rep_scale, block)
        return little_endian(values, self.rep_dtype)


def payload_of(terms: Terms, treated: Treated, anchor_rep: Matrix64) -> Payload:
    """Return the arrays of an uplink under some terms; ``anchor_rep`` is A_i, (a, l)."""
    rep_scale, anchor_values = None, anchor_rep
    scales: list[tuple[str, AnyArray, Dtype]] = []
    if terms.rep_dtype == "i1":
        largest = np.zeros(treated.rep.shape[1])
        for block in treated.rep.blocks():
            largest = np.maximum(largest, largest_of(block))
        rep_scale = scale_of(largest)
        anchor_values, anchor_scale = quantise(anchor_rep)  # type: ignore[assignment]  # other numbers
        scales = [("rep_scale", rep_scale, "f4"), ("anchor_rep_scale", anchor_scale, "f4")]
    named: list[tuple[str, AnyArray, Dtype]] = [
        ("anchor_rep", anchor_values, terms.rep_dtype),
        (LABELS, treated.labels, terms.table_schema.label_column.wire_dtype),
        *scales,
    ]
    others = tuple((name, little_endian(array, dtype), dtype) for name, array, dtype in named)
    return Payload(treated.rep, terms.rep_dtype, rep_scale, others)


def _written(
    file: BinaryIO, name: str, dtype: Dtype, shape: tuple[int, ...], blocks: Iterable[AnyArray]
) -> ArraySpec:
    """Write one array and return its line of the manifest."""

    def pieces() -> Iterator[memoryview]:
        for block in blocks:
            data = raw_bytes(block)
            file.write(data)
            yield data

    digest = digest_in_chunks(pieces(), DEFAULT_CHUNK_BYTES)
    return ArraySpec(name=name, dtype=dtype, shape=shape, digest=digest)
