from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.defaults import rivals
from benchmarks.defaults.claims import add_claims, gather
from benchmarks.defaults.collaboration import one_span
from benchmarks.defaults.experiment import Outcome, Party, Setup, corrected, divide, run
from benchmarks.defaults.tables import bundled
from benchmarks.report import Report
from protocol.table_schema import Schema
from user_client.sdk import draft_terms


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


def test_a_row_that_is_kept_back_corrects_no_draft_and_is_left_out_if_it_has_a_level_of_its_own() -> None:
    def table(*levels: str) -> pa.Table:
        return pa.table({"ward": levels, "label": ["no", "yes"] * (len(levels) // 2)})

    lead = Party(table("a", "b", "a", "b"), table("a", "c"))
    other = Party(table("a", "c", "c", "a"), table("d", "c"))
    drafted = draft_terms(lead.table, label="label", parties=["a"], title="test").content["table_schema"]
    parties, schema, corrections = corrected(Schema.model_validate(drafted, strict=False), [lead, other])
    assert getattr(schema.columns[0], "levels", None) == ("a", "b", "c")
    assert (corrections.levels, corrections.unscored) == (1, 1)
    assert [party.kept_back["ward"].to_pylist() for party in parties] == [["a", "c"], ["c"]]
    assert [party.table.num_rows for party in parties] == [4, 4]


@pytest.mark.parametrize("parts", [4, 12])
def test_federated_averaging_learns_from_all_institutions(parts: int) -> None:
    source = bundled()["breast_cancer"]()
    rows = np.column_stack([source.table[f"x{index}"].to_numpy() for index in range(30)])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    each = list(
        zip(np.array_split(rows[:400], parts), np.array_split(source.labels[:400], parts), strict=True)
    )
    found = rivals.federated_averaging(each, 2, rows[400:], seed=0)
    assert roc_auc_score(source.labels[400:], found[:, 1]) > 0.97


def outcome(
    together: float, *, warnings: int = 0, headline: float | None = None, parties: int = 4
) -> Outcome:
    rivals = dict.fromkeys(
        ("alone", "closed form", "central", "central boosting", "axes alone", "one span", "undefended"), 80.0
    )
    setup = Setup("lognormal_3", "iid", parties)
    return Outcome(setup, 0, 3, 2, 4, 100, {"together": together, **rivals}, headline, warnings)


def claimed(*outcomes: Outcome) -> tuple[dict[str, tuple[float, bool]], Report]:
    report = Report("defaults")
    add_claims(report, gather(outcomes))
    return {claim.id: (claim.value, claim.holds) for claim in report.claims}, report


def test_a_loss_breaks_the_claim_whether_it_was_announced_or_not() -> None:
    quiet, _ = claimed(outcome(70), outcome(80))
    assert quiet["default_worst_loss_to_local"] == (5.0, False)
    assert quiet["default_worst_unannounced_loss"] == (5.0, False)
    assert quiet["warnings_missed"] == (1, False)
    announced, _ = claimed(outcome(70, warnings=1), outcome(80), outcome(81, parties=10))
    assert announced["default_worst_loss_to_local"] == (5.0, False)
    assert announced["default_worst_unannounced_loss"] == (-1.0, True)
    assert announced["warnings_missed"] == (0, True)


def test_a_product_that_always_warns_has_nothing_to_claim_and_loses_its_bound() -> None:
    claims, report = claimed(*[outcome(60, warnings=1)] * 3, outcome(90, warnings=2, parties=10))
    assert claims["default_worst_loss_to_local"] == (20.0, False)
    assert {"default_worst_unannounced_loss", "warnings_missed"}.isdisjoint(claims)
    assert report.conditions["nothing_to_claim"] == ["default_worst_unannounced_loss", "warnings_missed"]
    assert report.conditions["warnings"] == {
        "setups": 2,
        "setups_warned": 2,
        "setups_warned_that_lose": 1,
        "setups_that_lose": 1,
        "mean_gain_of_warned": -5.0,
    }


def test_the_error_of_the_headline_is_that_of_the_rounds_that_have_one() -> None:
    report = Report("defaults")
    add_claims(report, gather([outcome(80, headline=83.0), outcome(80, headline=81.0), outcome(50)]))
    assert (report.rows[0]["headlines"], report.rows[0]["headline_error"]) == (2, 2.0)
