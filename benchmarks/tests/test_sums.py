"""The claims about sums, from what was measured."""

from __future__ import annotations

from benchmarks.report import Report
from benchmarks.sums import Outcome, add_claims
from benchmarks.sums_noise import EPSILONS, rows_of, run
from benchmarks.sums_noise import Outcome as Noised
from benchmarks.sums_wire import worst_uplink


def test_claims_are_of_the_worst_round() -> None:
    report = Report("sums")
    outcomes = [Outcome("a", "iid", seed, {}, gap, gap / 10) for seed, gap in enumerate((1e-6, 2e-4))]
    noised = [Noised("digits", seed, 3.0, {"sums": 80.0 + seed, "rows": 40.0}) for seed in range(3)]
    noised += [Noised("digits", 0, 1.0, {"sums": 100.0, "rows": 0.0})]
    noised += [Noised("stroke_hospitals", 0, 3.0, {"sums": 100.0, "rows": 0.0})]
    add_claims(report, outcomes, {"uplink_over_formula": 1.006}, noised)
    found = {claim.id: (claim.value, claim.holds) for claim in report.claims}
    assert found["sums_equals_central"] == (2e-4, False)
    assert found["sums_split_invariance"] == (2e-5, True)
    assert found["sums_bytes_over_formula"] == (1.006, True)
    assert found["sums_dp_gain_at_epsilon_3"] == (41.0, False)


def test_the_uplink_is_that_of_the_institution_that_sent_most() -> None:
    parties = [{"uplink": {"measured_bytes": sent, "formula_bytes": 1000}} for sent in (1010, 1030, 1020)]
    found = worst_uplink(256, {"wire": {"counter": "kernel", "parties": parties}})
    assert (found["uplink_over_formula"], found["random_features"]) == (1.03, 256)


def test_noise_in_the_total_keeps_what_noise_on_each_row_destroys() -> None:
    table = {row["epsilon"]: row for row in rows_of(run(("digits", 0), folder=None))}
    assert list(table) == [None, *EPSILONS]
    assert table[3.0]["sums"] > table[3.0]["rows"] + 40
    assert table[1.0]["sums, each with all the noise"] < table[1.0]["sums"] - 10
