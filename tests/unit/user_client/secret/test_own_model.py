from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from sklearn.datasets import load_breast_cancer

from analyst_server.alignment import align
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import fit
from user_client.secret.basis import draw_secret_basis
from user_client.secret.network import Layer, loss_and_gradients
from user_client.secret.own_model import train_own_model

Array = np.ndarray[Any, np.dtype[np.float64]]


def line(seed: int, rows: int, features: int = 6) -> tuple[Array, Array]:
    """Return Gaussian rows and what a logistic model predicts for them."""
    rng = np.random.default_rng(seed)
    anchor = rng.standard_normal((rows, features))
    probability = 1 / (1 + np.exp(-3 * anchor @ rng.standard_normal(features)))
    return anchor, np.stack([1 - probability, probability], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_a_logistic_model_is_found_again(seed: int) -> None:
    anchor, predictions = line(seed, 400)
    model = train_own_model(anchor[:300], predictions[:300])
    found = model.probabilities(anchor[300:])
    np.testing.assert_allclose(found, predictions[300:], atol=0.05)
    assert model.held_out_agreement > 0.95


def test_classes_no_line_separates_get_a_hidden_layer() -> None:
    rng = np.random.default_rng(0)
    anchor = rng.standard_normal((600, 2))
    inside = (np.sum(anchor**2, axis=1) < 1).astype(float)
    model = train_own_model(anchor[:500], np.stack([1 - inside, inside], axis=1)[:500])
    assert len(model.layers) == 2
    assert np.mean(model.probabilities(anchor[500:]).argmax(axis=1) == inside[500:]) > 0.9


def joined(layers: Sequence[Layer]) -> Array:
    """Return all numbers of the layers as one vector."""
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def cut(flat: Array, sizes: Sequence[int]) -> list[Layer]:
    """Return the layers between so many units whose numbers are the vector."""
    layers: list[Layer] = []
    rest = flat
    for inputs, outputs in itertools.pairwise(sizes):
        weights, shifts, rest = np.split(rest, [inputs * outputs, (inputs + 1) * outputs])
        layers.append((weights.reshape(inputs, outputs), shifts))
    return layers


@pytest.mark.parametrize("hidden_units", [0, 5])
def test_the_gradient_is_that_of_the_loss(hidden_units: int) -> None:
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((30, 4)), rng.dirichlet(np.ones(3), 30)
    sizes = [4, hidden_units, 3] if hidden_units else [4, 3]
    layers = [
        (rng.standard_normal((inputs, outputs)), rng.standard_normal(outputs))
        for inputs, outputs in itertools.pairwise(sizes)
    ]

    def at(flat: Array) -> tuple[float, Array]:
        loss, gradients = loss_and_gradients(cut(flat, sizes), rows, targets, 0.1)
        return loss, joined(gradients)

    gap = scipy.optimize.check_grad(lambda flat: at(flat)[0], lambda flat: at(flat)[1], joined(layers))
    assert gap < 1e-5  # of finite differences


def test_the_same_input_gives_the_same_model() -> None:
    one, other = (train_own_model(*line(0, 100)) for _ in range(2))
    for mine, theirs in zip(one.layers, other.layers, strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])


def test_probabilities_add_up_to_one_however_distant_the_rows() -> None:
    model = train_own_model(*line(0, 100))
    found = model.probabilities(np.full((3, 6), 1e6))
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_a_class_that_is_never_predicted_is_learnt_as_such() -> None:
    anchor, predictions = line(0, 200)
    three = np.concatenate([predictions, np.zeros((200, 1))], axis=1)
    assert train_own_model(anchor, three).probabilities(anchor)[:, 2].max() < 0.05


@pytest.mark.parametrize(
    "predictions", [[[0.5, 0.6], [0.5, 0.5]], [[-0.5, 1.5], [0.5, 0.5]], [[np.nan, 1.0], [0.5, 0.5]]]
)
def test_predictions_that_are_no_distribution_are_refused(predictions: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="add up to 1"):
        train_own_model(np.eye(2), np.array(predictions))


@pytest.mark.parametrize(("rows", "predictions"), [(3, 2), (1, 1)])
def test_one_prediction_per_row_and_at_least_two_rows_are_needed(rows: int, predictions: int) -> None:
    with pytest.raises(ValueError, match="expected predictions"):
        train_own_model(np.ones((rows, 2)), np.full((predictions, 2), 0.5))


def test_the_repr_of_a_model_shows_no_weights() -> None:
    assert repr(train_own_model(*line(0, 50))).startswith("<OwnModel of ")


def test_twenty_gaussian_anchor_rows_a_feature_are_enough_for_breast_cancer() -> None:
    """docs/nri.md says so: agreement with h on rows nobody trained on, the default model, l = m / 2."""
    data = load_breast_cancer()
    low, high = data.data.min(axis=0), data.data.max(axis=0)
    rows = (data.data - low) / (high - low) * 2 - 1
    rng = np.random.default_rng(0)
    order, features = rng.permutation(len(rows)), rows.shape[1]
    unseen, *parts = np.split(order, [150, 290, 430])
    bases = [draw_secret_basis(rows[part], features // 2, rng.bytes) for part in parts]
    anchor = rng.standard_normal((20 * features, features))
    anchor_reps = [anchor @ basis for basis in bases]
    changes = align("isotropic", anchor_reps, rng=rng).changes_of_basis
    turned = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    aligned = np.concatenate([rows[part] @ turn for part, turn in zip(parts, turned, strict=True)])
    model = fit(Mlp(), aligned, data.target[np.concatenate(parts)], 2).pipeline
    own = train_own_model(anchor, model.predict_proba(anchor @ turned[1]))
    expected = model.predict_proba(rows[unseen] @ turned[1]).argmax(axis=1)
    assert np.mean(own.probabilities(rows[unseen]).argmax(axis=1) == expected) > 0.92
