"""Check that a broken party is named, and nobody else: rounds with a planted fault, and rounds without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyst_server.alignment.suspicion import suspects
from benchmarks.accuracy.bases import draw_anchor, principal_directions
from benchmarks.accuracy.experiment import CLASSES_PER_PARTY, Setup, Split, deal, load
from benchmarks.data import Matrix
from orthonormal_data_collaboration.bases import Condition, turn
from protocol.anchor_terms import ANCHORS, AnchorKind

ROUNDS: Final = 100
ROUND: Final = Setup(
    table="bad party",
    dataset="digits",
    split="iid",
    parties=8,
    rows_per_party=60,
    latent_dim=10,
    anchor_rows=500,
    conditions=(),
    ways=(),
    models=(),
    metrics=(),
    epochs=0,
    test_rows=0,
)


Fault = Callable[[Matrix, Matrix, np.random.Generator], Matrix]
"""Return what a broken party sends, given what it should send and what it would send with another anchor."""

FAULTS: Final[Mapping[str, Fault]] = {
    "wrong anchor": lambda _own, other, _rng: other,
    "scaled": lambda own, _, rng: own * float(rng.choice([1e-3, 0.5, 2.0, 255.0])),
    "permuted rows": lambda own, _, rng: rng.permutation(own),
    # with the mean and standard deviation of what it replaces: only the distribution is wrong
    "random": lambda own, _, rng: rng.normal(own.mean(), own.std(), own.shape),
    # finite numbers of every size, as from a buffer read with the wrong type
    "garbage": lambda own, _, rng: np.clip(rng.standard_cauchy(own.shape), -1e6, 1e6),
    "basis not orthonormal": lambda own, _, rng: own @ rng.random((own.shape[1], own.shape[1])),
}
_ANCHORS: Final[tuple[AnchorKind, ...]] = ("haar", "uniform", "gaussian")
_SPANS: Final[tuple[Condition, ...]] = ("SameSpan-Orth", "DiffSpan-Orth")
_SPLITS: Final[tuple[Split, ...]] = ("iid", *CLASSES_PER_PARTY)
_TYPES: Final = ("float64", "float32", "float16")


@dataclass(frozen=True)
class Outcome:
    """One round: which fault was planted (None for a clean round), at which party, and who was named."""

    fault: str | None
    anchor: AnchorKind
    condition: Condition
    split: Split
    dtype: str
    planted: tuple[int, ...]
    named: tuple[int, ...]

    @property
    def right(self) -> bool:
        return self.named == self.planted


def rounds(setup: Setup, directory: Path | None, *, faulty: bool, count: int = ROUNDS) -> list[Outcome]:
    """Run rounds with random anchor, spans, split and number type; the faults take turns."""
    rng = np.random.default_rng(int(faulty))
    circumstances = list(product(_SPLITS, _ANCHORS, _SPANS, _TYPES))
    faults: list[str | None] = list(FAULTS) if faulty else [None]
    outcomes = []
    for seed, number in enumerate(rng.integers(len(circumstances), size=count)):
        split, anchor, condition, dtype = circumstances[number]
        fault = faults[seed % len(faults)]
        outcomes.append(_play(replace(setup, split=split), directory, fault, anchor, condition, dtype, seed))
    return outcomes


def as_rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return one row per fault and anchor."""
    groups = dict.fromkeys((outcome.fault, outcome.anchor) for outcome in outcomes)
    return [
        {
            "table": "bad party",
            "fault": fault or "none",
            "anchor": anchor,
            "rounds": len(these),
            "right": sum(outcome.right for outcome in these),
        }
        for fault, anchor in groups
        for these in [[outcome for outcome in outcomes if (outcome.fault, outcome.anchor) == (fault, anchor)]]
    ]


def _play(
    setup: Setup,
    directory: Path | None,
    fault: str | None,
    kind: AnchorKind,
    condition: Condition,
    dtype: str,
    seed: int,
) -> Outcome:
    rng = np.random.default_rng([seed, fault is None])
    parties = deal(load(setup.dataset, directory, seed), setup, rng)
    directions = [principal_directions(party.rows, setup.latent_dim, rng) for party in parties]
    bases = turn(directions, condition, rng)
    anchor = draw_anchor(kind, setup.anchor_rows, len(bases[0]), rng)
    reps = [anchor @ basis for basis in bases]
    planted: tuple[int, ...] = ()
    if fault is not None:
        bad = int(rng.integers(setup.parties))
        other = draw_anchor(kind, setup.anchor_rows, len(bases[0]), rng)
        reps[bad] = FAULTS[fault](reps[bad], other @ bases[bad], rng)
        planted = (bad,)
    found = suspects(
        [_as_sent(rep, dtype) for rep in reps],
        anchor_is_isotropic=ANCHORS[kind].is_isotropic,
        row_counts=[len(party.rows) for party in parties],
    )
    named = tuple(sorted({suspicion.index for suspicion in found}))
    return Outcome(fault, kind, condition, setup.split, dtype, planted, named)


def _as_sent(rep: Matrix, dtype: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """Return the numbers as the analyst uses them: rounded to ``dtype``, float16 then as float32."""
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        return rep.clip(-largest, largest).astype(np.float16).astype(np.float32)
    return rep.astype(dtype)
