"""Scores over seeds as rows with their interval, next to the paper's figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.accuracy.experiment import Cell, Setup
from benchmarks.accuracy.papers import figure

Scores = Mapping[Cell, Sequence[float]]


def gather(runs: Iterable[Iterable[tuple[Cell, float]]]) -> dict[Cell, list[float]]:
    """Return the scores of all seeds for each cell, in the order of the runs."""
    found: dict[Cell, list[float]] = {}
    for run in runs:
        for cell, value in run:
            found.setdefault(cell, []).append(value)
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the half width of its 95 % interval (Student's t)."""
    if len(values) < 2:
        return float(np.mean(values)), float("inf")
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1) * error)


def rows(scores: Scores) -> list[dict[str, Any]]:
    """Return one row per cell, as it is written to the JSON file."""
    return [_row(cell, values) for cell, values in scores.items()]


def _row(cell: Cell, values: Sequence[float]) -> dict[str, Any]:
    setup = cell.setup
    mean, half = interval(values)
    row: dict[str, Any] = {
        "table": setup.table,
        "dataset": setup.dataset,
        "split": setup.split,
        "parties": setup.parties,
        "rows_per_party": setup.rows_per_party or "all",
        "latent_dim": setup.latent_dim,
        "condition": cell.condition,
        "method": cell.method,
        "anchor": cell.anchor,
        "centred": cell.centred,
        "model": cell.model,
        "one_scale": cell.one_scale,
        "metric": cell.metric,
        "mean": round(mean, 3),
        "half_width": round(half, 3) if np.isfinite(half) else None,
        "seeds": len(values),
    }
    paper = figure(cell)
    if paper is not None:
        differs = abs(mean - paper[0]) > half + paper[1]
        row |= {"paper": paper[0], "paper_half_width": round(paper[1], 3), "differs": differs}
        if differs:
            row["why"] = _why(setup, cell)
    return row


def _why(setup: Setup, cell: Cell) -> str:
    """Return the known reasons why a cell differs from its paper."""
    reasons = []
    if setup.table in ("III", "V") and setup.split == "iid":
        if setup.parties < 100:
            reasons.append(f"{setup.parties} parties instead of 100, so fewer training rows")
        if setup.table == "V" or setup.latent_dim != 100:
            reasons.append(f"latent dimension {setup.latent_dim} ({_stated(setup)})")
    if setup.split == "one class":
        if setup.rows_per_party:
            reasons.append(f"{setup.rows_per_party} rows per party instead of a quarter of all")
        reasons.append("the publisher's split of the molecules is not available; a fixed fifth is held out")
        reasons.append(
            "anchor from another compound set instead of PubChem"
            if setup.table == "II, v2"
            else "the paper does not state the anchor rows and the latent dimension"
        )
    if setup.dataset == "Fashion-MNIST":
        reasons.append("the split is not the official one")
    if cell.model == "mlp":
        reasons.append("the paper does not state the epochs")
    return "; ".join(reasons)


def _stated(setup: Setup) -> str:
    return "the paper's is 100" if setup.table == "III" else "the paper does not state its"
