"""Curves that the model of the terms misses are named when terms are drafted, and when a table is checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.terms import Terms
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.sdk import DraftedEvent, draft_terms, with_sums
from user_client.sdk.drafting_dither import ON_DITHER
from user_client.sdk.terms import check_table
from user_client.words import risk_in_words


def shifts(seed: int, *, whole: bool = False) -> pa.Table:
    """More is done in the first half of each shift of six hours."""
    rng = np.random.default_rng(seed)
    hour = rng.integers(0, 24, 1000).astype(float) if whole else rng.uniform(0, 24, 1000)
    often = 1 / (1 + np.exp(-3 * np.sin(2 * np.pi * hour / 6)))
    return pa.table(
        {
            "hour": hour,
            "age": rng.uniform(20, 90, 1000),
            "y": np.where(rng.random(1000) < often, "yes", "no"),
        }
    )


def drafted(table: pa.Table, **options: Any) -> Any:
    return draft_terms(table, **{"label": "y", "parties": [LEAD, HOSPITAL], "title": "Shifts", **options})


@pytest.mark.parametrize(
    ("whole", "advice"), [(True, "--category hour"), (False, "into a column of its own in every table")]
)
def test_a_draft_names_it_with_a_way_out(whole: bool, advice: str) -> None:
    said = [one for one in drafted(shifts(1, whole=whole)).remarks if "by bands" in one]
    assert len(said) == 1
    assert said[0].startswith("hour: predicts the label by bands")
    assert advice in said[0]


def test_as_a_category_it_is_not_named() -> None:
    found = drafted(shifts(1, whole=True), categories=["hour"])
    assert not [one for one in found.remarks if "by bands" in one]


def test_who_checks_a_table_reads_it_before_signing(consortium: Consortium) -> None:
    consortium.until_joined().publish(**drafted(shifts(1)).content)
    found = consortium.hospital.round(consortium.id)
    terms: Terms = found.fetch_terms()
    checked = check_table(terms, shifts(2))
    assert list(checked.banded) == ["hour"]
    warnings, _ = risk_in_words(terms, checked)
    assert [one for one in warnings if one.startswith("column 'hour' predicts the label by bands")]


def several(seed: int, effect: float, *, line: float = 1.0, rows: int = 600) -> pa.Table:
    """Four columns that are bad at both ends, and one along a line."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 6))
    odds = effect * (x[:, :4] ** 2 - 1).sum(axis=1) + line * x[:, 5]
    told = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return pa.table({**{f"x{i}": x[:, i] for i in range(6)}, "y": told})


