"""The claims about the defaults, over all tables and ways to divide their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from benchmarks.defaults.experiment import Outcome, Setup
from benchmarks.report import Report

Outcomes = Mapping[Setup, Sequence[Outcome]]
"""The outcomes of each setup, one for each seed."""
MISSED: Final = 3.0
"""Points of loss to staying alone that somebody must have been warned of."""


def gather(outcomes: Iterable[Outcome]) -> dict[Setup, list[Outcome]]:
    """Return the outcomes by setup."""
    found: defaultdict[Setup, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.setup].append(outcome)
    return dict(found)


def add_claims(report: Report, outcomes: Outcomes) -> None:
    """Add a row for each setup, and the claims."""
    report.rows += [_row(setup, found) for setup, found in outcomes.items()]
    unannounced = [
        mean_gain(found, "alone") for found in outcomes.values() if not any(one.warnings for one in found)
    ]
    report.claim(
        "default_worst_loss_to_local", -min(unannounced, default=0.0), "points of ROC-AUC", "<=", 1.0
    )
    to_closed_form = [-mean_gain(found, "closed form") for found in outcomes.values()]
    report.claim("default_mean_gap_to_closed_form", float(np.mean(to_closed_form)), "points", "<=", 1.0)
    missed = [
        one
        for found in outcomes.values()
        for one in found
        if one.scores["alone"] - one.scores["together"] > MISSED and not one.warnings
    ]
    report.claim("warnings_missed", len(missed), "rounds", "==", 0)
    tails = [found for setup, found in outcomes.items() if setup.table == "lognormal_3"]
    to_pooled = [-mean_gain(found, "central") for found in tails]
    report.claim("heavy_tails_gap_to_pooled", max(to_pooled, default=np.nan), "points", "<=", 2.0)
    cost = float(np.mean([-mean_gain(found, "undefended") for found in outcomes.values()]))
    report.claim("default_accuracy_cost", cost, "points of ROC-AUC", "<=", 1.0)
    for rival in ("central", "central boosting", "axes alone", "one span", "undefended"):
        gaps = [-mean_gain(found, rival) for found in outcomes.values()]
        name = f"default_mean_gap_to_{rival.replace(' ', '_')}"
        report.conditions[name] = round(float(np.mean(gaps)), 2)
        print(f"{name} {report.conditions[name]} points, at most {max(gaps):.2f}")


def mean_gain(outcomes: Sequence[Outcome], rival: str) -> float:
    """Return by how many points the collaboration is above a rival, the mean over the seeds."""
    return float(np.mean([one.scores["together"] - one.scores[rival] for one in outcomes]))


def _row(setup: Setup, outcomes: Sequence[Outcome]) -> dict[str, object]:
    first = outcomes[0]
    told = [one.headline - one.scores["together"] for one in outcomes if one.headline is not None]
    return {
        "table": setup.table,
        "split": setup.split,
        "parties": first.parties,
        "rows": first.rows,
        "features": first.features,
        "latent_dim": round(float(np.mean([one.latent_dim for one in outcomes])), 1),
        **{name: round(float(np.mean([one.scores[name] for one in outcomes])), 2) for name in first.scores},
        "headlines": len(told),
        "headline_error": round(float(np.mean(told)), 2) if told else None,
        "warned": sum(one.warnings > 0 for one in outcomes),
        "seeds": len(outcomes),
    }
