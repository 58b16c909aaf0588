"""A simulated round in which some parties lack columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orthonormal_data_collaboration import Simulation, simulate
from protocol.errors import InputError

LACKED = ["c4", "c5"]


def patients(seed: int, count: int = 200) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 6))
    risk = values[:, 0] + values[:, 1] - values[:, 4] + 0.3 * rng.normal(size=count)
    columns = {f"c{index}": values[:, index] for index in range(6)}
    return pa.table({**columns, "ill": np.where(risk > 0, "yes", "no")})


def played(**changed: Any) -> Simulation:
    tables = {f"h{index}": patients(index) for index in range(6)}
    tables["h4"], tables["h5"] = (tables[name].drop_columns(LACKED) for name in ("h4", "h5"))
    listed = [{"party": name, "columns": LACKED} for name in ("h4", "h5")]
    return simulate(
        tables, label="ill", random_state=0, absent_columns=listed, latent_dim=3, hold_out=0.2, **changed
    )


@pytest.fixture(scope="module")
def found() -> Simulation:
    return played()


def test_the_basis_is_zero_on_what_is_absent_and_orthonormal_on_the_rest(found: Simulation) -> None:
    basis = found.members["h4"].secret_basis
    assert not basis[4:].any()
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    assert found.members["h0"].secret_basis[4:].any(axis=1).all()


def test_the_anchor_is_projected_with_that_basis(found: Simulation) -> None:
    member = found.members["h4"]
    assert found.anchor is not None
    # as far as 8-bit integers with one scale per column go
    np.testing.assert_allclose(member.anchor_rep, found.anchor @ member.secret_basis, atol=1 / 127)


def of_four_factors(seed: int) -> pa.Table:
    """Sixteen columns of four factors: parties that have them all share nearly one span."""
    rng, loadings = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(4, 16))
    factors = rng.normal(size=(300, 4))
    values = factors @ loadings + 0.3 * rng.normal(size=(300, 16))
    columns = {f"c{index}": values[:, index] for index in range(16)}
    return pa.table({**columns, "ill": np.where(factors[:, 0] > 0, "yes", "no")})


def test_nobody_is_suspected_for_a_span_that_the_terms_explain() -> None:
    lacked = [f"c{index}" for index in range(4, 16)]
    tables = {f"h{index}": of_four_factors(index) for index in range(9)}
    listed = [{"party": name, "columns": lacked} for name in ("h7", "h8")]
    for name in ("h7", "h8"):
        tables[name] = tables[name].drop_columns(lacked)
    found = simulate(tables, label="ill", random_state=0, latent_dim=4, absent_columns=listed)
    assert found.suspected == []
    assert found.report["rows"] == 9 * 240  # a fifth of the 300 is kept back


def test_it_predicts_without_the_columns_and_does_not_read_them(found: Simulation) -> None:
    table = patients(99, 400).drop_columns(["ill"])
    spoilt = table.drop_columns(LACKED)
    for name in LACKED:
        spoilt = spoilt.append_column(name, pa.array(["no number"] * 400))
    own = found["h4"].predict_proba(table.drop_columns(LACKED))
    np.testing.assert_array_equal(found["h4"].predict_proba(spoilt), own)
    assert list(found["h4"].feature_names_in_) == ["c0", "c1", "c2", "c3"]
    with pytest.raises(ValueError, match="'c4' is missing"):
        found["h0"].predict(table.drop_columns(LACKED))


@pytest.mark.parametrize("alignment", ["isotropic", "imakura"])
def test_who_lacks_columns_still_predicts_much_better_than_chance(alignment: str) -> None:
    again, truth = played(alignment=alignment), patients(99, 400)
    labels = np.array(truth["ill"].to_pylist())
    rows = truth.drop_columns(["ill"])
    assert (again["h4"].predict(rows.drop_columns(LACKED)) == labels).mean() > 0.65
    assert (again["h0"].predict(rows) == labels).mean() > 0.8


def test_rows_that_are_joined_are_not_simulated() -> None:
    half = [f"c{index}" for index in range(3)], [f"c{index}" for index in range(3, 6)]
    group = {"row_key": "id", "parties": ["h0", "h1"], "latent_dims": [2, 1], "labels": "h0"}
    lacking = [{"party": "h0", "columns": half[1]}, {"party": "h1", "columns": half[0]}]
    with pytest.raises(InputError, match="are not simulated: leave out joined_rows"):
        simulate(
            {name: patients(0) for name in ("h0", "h1")},
            label="ill",
            latent_dim=3,
            hold_out=0.0,
            absent_columns=lacking,
            joined_rows=[group],
        )
