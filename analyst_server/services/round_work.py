"""The numeric work of a round, from files to files.

These functions run in a compute process. They get paths and numbers, map the arrays, and leave their
results beside them; they know no database, no HTTP and no keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.arrays import dequantise
from protocol.terms import ModelTerms
from runtime.start_up import loading

_BATCH_ROWS: Final = 8192
"""Anchor rows that are predicted at once."""


@dataclass(frozen=True)
class StoredArray:
    """An array inside a blob: little-endian, C order."""

    path: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]

    def open(self) -> NDArray[Any]:
        """Map it read-only; an empty array needs no file."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        return np.memmap(self.path, dtype, mode="r", offset=self.offset_bytes, shape=self.shape)


@dataclass(frozen=True)
class PartyArrays:
    """What one party sent; the scales come with 8-bit representations alone."""

    party: str
    rep: StoredArray
    anchor_rep: StoredArray
    labels: StoredArray
    rep_scale: StoredArray | None = None
    anchor_rep_scale: StoredArray | None = None


@dataclass(frozen=True)
class RoundSpec:
    """All that a compute process needs to know of a sealed round."""

    parties: tuple[PartyArrays, ...]
    classes: int
    method: str
    target: str
    alignment_seed: int
    anchor_is_isotropic: bool
    model: ModelTerms
    changes_path: str
    model_path: str
    anchor_predictions_path: str | None = None
    """Where h's predictions for each party's anchor rows go, if the terms ask for them."""
    train_on_suspected_rows: bool = False
    """Whether the rows of a party that breaks an assumption train the model."""

    @property
    def left_out_path(self) -> Path:
        """Where the alignment leaves the names of those whose rows do not."""
        return Path(self.changes_path).with_name("left_out.json")


def load_libraries() -> None:
    """Load what the steps of a round need, before it is sealed."""
    with loading():
        import analyst_server.alignment
        import analyst_server.compute.model_registry
        import analyst_server.training.metrics
        import analyst_server.training.onnx_file  # noqa: F401  # to have it loaded


def align_parties(spec: RoundSpec) -> dict[str, Any]:
    """Compute every G_i and leave them as one (c, l, l) file; return the diagnostics.

    Parties that break an assumption, and parties without rows, get their G_i like all others but do not
    shape what everybody is brought to (docs/adr/0008).

    Raises
    ------
    ValueError
        If a party's anchor representation cannot be aligned, or nobody's rows are left to train on.
    """
    # loaded in the compute process alone: SciPy takes as long to load as the rest of the server
    from analyst_server.alignment import AnchorRepError, align
    from analyst_server.alignment.consensus import suspects, trusted_parties

    anchor_reps = [_at_least_single(party.anchor_rep, party.anchor_rep_scale) for party in spec.parties]
    row_counts = [party.rep.shape[0] for party in spec.parties]
    suspicions = suspects(anchor_reps, anchor_is_isotropic=spec.anchor_is_isotropic, row_counts=row_counts)
    named: list[dict[str, Any]] = [
        {
            "party": spec.parties[suspicion.index].party,
            "assumption": suspicion.assumption,
            "evidence": suspicion.evidence,
            "rows": row_counts[suspicion.index],
        }
        for suspicion in suspicions
    ]
    try:
        alignment = align(
            spec.method,
            anchor_reps,
            target=spec.target,
            trusted=trusted_parties(len(anchor_reps), suspicions, row_counts),
            anchor_is_isotropic=spec.anchor_is_isotropic,
            rng=np.random.default_rng(spec.alignment_seed),
        )
    except AnchorRepError as error:
        raise ValueError(
            f"the anchor representation of {spec.parties[error.index].party} {error.reason}"
        ) from None
    left_out = [] if spec.train_on_suspected_rows else [each["party"] for each in named if each["rows"]]
    if left_out and len(left_out) == np.count_nonzero(row_counts):
        raise ValueError(f"no rows are left to train on without those of {', '.join(left_out)}")
    _write_array(Path(spec.changes_path), np.stack(alignment.changes_of_basis))
    _write_bytes(spec.left_out_path, json.dumps(left_out).encode())
    return {**asdict(alignment.diagnostics), "suspicions": named, "left_out": left_out}


def train_model(spec: RoundSpec) -> dict[str, Any]:
    """Stack X~_i G_i, train h, check that its ONNX file says the same, and leave the file.

    Under NRI-DC also leave what h says of each party's anchor rows, as one (c, a, classes) file.

    Raises
    ------
    ValueError
        If a class has no row, or the ONNX file differs from the trained model.
    """
    changes = np.load(spec.changes_path, mmap_mode="r")
    # loaded in the compute process alone, see `analyst_server.training`
    from analyst_server.compute.model_registry import model_of
    from analyst_server.training.metrics import measure
    from analyst_server.training.models import fit
    from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap

    left_out = json.loads(spec.left_out_path.read_bytes())
    taken = [
        (party, change)
        for party, change in zip(spec.parties, changes, strict=True)
        if party.party not in left_out
    ]
    # one party after another: decoded numbers of all of them would be as much again as the result
    aligned_rep = np.concatenate([_aligned_rep(party, change) for party, change in taken])
    labels = np.concatenate([party.labels.open().astype(np.int64) for party, _ in taken])
    described = model_of(spec.model)
    model = fit(described, aligned_rep, labels, spec.classes)
    onnx_file = export(model, aligned_rep.shape[1])
    gap = parity_gap(model, onnx_file, aligned_rep)
    if not gap <= PARITY_TOLERANCE:
        raise ValueError(f"the ONNX file differs from the trained model by {gap:.1e} in a probability")
    _write_bytes(Path(spec.model_path), onnx_file)
    if spec.anchor_predictions_path is not None:
        _predict_anchors(Path(spec.anchor_predictions_path), spec, changes, model.pipeline.predict_proba)
    return {
        "rows": len(labels),
        "model_parameters": model.parameters,
        "converged": model.converged,
        "parity_gap": gap,
        "hold_out_scores": measure(described, aligned_rep, labels, spec.classes),
    }


def _predict_anchors(
    path: Path, spec: RoundSpec, changes: NDArray[Any], probabilities: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    """Write ``h(A_i G_i)`` of every party as float32, (c, a, classes)."""
    anchor_rows = spec.parties[0].anchor_rep.shape[0]
    temporary = path.with_name(path.name + ".part")
    shape = (len(spec.parties), anchor_rows, spec.classes)
    written = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
    for party, change, out in zip(spec.parties, changes, written, strict=True):
        anchor_rep = _at_least_single(party.anchor_rep, party.anchor_rep_scale)
        for start in range(0, anchor_rows, _BATCH_ROWS):
            batch = anchor_rep[start : start + _BATCH_ROWS]
            out[start : start + _BATCH_ROWS] = probabilities(np.asarray(batch @ change.astype(batch.dtype)))
    written.flush()
    temporary.replace(path)


def _aligned_rep(party: PartyArrays, change: NDArray[Any]) -> NDArray[Any]:
    rep = _at_least_single(party.rep, party.rep_scale)
    return np.asarray(rep @ change.astype(rep.dtype))


def _at_least_single(stored: StoredArray, scale: StoredArray | None) -> NDArray[Any]:
    """float16 and 8-bit integers save bytes on the wire; they are nothing to compute in."""
    array = stored.open()
    if scale is not None:
        return dequantise(array, scale.open())
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def _write_array(path: Path, array: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    temporary.replace(path)


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    temporary.replace(path)
