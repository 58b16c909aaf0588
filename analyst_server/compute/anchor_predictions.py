"""What h says of the rows of the anchor, for terms that return that instead of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, StoredArray, at_least_single
from analyst_server.compute.sequence import RoundSpec
from protocol.arrays import little_endian, raw_bytes

_BATCH_ROWS: Final = 8192
"""Anchor rows that are predicted at once."""


def predict_anchors(
    spec: RoundSpec,
    blobs: Blobs,
    changes: NDArray[Any],
    probabilities: Callable[[NDArray[Any]], NDArray[Any]],
) -> StoredArray:
    """Store ``h(A_i G_i)`` of every party as float32, (c, a, classes), a batch of rows at a time."""
    key, written = f"{spec.folder}/anchor_predictions", 0
    for party, change in zip(spec.parties, changes, strict=True):
        anchor_rep = at_least_single(blobs, party.anchor_rep, party.anchor_rep_scale)
        own = change[: anchor_rep.shape[1]]
        for start in range(0, len(anchor_rep), _BATCH_ROWS):
            batch = anchor_rep[start : start + _BATCH_ROWS]
            predicted = probabilities(np.asarray(batch @ own.astype(batch.dtype)))
            piece = raw_bytes(little_endian(predicted, "f4"))
            blobs.append(key, written, piece)
            written += len(piece)
    blobs.commit(key)
    shape = (len(spec.parties), spec.parties[0].anchor_rep.shape[0], spec.label.outputs)
    return StoredArray(key, 0, "f4", shape)
