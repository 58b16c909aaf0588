"""A simulated round in which each party maps its rows in a way of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from orthonormal_data_collaboration import Simulation, simulate
from protocol.errors import InputError
from user_client.onnx_model.writing import Writer
from user_client.sdk import PrivacyOptions

KINDS = ["kernel-pca", "onnx", "random-features"]


def encoder(path: Path, features: int, width: int = 40) -> str:
    """An encoder of one layer: a logistic function of random combinations."""
    rng, graph = np.random.default_rng(3), Writer(features)
    wide = graph.node("Cast", graph.input, to=11)
    reached = graph.node("MatMul", wide, graph.constant(rng.standard_normal((features, width))))
    path.write_bytes(graph.file(graph.node("Sigmoid", reached), width))
    return str(path)


def played(own: list[str | None], **changed: Any) -> Simulation:
    X, y = load_breast_cancer(return_X_y=True)
    parties = {f"h{index}": (X[index :: len(own)], y[index :: len(own)]) for index in range(len(own))}
    fields: dict[str, Any] = {
        "latent_dim": 8,
        "own_maps": KINDS,
        "alignment": "kawakami",
        "anchor": {"kind": "gaussian", "rows": 200},
        "privacy": {f"h{index}": PrivacyOptions(own_map=kind) for index, kind in enumerate(own)},
        "hold_out": 0.2,
        "encoding": "ranges",
    }
    return simulate(parties, random_state=0, **{**fields, **changed})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    file = encoder(tmp_path_factory.mktemp("maps") / "own.onnx", 30)
    own = [None, "random-features", "kernel-pca", file]
    return played(own, dither=0.0, rep_dtype="f4")


def test_each_predicts_with_the_common_model_whatever_its_map(mixed: Simulation) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    assert {name: member.score(X, y) > 0.9 for name, member in mixed.items()} == dict.fromkeys(mixed, True)
    assert mixed.suspected == []


def test_what_leaves_is_the_map_of_the_rows_and_of_the_anchor(mixed: Simulation) -> None:
    linear, random = mixed.members["h0"], mixed.members["h1"]
    np.testing.assert_allclose(linear.rep, leaving(linear) @ linear.secret_basis, atol=1e-5)
    assert random.secret_basis.shape == (256, 8)
    best = np.linalg.lstsq(np.c_[leaving(random), np.ones(random.rows)], random.rep, rcond=None)[0]
    off = random.rep - np.c_[leaving(random), np.ones(random.rows)] @ best
    assert np.abs(off).max() > 0.01, "no linear map makes these of the rows"


def leaving(member: Any) -> np.ndarray:
    kept = np.ones(len(member.encoded_rows), bool)
    kept[member.held_out] = False
    return np.asarray(member.encoded_rows[kept])


def test_the_same_seed_plays_the_same_round() -> None:
    first, again = played(["random-features"] * 3), played(["random-features"] * 3)
    np.testing.assert_array_equal(first.members["h1"].rep, again.members["h1"].rep)


def test_what_is_said_of_linear_maps_is_not_said_of_others(mixed: Simulation) -> None:
    linear, random = mixed.members["h0"].prepared, mixed.members["h1"].prepared
    assert linear.hidden_share is not None
    assert linear.information is not None
    assert (random.hidden_share, random.information, random.threshold, random.isolated) == (None,) * 4
    assert random.signal is not None
    assert random.collusion_error is not None
    assert 0 < random.collusion_error.median < 2
    tried = {attack.name: attack.ran for attack in mixed.members["h1"].attack("quick")}
    assert (tried["closest vector"], tried["orthogonal lattice"]) == (False, False)


def test_a_map_helps_where_the_label_curves_along_more_directions_than_a_basis_has_room_for() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 6))
    inside = np.square(X[:, :3]).sum(axis=1)
    y = (inside > np.median(inside)).astype(int)
    parties = {f"h{index}": (X[index * 200 :][:200], y[index * 200 :][:200]) for index in range(3)}

    def score(kind: str | None) -> float:
        found = simulate(
            parties,
            random_state=0,
            latent_dim=4,
            own_maps=KINDS,
            alignment="kawakami",
            anchor={"kind": "gaussian", "rows": 200},
            privacy=PrivacyOptions(own_map=kind),
        )
        return float(np.mean([found[name].score(X[600:], y[600:]) for name in parties]))

    assert score("random-features") > score(None) + 0.08


def test_a_party_that_lacks_columns_may_have_a_map() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    parties = {f"h{index}": (X[index::3], y[index::3]) for index in range(3)}
    absent = [{"party": "h1", "columns": ["x4"]}]
    found = simulate(
        parties,
        random_state=0,
        latent_dim=4,
        own_maps=KINDS,
        alignment="kawakami",
        absent_columns=absent,
        anchor={"kind": "gaussian", "rows": 100},
        privacy={"h1": PrivacyOptions(own_map="random-features")},
    )
    assert found["h1"].score(X[:, :4], y) > 0.75


def test_bases_of_the_papers_conditions_have_no_map() -> None:
    with pytest.raises(InputError, match="bases are drawn for linear maps"):
        played(["random-features"] * 3, bases="SameSpan")


def test_terms_without_maps_refuse_one() -> None:
    with pytest.raises(InputError, match="an orthonormal linear basis from every institution"):
        played(["random-features"] * 3, own_maps=())
