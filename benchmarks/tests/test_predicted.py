from __future__ import annotations

import pytest

from analyst_server.services.predicting import BENCHMARKED, CONSTANTS
from analyst_server.services.work import Size, Term
from benchmarks import report
from benchmarks.predicted import __main__ as predicted
from benchmarks.predicted.fitting import Point, deviation, fitted
from benchmarks.predicted.points import CALIBRATION, HELD_OUT, Points

SMALL = Points(
    institution=((500, 6, 3, "logistic"),),
    server=((100, 4),),
    compute=(
        (Size(4, 60, 8, 3, 8), "logistic"),
        (Size(4, 60, 8, 3, 20, anchor_is_isotropic=False), "averaged"),
    ),
)


def test_every_quantity_is_measured_and_held_to_its_prediction() -> None:
    found = predicted.measure_at(SMALL)
    quantities = [row["quantity"] for row in found.rows]
    assert set(quantities) == set(CONSTANTS)
    assert [quantities.count(name) for name in ("prepare", "take", "align", "train")] == [1, 1, 2, 2]
    for row in found.rows:
        assert row["measured"] > 0
        assert row["predicted"] == pytest.approx(row["measured"] * (1 + row["deviation"]))
    (overall, *each) = found.claims
    assert overall.id == "predicted_within"
    assert (
        overall.value
        == max(claim.value for claim in each)
        == max(abs(row["deviation"]) for row in found.rows)
    )


def test_a_prediction_that_is_too_small_counts_as_one_that_is_too_large() -> None:
    found = report.Report("predicted")
    for name, off in (("align", -0.4), ("align", 0.1), ("train", 0.2)):
        found.rows.append({"quantity": name, "deviation": off})
    predicted.add_claims(found)
    assert {claim.id: (claim.value, claim.holds) for claim in found.claims} == {
        "predicted_within": (0.4, False),
        "predicted_within_align": (0.4, False),
        "predicted_within_train": (0.2, True),
    }


def test_constants_are_found_again_whatever_the_machine_was_slow_at() -> None:
    known = {"start": 2.0, "rows": 1e-6}
    points = []
    for rows, times in ((10**5, 1.0), (10**6, 3.0), (10**7, 2.0)):
        probes = type(BENCHMARKED)(1, 1, 1 / times, 1)
        terms = [Term("start", "interpreter", 1), Term("rows", "copy", rows)]
        points.append(Point("law", str(rows), terms, known["start"] + known["rows"] * rows * times, probes))
    base = type(BENCHMARKED)(1, 1, 1, 1)
    found = fitted(points, base)
    assert found == pytest.approx(known)
    assert [deviation(point, found, base) for point in points] == pytest.approx([0, 0, 0], abs=1e-9)
    assert deviation(points[0], {"start": 1.0, "rows": 0.0}, base) == pytest.approx(1 / 2.1 - 1)


def test_no_point_that_is_predicted_is_one_that_the_constants_are_from() -> None:
    for kind in ("institution", "server", "compute"):
        assert not set(getattr(HELD_OUT, kind)) & set(getattr(CALIBRATION, kind))
