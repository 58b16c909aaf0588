"""The claims about sums, from what was measured."""

from __future__ import annotations

from benchmarks.report import Report
from benchmarks.sums import Outcome, add_claims
from benchmarks.sums_wire import worst_uplink


def test_claims_are_of_the_worst_round() -> None:
    report = Report("sums")
    outcomes = [Outcome("a", "iid", seed, {}, gap, gap / 10) for seed, gap in enumerate((1e-6, 2e-4))]
    add_claims(report, outcomes, {"uplink_over_formula": 1.006})
    found = {claim.id: (claim.value, claim.holds) for claim in report.claims}
    assert found["sums_equals_central"] == (2e-4, False)
    assert found["sums_split_invariance"] == (2e-5, True)
    assert found["sums_bytes_over_formula"] == (1.006, True)


def test_the_uplink_is_that_of_the_institution_that_sent_most() -> None:
    parties = [{"uplink": {"measured_bytes": sent, "formula_bytes": 1000}} for sent in (1010, 1030, 1020)]
    found = worst_uplink(256, {"wire": {"counter": "kernel", "parties": parties}})
    assert (found["uplink_over_formula"], found["random_features"]) == (1.03, 256)
