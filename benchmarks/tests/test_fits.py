from __future__ import annotations

from contextlib import nullcontext

import pytest

from benchmarks import fits
from benchmarks.fits import compared, product_of_denormals, slowdown_by_denormals
from benchmarks.report import Report
from runtime import denormals

IS_POSSIBLE = denormals._glibc_on_x86() is not None


def _claims(found: Report) -> dict[str, bool]:
    return {claim.id: claim.holds for claim in found.claims}


@pytest.mark.skipif(not IS_POSSIBLE, reason="denormal numbers are as they are but for glibc on x86-64")
def test_a_denormal_product_is_zero_inside_and_not_outside() -> None:
    assert product_of_denormals(denormals.tiny_as_zero) == 0
    assert product_of_denormals(nullcontext) == pytest.approx(5e-41, rel=1e-3)


def test_both_sides_are_fitted_both_ways_with_the_same_predictions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = compared(600, 12, 3, slowdown=1.0)
    assert [row["side"] for row in found.rows] == ["institution", "analyst"]
    assert all(row["seconds"] > 0 and row["with_denormals"] > 0 for row in found.rows)
    assert [len(each) for row in found.rows for each in row["all_seconds"]] == [fits.TURNS] * 4
    claims = _claims(found)
    assert claims.keys() == {"fit_not_slower", "fit_prediction_gap"}
    assert claims["fit_prediction_gap"]
    assert "nothing to gain here" in capsys.readouterr().out


def test_where_denormal_numbers_are_slow_a_context_that_does_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fits, "tiny_as_zero", nullcontext)
    claims = _claims(compared(600, 12, 3, slowdown=100.0))
    assert claims.keys() == {"fit_not_slower", "fit_speed_up", "fit_prediction_gap"}
    assert not claims["fit_speed_up"]


def test_the_probe_sees_no_difference_where_denormal_numbers_count_as_zero() -> None:
    with denormals.tiny_as_zero():
        slowdown = slowdown_by_denormals()
    if IS_POSSIBLE:
        assert slowdown < fits.SLOW
    assert slowdown > 0
