"""The curves of a report: right at every point, and nothing where nothing may be told."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_score, roc_curve

from analyst_server.pages.curves import curve_parts, edges
from analyst_server.training.calibration import LEAST_ROWS_OF_A_BIN, calibration_table

SEEDS = range(5)


def rows(seed: int, count: int = 300) -> tuple[Any, Any]:
    """Labels and the probability of the second class, which is right for none and useful for most."""
    rng = np.random.default_rng(seed)
    found = rng.uniform(0, 1, count)
    return (rng.uniform(0, 1, count) < found**2).astype(int), found


def bins(seed: int, count: int = 300) -> list[Any]:
    labels, found = rows(seed, count)
    table = calibration_table(labels, np.stack([1 - found, found], axis=1))
    assert table is not None
    return list(map(asdict, table.bins))


def estimate(**changed: Any) -> Any:
    table = {"bins": bins(0), "ece": 0.1, "ece_by_chance": 0.1}
    own = {"rows": 300, "calibration": {**table, "bins": bins(1)}}
    slope = {"mean": 1.0, "low": 0.9, "high": 1.1}
    return {
        "calibration": table,
        "calibration_slope": slope,
        "by_party": {"a": own, "b": {"rows": 30, "calibration": None}},
        **changed,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_every_edge_is_a_point_of_the_whole_curve(seed: int) -> None:
    labels, found = rows(seed)
    false_positives, recall, thresholds = roc_curve(labels, found, drop_intermediate=False)
    for edge in edges(bins(seed)):
        at = int(np.argmin(np.abs(false_positives - edge.false_positives) + np.abs(recall - edge.recall)))
        assert (edge.false_positives, edge.recall) == pytest.approx((false_positives[at], recall[at]))
        assert edge.precision == pytest.approx(precision_score(labels, found >= thresholds[at]))


def test_a_curve_ends_where_every_row_is_called_positive() -> None:
    labels, _ = rows(0)
    last = edges(bins(0))[-1]
    assert last.false_positives == pytest.approx(1)
    assert last.recall == pytest.approx(1)
    assert last.precision == pytest.approx(labels.mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_of_a_curve_is_of_few_rows(seed: int) -> None:
    assert len(edges(bins(seed, 5000))) <= 10
    assert min(one["rows"] for one in bins(seed, 105)) >= LEAST_ROWS_OF_A_BIN


@pytest.mark.parametrize("observed", [0.0, 1.0])
def test_rows_of_one_class_have_no_curve(observed: float) -> None:
    assert edges([{"rows": 20, "predicted": at, "observed": observed} for at in (0.2, 0.8)]) == []


def test_a_party_without_enough_rows_has_no_line() -> None:
    charts, parts = curve_parts("held out", estimate())
    assert len(charts) == 3
    assert all("a: " in chart and "b: " not in chart for chart in charts)
    assert "all scored rows, 1" in "".join(parts)


@pytest.mark.parametrize(
    "changed",
    [
        {"calibration": None, "by_party": {}},  # what a member is shown
        {"calibration_slope": None},  # of more than two classes
    ],
)
def test_without_bins_or_with_more_classes_nothing_is_drawn(changed: dict[str, Any]) -> None:
    assert curve_parts("held out", estimate(**changed)) == ([], [])


def test_of_many_parties_no_more_are_drawn_than_can_be_told_apart() -> None:
    own = estimate()["by_party"]["a"]
    charts, _ = curve_parts("held out", estimate(by_party={f"p{number}": own for number in range(40)}))
    assert charts[0].count("<polyline") == 2 * 13 + 1  # each line, its sample, and the diagonal
