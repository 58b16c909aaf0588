"""A simulated round in which a party sends fewer numbers of a row than the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from orthonormal_data_collaboration import Simulation, simulate
from protocol.errors import InputError
from user_client.sdk import PrivacyOptions

OWN = {"h1": PrivacyOptions(latent_dim=4)}


def played(**changed: Any) -> Simulation:
    X, y = load_breast_cancer(return_X_y=True)
    parties = {f"h{index}": (X[index::3], y[index::3]) for index in range(3)}
    fields = {"latent_dim": 8, "least_latent_dim": 3, "alignment": "imakura", "privacy": OWN, "hold_out": 0.2}
    return simulate(parties, random_state=0, **{**fields, **changed})


def test_it_has_its_own_width_and_predicts_with_the_common_model() -> None:
    found = played()
    shapes = {name: member.change_of_basis.shape for name, member in found.members.items()}
    assert shapes == {"h0": (8, 8), "h1": (4, 8), "h2": (8, 8)}
    assert found.members["h1"].secret_basis.shape[1] == 4
    assert found.members["h1"].aligned_rep.shape[1] == 8
    X, y = load_breast_cancer(return_X_y=True)
    assert found["h1"].score(X, y) > 0.85


def test_the_formulas_count_it_and_the_one_with_one_dimension_refuses() -> None:
    found = played()
    assert [cost.change_of_basis_bytes for cost in found.formulas.downlinks] == [256, 128, 256]
    by_party = {row["party"]: row for row in found.to_arrow().to_pylist()}
    assert by_party["h1"]["uplink_by_formula"] < by_party["h0"]["uplink_by_formula"]
    with pytest.raises(InputError, match="each party has its own"):
        found.break_even()


@pytest.mark.parametrize("downlink", ["anchor-predictions"])
def test_own_models_of_anchor_predictions_need_no_equal_widths(downlink: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    found = played(downlink=downlink, anchor="gaussian")
    assert np.isfinite(found["h1"].predict_proba(X)).all()
    assert found["h1"].score(X, y) > 0.8


def test_bases_of_the_papers_conditions_are_of_one_width() -> None:
    with pytest.raises(InputError, match="one latent dimension for all"):
        played(bases="SameSpan")
