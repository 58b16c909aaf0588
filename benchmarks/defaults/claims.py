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
MOST_LOST: Final = 1.0
LOSS_UNIT: Final = "points of ROC-AUC"


def gather(outcomes: Iterable[Outcome]) -> dict[Setup, list[Outcome]]:
    """Return the outcomes by setup."""
    found: defaultdict[Setup, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.setup].append(outcome)
    return dict(found)


def add_claims(report: Report, outcomes: Outcomes) -> None:
    """Add a row for each setup, and the claims."""
    report.rows += [_row(setup, found) for setup, found in outcomes.items()]
    _add_claims_on_staying_alone(report, outcomes)
    to_closed_form = [-mean_gain(found, "closed form") for found in outcomes.values()]
    report.claim("default_mean_gap_to_closed_form", float(np.mean(to_closed_form)), "points", "<=", 1.0)
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


def _add_claims_on_staying_alone(report: Report, outcomes: Outcomes) -> None:
    """Add what joining may cost: anywhere, and where nobody was told before; and what a warning is worth.

    A product that always warns could claim nothing of losses without a warning.
    """
    losses = {setup: -mean_gain(found, "alone") for setup, found in outcomes.items()}
    warned = {setup for setup, found in outcomes.items() if any(one.warnings for one in found)}
    report.claim("default_worst_loss_to_local", max(losses.values()), LOSS_UNIT, "<=", MOST_LOST)
    quiet = [loss for setup, loss in losses.items() if setup not in warned]
    if quiet:
        report.claim("default_worst_unannounced_loss", max(quiet), LOSS_UNIT, "<=", MOST_LOST)
    unwarned = [one for found in outcomes.values() for one in found if not one.warnings]
    if unwarned:
        missed = [one for one in unwarned if one.scores["alone"] - one.scores["together"] > MISSED]
        report.claim("warnings_missed", len(missed), "rounds", "==", 0)
    report.conditions["nothing_to_claim"] = [
        name
        for name, cases in (("default_worst_unannounced_loss", quiet), ("warnings_missed", unwarned))
        if not cases
    ]
    of_warned = [losses[setup] for setup in warned]
    report.conditions["warnings"] = {
        "setups": len(losses),
        "setups_warned": len(warned),
        "setups_warned_that_lose": sum(loss > 0 for loss in of_warned),
        "setups_that_lose": sum(loss > 0 for loss in losses.values()),
        "mean_gain_of_warned": round(-float(np.mean(of_warned)), 2) if of_warned else None,
    }
    told = ", ".join(f"{name} {value}" for name, value in report.conditions["warnings"].items())
    print(f"without a bound: {told}; nothing to claim: {report.conditions['nothing_to_claim'] or 'none'}")


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
        "levels_added": round(float(np.mean([one.corrections.levels for one in outcomes])), 1),
        "rows_unscored": round(float(np.mean([one.corrections.unscored for one in outcomes])), 1),
        "seeds": len(outcomes),
    }
