"""A column that tells the label in bands is named when terms are drafted, and when a table is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.terms import Terms
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.sdk import draft_terms
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
    return draft_terms(table, label="y", parties=[LEAD, HOSPITAL], title="Shifts", **options)


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
