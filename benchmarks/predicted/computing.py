"""What aligning and training take in a process of their own, by the steps of the analyst's compute process.

As a program it computes the round that a folder has, and says what each step took.
"""

from __future__ import annotations

import json
import pickle
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import DirectoryBlobs, store_array
from analyst_server.compute.sequence import PartyArrays, RoundSpec, align_parties, load_libraries, train_model
from analyst_server.services.work import Size
from odc_demo.measured import cost_of
from orthonormal_data_collaboration.bases import turned
from protocol.alignment_terms import AlignmentTerms
from protocol.arrays import quantise
from protocol.labels import Label
from protocol.model_terms import AveragedTerms, LogisticTerms

T = TypeVar("T")
MOST_RUNS: Final = 5
ENOUGH_S: Final = 1.0
"""A step that has taken so long in all is not repeated."""
MODELS: Final = {"averaged": AveragedTerms, "logistic": LogisticTerms}
_FACTORS: Final = 12
"""Directions that all parties' rows share; each has as many of its own."""


@dataclass(frozen=True)
class Computed:
    """What the steps of one round took: seconds of processor, and the process's peak after each in MiB."""

    size: Size
    model: str
    align_s: float
    train_s: float
    align_mb: float
    train_mb: float


def compute(folder: Path, size: Size, model: str) -> Computed:
    """Make the uplinks of a round, compute it in a process of its own, and return what that took."""
    folder.mkdir()
    blobs = DirectoryBlobs(folder / "blobs")
    spec = make_round(blobs, size, model)
    (folder / "spec.pickle").write_bytes(pickle.dumps(spec))
    cost_of([sys.executable, "-m", __spec__.name, str(folder)], folder)
    found: dict[str, Any] = json.loads((folder / "took.json").read_text())
    return Computed(size, model, **found)


def make_round(blobs: DirectoryBlobs, size: Size, model: str) -> RoundSpec:
    """Store what the parties of a round send as 8-bit integers, and return its spec.

    Every party's rows vary along directions that all share and along some of its own, so that spans differ.
    """
    rng = np.random.default_rng(0)
    m, latent_dim = size.features, size.latent_dim
    if size.anchor_is_isotropic:
        anchor = np.linalg.qr(rng.standard_normal((m, m)))[0]
    else:
        anchor = rng.standard_normal((size.anchor_rows, m))
    shared, weights = rng.standard_normal((_FACTORS, m)), rng.standard_normal(m)
    parties = []
    for number in range(size.parties):
        mixed = np.vstack([shared, 0.3 * rng.standard_normal((_FACTORS, m))])
        # each row is short, as encoded rows are
        hidden = rng.standard_normal((max(size.rows, 4 * m), len(mixed)))
        rows = 0.2 * (hidden @ mixed + 0.3 * rng.standard_normal((len(hidden), m))) / np.sqrt(m)
        span = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :latent_dim]
        basis = turned(span, "SameSpan-Orth", rng.bytes)
        labels = (rows @ weights + 0.2 * rng.standard_normal(len(rows)) > 0).astype(np.uint8)
        rep = rows[: size.rows] @ basis
        parties.append(_stored(blobs, f"party-{number:05}", rep, anchor @ basis, labels[: size.rows]))
    return RoundSpec(
        parties=tuple(parties),
        label=Label(name="label", classes=("no", "yes")),
        alignment=AlignmentTerms(),
        model=MODELS[model](),
        anchor_is_isotropic=size.anchor_is_isotropic,
        folder="computed",
        features=m,
    )


def _stored(
    blobs: DirectoryBlobs,
    party: str,
    rep: NDArray[np.float64],
    anchor_rep: NDArray[np.float64],
    labels: NDArray[np.uint8],
) -> PartyArrays:
    named: dict[str, NDArray[Any]] = {"labels": labels}
    for name, matrix in (("rep", rep), ("anchor_rep", anchor_rep)):
        named[name], named[f"{name}_scale"] = quantise(matrix)
    stored = {name: store_array(blobs, f"{party}/{name}", array) for name, array in named.items()}
    return PartyArrays(
        party,
        stored["rep"],
        stored["anchor_rep"],
        stored["labels"],
        stored["rep_scale"],
        stored["anchor_rep_scale"],
    )


def main(folder: Path) -> None:
    """Compute the round of a folder, and write there what each step took."""
    spec: RoundSpec = pickle.loads((folder / "spec.pickle").read_bytes())  # noqa: S301  # we have written it
    blobs = DirectoryBlobs(folder / "blobs")
    load_libraries()
    aligned, align_s = _repeated(
        lambda number: align_parties(replace(spec, folder=f"aligned-{number}"), blobs)
    )
    align_mb = _peak_mb()
    _, train_s = _repeated(
        lambda number: train_model(replace(spec, folder=f"trained-{number}"), blobs, aligned)
    )
    took = {"align_s": align_s, "train_s": train_s, "align_mb": align_mb, "train_mb": _peak_mb()}
    (folder / "took.json").write_text(json.dumps(took))


def _repeated(step: Callable[[int], T]) -> tuple[T, float]:
    """Return what a step returns, and the median of the processor seconds of several runs of a short one."""
    spent: list[float] = []
    while len(spent) < MOST_RUNS and sum(spent) < ENOUGH_S:
        start = time.process_time()
        found = step(len(spent))
        spent.append(time.process_time() - start)
    return found, statistics.median(spent)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]))