def angles(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    wind = rng.uniform(0, 2 * np.pi, 800)
    often = 1 / (1 + np.exp(-2.5 * np.cos(2 * wind)))
    return pa.table({"wind": wind, "y": np.where(rng.random(800) < often, "yes", "no")})


def on_model(found: Any) -> list[str]:
    return [one for one in found.remarks if one.startswith("model ")]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model", ["averaged", "mlp"])
def test_a_curve_of_two_bends_is_named_because_dither_hides_it_from_every_model(
    model: str, seed: int
) -> None:
    found = drafted(angles(seed), model=model)
    assert [one for one in found.remarks if one.startswith("wind: predicts the label by bands")]
    freely = drafted(angles(seed), model="mlp", dither=0.0)
    assert not [one for one in freely.remarks if "by bands" in one]


def test_where_the_label_lies_along_curves_alone_the_table_is_not_called_too_small() -> None:
    found = drafted(angles(0))
    assert found.signal is None
    (said,) = [one for one in found.remarks if "cannot tell how many" in one]
    assert "curves named above" in said
    assert "ask a member" not in said


@pytest.mark.parametrize("seed", range(2))
def test_several_weak_curves_are_named_together_with_another_model(seed: int) -> None:
    (said,) = on_model(drafted(several(seed, 1.3)))
    assert said.startswith("model averaged: bands of all columns of numbers together")
    assert any(name in said for name in ("x0", "x1", "x2", "x3"))
    assert "x5" not in said
    assert "--model mlp" in said
    assert not on_model(drafted(several(seed, 1.3), model="mlp"))


@pytest.mark.parametrize("seed", range(3))
def test_of_a_table_without_curves_nothing_is_said(seed: int) -> None:
    for line in (0.0, 3.0):
        for model in ("averaged", "logistic"):
            said = drafted(several(seed, 0.0, line=line), model=model).remarks
            assert not [one for one in said if "bands" in one]


def product(seed: int, rows: int = 900) -> pa.Table:
    """Columns that follow few factors, and two that follow none and tell the label by their product alone."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rows, 3))
    x = np.hstack([factors @ rng.standard_normal((3, 12)), rng.standard_normal((rows, 2))])
    x[:, :12] += 0.3 * rng.standard_normal((rows, 12))
    odds = 0.7 * factors[:, 0] + 3 * np.sign(x[:, 12] * x[:, 13])
    told = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return pa.table({**{f"x{i}": x[:, i] for i in range(14)}, "y": told})


def test_a_product_of_columns_counts_for_the_latent_dimension() -> None:
    """A regression on the rows follows the factor alone, for which the first axes are enough."""
    found = drafted(product(1))
    assert found.signal is not None
    assert found.signal.curves == 2
    assert found.signal.auc > 0.85
    assert found.signal.kept > 0.95
    few = drafted(product(1), latent_dim=3).signal
    assert few is not None
    assert few.kept < 0.3
    assert few.projected_auc < 0.7


@pytest.mark.parametrize(("model", "is_said"), [("logistic", True), ("averaged", False)])
def test_a_straight_model_of_a_label_that_curves_is_named(model: str, *, is_said: bool) -> None:
    said = [one for one in on_model(drafted(product(1), model=model)) if "2 directions" in one]
    assert bool(said) == is_said
    assert all("--model averaged" in one for one in said)


def test_sums_are_advised_to_take_random_features() -> None:
    table = several(0, 1.3)
    found = drafted(table, parties=["a", "b", "c"])
    said = with_sums(found, table).remarks
    assert [one for one in said if "--random-features" in one]
    assert not [one for one in said if "--model mlp" in one]
    curved = with_sums(found, table, random_features=50).remarks
    assert not [one for one in curved if "bands of all" in one]


def test_hazards_that_are_high_at_both_ends_are_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(800)
    until = rng.exponential(size=800) / np.exp(1.2 * (x**2 - 1))
    ends = rng.exponential(3 * np.median(until), 800)
    table = pa.table(
        {"x": x, "days": np.minimum(until, ends) + 0.01, "died": np.where(until <= ends, "yes", "no")}
    )
    found = draft_terms(
        table,
        label="days",
        task="survival",
        event=DraftedEvent("died", "yes"),
        parties=[LEAD, HOSPITAL],
        title="Survival",
    )
    assert [one for one in found.remarks if one.startswith("x: predicts the label by bands")]


def prices(seed: int) -> pa.Table:
    """What a stone costs grows with its weight, and the faster the heavier it is."""
    rng = np.random.default_rng(seed)
    weight, table = rng.uniform(0, 1, 600), rng.uniform(0, 1, 600)
    price = np.exp(4 * weight) + 0.5 * rng.standard_normal(600)
    return pa.table({"weight": weight, "table": table, "price": price})


def on_dither(remarks: Iterable[str]) -> list[str]:
    return [one for one in remarks if one.startswith(ON_DITHER)]


def test_terms_of_sums_have_no_dither_to_speak_of() -> None:
    found = drafted(prices(1), label="price", task="number", parties=["a", "b", "c"])
    assert len(on_dither(found.remarks)) == 1
    assert not on_dither(with_sums(found, prices(1)).remarks)


def test_what_the_dither_hides_of_a_curve_is_said_to_who_drafts_and_who_checks(
    consortium: Consortium,
) -> None:
    found = drafted(prices(1), label="price", task="number")
    assert len(on_dither(found.remarks)) == 1
    assert not on_dither(drafted(prices(1), label="price", task="number", dither=0.0).remarks)
    consortium.until_joined().publish(**found.content)
    terms = consortium.hospital.round(consortium.id).fetch_terms()
    warnings, _ = risk_in_words(terms, check_table(terms, prices(2)))
    assert len(on_dither(warnings)) == 1
