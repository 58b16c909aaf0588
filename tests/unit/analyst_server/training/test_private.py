"""DP-SGD: what one row can move, how much noise hides it, and that nothing else of the rows gets through."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from analyst_server.training.models import fit
from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap
from analyst_server.training.private import (
    CLIP,
    Layer,
    PrivateModel,
    PrivateTraining,
    clipped_sum,
    descend,
)
from protocol.gaussian_mechanism import gaussian_delta, gaussian_sigma
from tests.harness.problems import blobs

KINDS = pytest.mark.parametrize("hidden_units", [0, 7], ids=["logistic", "mlp"])
CLASSES = pytest.mark.parametrize("classes", [2, 3])
WEAK = PrivateTraining(epsilon=100.0, delta=1e-2, steps=60)
"""Nearly no noise: what can be learned is learned."""


def layers(inputs: int, outputs: int, hidden_units: int, rng: np.random.Generator) -> list[Layer]:
    sizes = [inputs, *([hidden_units] if hidden_units else []), outputs]
    return [(rng.standard_normal(shape), rng.standard_normal(shape[1])) for shape in pairwise(sizes)]


def length(gradient: list[Layer]) -> float:
    return float(np.sqrt(sum((values**2).sum() for layer in gradient for values in layer)))


@KINDS
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_no_row_moves_the_sum_by_more_than_the_clip(hidden_units: int, scale: float) -> None:
    rng = np.random.default_rng(0)
    current = layers(4, 3, hidden_units, rng)
    rows, labels = scale * rng.standard_normal((50, 4)), rng.integers(0, 3, 50)
    whole = clipped_sum(current, rows, labels)
    for row in range(50):
        rest = clipped_sum(current, np.delete(rows, row, axis=0), np.delete(labels, row))
        moved = [(a - c, b - d) for (a, b), (c, d) in zip(whole, rest, strict=True)]
        assert length(moved) <= CLIP * (1 + 1e-9)
    if scale == 1e6:  # clipped, and not to less than allowed
        assert length(clipped_sum(current, rows[:1], labels[:1])) == pytest.approx(CLIP)


@KINDS
def test_short_gradients_are_those_of_the_cross_entropy(hidden_units: int) -> None:
    rng = np.random.default_rng(1)
    current = layers(4, 3, hidden_units, rng)
    rows, labels = 0.01 * rng.standard_normal((1, 4)), np.array([2])
    # a start at which the row is nearly told, so that its gradient is shorter than the clip
    current[-1][1][:] = [0.0, 0.0, 3.0]

    def loss() -> float:
        outputs = rows
        for index, (weights, biases) in enumerate(current):
            outputs = outputs @ weights + biases
            outputs = np.maximum(outputs, 0) if index < len(current) - 1 else outputs
        return float(np.log(np.exp(outputs).sum()) - outputs[0, 2])

    found = clipped_sum(current, rows, labels)
    assert 0.01 < length(found) < CLIP
    for layer, gradient in zip(current, found, strict=True):
        for values, slopes in zip(layer, gradient, strict=True):
            for place in np.ndindex(values.shape):
                before, step = values[place], 1e-6
                values[place] = before + step
                above = loss()
                values[place] = before - step
                below = loss()
                values[place] = before
                assert slopes[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_noise_for_steps_on_all_rows_is_that_of_the_analytic_gaussian_mechanism(epsilon: float) -> None:
    noise = PrivateTraining(epsilon, 1e-5, steps=64).noise_multiplier(100)
    assert noise == pytest.approx(gaussian_sigma(epsilon, 1e-5, sensitivity=8.0), rel=2e-3)
    assert gaussian_delta(epsilon, noise, sensitivity=8.0) <= 1e-5


def test_samples_need_less_noise_than_all_rows_and_stay_private() -> None:
    training = PrivateTraining(2.0, 1e-5, steps=50, batch_rows=100)
    whole, sampled = training.noise_multiplier(100), training.noise_multiplier(1000)
    assert training.sampling_rate(1000) == 0.1
    # in terms of what a step learns, noise for a mean of as many rows, sampling helps nobody who has all
    assert whole / 10 < sampled < whole


def test_the_noise_on_a_step_has_the_deviation_that_was_asked_for() -> None:
    rng = np.random.default_rng(2)
    rows, labels = np.zeros((10, 50)), np.tile([0, 1], 5)  # rows that say nothing: what is left is noise
    training = PrivateTraining(1.0, 1e-5, steps=1, learning_rate=1.0)
    ((weights, _),) = descend([(np.zeros((50, 2)), np.zeros(2))], rows, labels, training, rng)
    expected = 0.1 * CLIP * training.noise_multiplier(10) / 10  # momentum 0.9, and the mean over ten rows
    assert weights.std() == pytest.approx(expected, rel=0.25)


def test_rows_take_part_independently() -> None:
    """A row that alone has an axis moves the weights of that axis only when it takes part."""
    rng = np.random.default_rng(3)
    rows, labels = np.diag(np.full(400, 100.0)), np.zeros(400, dtype=np.int64)
    training = PrivateTraining(1.0, 1e-5, steps=1, batch_rows=100)
    ((weights, _),) = descend([(np.zeros((400, 2)), np.zeros(2))], rows, labels, training, rng, noise=0.0)
    took_part = int((weights[:, 0] > 0).sum())
    assert 60 <= took_part <= 140
    again = descend([(np.zeros((400, 2)), np.zeros(2))], rows, labels, training, rng, noise=0.0)
    assert (weights[:, 0] > 0).tolist() != (again[0][0][:, 0] > 0).tolist()


@KINDS
@CLASSES
def test_a_private_model_learns_and_leaves_as_onnx(hidden_units: int, classes: int) -> None:
    rows, labels = blobs(classes)
    model = PrivateModel(training=WEAK, features=rows.shape[1], hidden_units=hidden_units)
    fitted = fit(model, rows, labels, classes)
    assert fitted.converged
    assert fitted.pipeline.score(rows, labels) > 0.8
    assert parity_gap(fitted, export(fitted, rows.shape[1]), rows) < PARITY_TOLERANCE


@KINDS
def test_a_class_without_rows_stops_no_private_model(hidden_units: int) -> None:
    """That there is a model or not would tell of a single row."""
    rows, labels = blobs(3)
    model = PrivateModel(training=WEAK, features=5, hidden_units=hidden_units)
    fitted = fit(model, rows[labels != 1], labels[labels != 1], 3)
    assert fitted.pipeline.predict_proba(rows).shape == (len(rows), 3)
    with pytest.raises(ValueError, match="none came"):
        fit(model, rows[:0], labels[:0], 3)


@KINDS
def test_no_model_comes_twice(hidden_units: int) -> None:
    rows, labels = blobs(2)
    model = PrivateModel(training=WEAK, features=5, hidden_units=hidden_units)
    one, other = (fit(model, rows, labels, 2).pipeline.predict_proba(rows) for _ in range(2))
    assert np.abs(one - other).max() > 0


@KINDS
def test_the_scale_is_that_of_the_terms(hidden_units: int) -> None:
    rows, labels = blobs(2)
    model = PrivateModel(training=WEAK, features=3, hidden_units=hidden_units)
    for stretched in (rows, 100 * rows):
        scaler = fit(model, stretched, labels, 2).pipeline["scale"]
        np.testing.assert_allclose(scaler.transform(np.ones((1, 5))), 1.0)
