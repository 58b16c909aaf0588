from __future__ import annotations

import numpy as np
import pytest

from benchmarks.defaults.claims import add_claims, gather
from benchmarks.defaults.collaboration import one_span
from benchmarks.defaults.experiment import Outcome, Setup, divide, run
from benchmarks.defaults.tables import bundled
from benchmarks.report import Report


@pytest.mark.parametrize("split", ["iid", "dirichlet", "one class"])
def test_every_row_has_one_owner(split: str) -> None:
    source = bundled()["breast_cancer"]()
    parts = divide(source, Setup("breast_cancer", split, 4), np.random.default_rng(0))  # type: ignore[arg-type]
    rows = np.concatenate(parts)
    assert len(set(rows.tolist())) == len(rows) > 0.9 * len(source.labels)
    if split == "one class":
        assert [len(np.unique(source.labels[part])) for part in parts] == [1] * 4


def test_a_collaboration_is_scored_beside_its_rivals() -> None:
    outcome = run(Setup("wine", "iid", 4), 0, None, judged=True)
    assert outcome.headline is None or 50 <= outcome.headline <= 100
    assert set(outcome.scores) >= {"together", "alone", "axes alone", "one span", "central", "closed form"}
    assert all(50 <= score <= 100 for score in outcome.scores.values())
    assert outcome.scores["together"] > 95


def test_one_span_is_that_of_all_bases() -> None:
    rng = np.random.default_rng(0)
    span = np.linalg.qr(rng.standard_normal((10, 3)))[0]
    bases = [span @ np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(4)]
    found = one_span(bases, rng.bytes)
    for basis in found:
        np.testing.assert_allclose(basis @ basis.T, span @ span.T, atol=1e-12)
    assert np.abs(found[0] - found[1]).max() > 0.1


def outcome(together: float, *, warnings: int = 0, headline: float | None = None) -> Outcome:
    rivals = dict.fromkeys(
        ("alone", "closed form", "central", "central boosting", "axes alone", "one span", "undefended"), 80.0
    )
    setup = Setup("lognormal_3", "iid", 4)
    return Outcome(setup, 0, 3, 2, 4, 100, {"together": together, **rivals}, headline, warnings)


def test_a_loss_that_was_announced_is_no_claim_broken() -> None:
    quiet, announced = Report("defaults"), Report("defaults")
    add_claims(quiet, gather([outcome(70), outcome(80)]))
    add_claims(announced, gather([outcome(70, warnings=1), outcome(80)]))
    assert [claim.value for claim in quiet.claims if claim.id == "default_worst_loss_to_local"] == [5.0]
    assert [claim.value for claim in quiet.claims if claim.id == "warnings_missed"] == [1]
    assert [claim.holds for claim in announced.claims if claim.id == "default_worst_loss_to_local"] == [True]
    assert [claim.value for claim in announced.claims if claim.id == "warnings_missed"] == [0]


def test_the_error_of_the_headline_is_that_of_the_rounds_that_have_one() -> None:
    report = Report("defaults")
    add_claims(report, gather([outcome(80, headline=83.0), outcome(80, headline=81.0), outcome(50)]))
    assert (report.rows[0]["headlines"], report.rows[0]["headline_error"]) == (2, 2.0)
