from __future__ import annotations

from benchmarks.fits import compared


def test_both_sides_are_fitted_both_ways_with_the_same_predictions() -> None:
    found = compared(600, 12, 3)
    assert [row["side"] for row in found.rows] == ["institution", "analyst"]
    assert all(row["seconds"] > 0 and row["with_denormals"] > 0 for row in found.rows)
    claims = {claim.id: claim for claim in found.claims}
    assert claims.keys() == {"fit_not_slower", "fit_prediction_gap"}
    assert claims["fit_prediction_gap"].holds
