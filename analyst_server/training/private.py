"""Models that are differentially private towards those who get them: trained by DP-SGD [1]_.

Protected is one row of the training data, its representation X~_i G_i and its label, against whoever has the
model h. The analyst holds the rows, so it is not protected against. Bases, G_i, scales and dither are taken
as given: every row of a party has a small part in them.

References
----------
.. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, CCS 2016, arXiv:1607.00133, Algorithm 1.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Classifier, Labels, Model
from analyst_server.training.progress import counted_steps
from analyst_server.training.tasks import Matrix

Matrix64 = NDArray[np.float64]
Layer = tuple[Matrix64, Matrix64]
"""Weights (inputs, outputs) and biases (outputs,)."""

CLIP: Final = 2.0
"""Longest gradient of one row, over all layers: that of a row as long as 1 in a logistic regression, sqrt(2)
for the two probabilities times sqrt(2) for row and intercept. So most gradients are not clipped at all, and
the noise hides their rows better than it has to."""
MOMENTUM: Final = 0.9
AVERAGED: Final = 0.5
"""Share of the steps, the last ones, whose weights are averaged: that costs no privacy and removes noise."""
TYPICAL_SQUARE: Final = 1 / 3
"""Of an encoded feature: the variance of ranks. It sets the scale of the rows without a look at them, so that
they are about as long as 1."""
PROBES: Final = 1000
"""Rows on which the ONNX file is compared."""
DISCRETISATION: Final = 1e-3
"""Of the accountant's privacy losses, as a share of epsilon if that is above 1. They are rounded up; finer
steps take tens of seconds and change the fifth digit of the noise."""
_LOOSE: Final = 1.001
"""Noise is raised in such steps until the accountant confirms the epsilon that was asked for."""


@dataclass(frozen=True)
class PrivateTraining:
    """What a model may tell of one row, and how it is trained.

    Attributes
    ----------
    epsilon, delta : float
        With nothing in the place of one row, the probability of any set of models is at most
        ``exp(epsilon)`` times as large, plus ``delta``, and the other way round. How many rows there are is
        known to all members.
    steps : int
        Of gradient descent.
    batch_rows : int
        Expected rows of a batch. Every row takes part in a step with the same probability, independently.
    learning_rate : float
    """

    epsilon: float
    delta: float
    steps: int = 100
    batch_rows: int = 1024
    learning_rate: float = 8.0

    def sampling_rate(self, rows: int) -> float:
        """Return the probability that a row takes part in a step."""
        return min(1.0, self.batch_rows / rows)

    def noise_multiplier(self, rows: int) -> float:
        """Return the standard deviation of the noise on a sum of clipped gradients, in units of `CLIP`."""
        return noise_multiplier(self.epsilon, self.delta, self.steps, self.sampling_rate(rows))


@dataclass(frozen=True)
class PrivateModel(Model):
    """A logistic regression or a network of one hidden layer, trained by DP-SGD.

    Two fits differ: the noise comes from the operating system's random numbers, and no seed brings it back.

    Attributes
    ----------
    training : PrivateTraining
    features : int
        Encoded features of a row (the paper's m).
    hidden_units : int
        0 for a logistic regression.
    """

    may_be_judged: ClassVar[bool] = False

    training: PrivateTraining = PrivateTraining(epsilon=1.0, delta=1e-5)
    features: int = 1
    hidden_units: int = 0

    def check(self, labels: Labels, classes: int) -> None:  # noqa: ARG002  # it learns what it is given
        """Raise `ValueError` if there is no row; that a class has none would tell of a single row."""
        if len(labels) == 0:
            raise ValueError("training needs rows, and none came")

    def scaler(self, aligned_rep: Matrix) -> StandardScaler:
        """Return one scale for all rows, which depends on the terms alone."""
        scaler = StandardScaler(with_mean=False).fit(np.zeros((1, aligned_rep.shape[1])))
        scaler.scale_ = np.full(aligned_rep.shape[1], math.sqrt(self.features * TYPICAL_SQUARE))
        scaler.var_ = scaler.scale_**2
        return scaler

    def fitted(self, rows: Matrix, labels: Labels, classes: int) -> Classifier:
        """Train on scaled rows; returns a classifier of scikit-learn with the weights."""
        rng = np.random.default_rng(secrets.randbits(256))
        layers = self._first_layers(rows.shape[1], classes)
        layers = descend(layers, np.asarray(rows, np.float64), labels, self.training, rng)
        if classes == 2:  # scikit-learn has one output there: the difference of the two
            weights, biases = layers[-1]
            layers[-1] = weights[:, 1:] - weights[:, :1], biases[1:] - biases[:1]
        classifier = self.classifier(labels, rows.shape[1])
        classifier.fit(np.zeros((classes, rows.shape[1])), np.arange(classes))  # its shapes, from no row
        if self.hidden_units:
            classifier.coefs_ = [weights for weights, _ in layers]
            classifier.intercepts_ = [biases for _, biases in layers]
        else:
            classifier.coef_, classifier.intercept_ = layers[0][0].T, layers[0][1]
        return classifier

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it has its shapes of `fitted`
        if self.hidden_units:
            return MLPClassifier(hidden_layer_sizes=(self.hidden_units,), activation="relu", max_iter=1)
        return LogisticRegression(max_iter=1)

    def parameters(self, fitted: Classifier) -> int:
        return (Mlp() if self.hidden_units else Logistic()).parameters(fitted)

    def has_converged(self, fitted: Classifier, *, warned: bool) -> bool:  # noqa: ARG002  # only the dummy fit warns
        """Return True: it ends after its steps, as the accountant assumes."""
        return True

    def probes(self, aligned_rep: Matrix) -> Matrix:
        """Return rows that nobody has sent: the largest difference over real ones would be their figure."""
        latent_dim = aligned_rep.shape[1]
        spread = math.sqrt(self.features * TYPICAL_SQUARE / latent_dim)
        return np.asarray(np.random.default_rng(0).standard_normal((PROBES, latent_dim)) * spread)

    def spent_on(self, rows: int) -> dict[str, float]:
        training = self.training
        return {
            "epsilon": training.epsilon,
            "delta": training.delta,
            "steps": training.steps,
            "sampling_rate": training.sampling_rate(rows),
            "clip": CLIP,
            "noise_multiplier": training.noise_multiplier(rows),
        }

    def _first_layers(self, latent_dim: int, classes: int) -> list[Layer]:
        if not self.hidden_units:
            return [(np.zeros((latent_dim, classes)), np.zeros(classes))]
        weights = np.random.default_rng(self.seed).standard_normal((latent_dim, self.hidden_units))
        return [
            (weights * math.sqrt(2 / latent_dim), np.zeros(self.hidden_units)),
            (np.zeros((self.hidden_units, classes)), np.zeros(classes)),
        ]


@cache
def noise_multiplier(epsilon: float, delta: float, steps: int, sampling_rate: float) -> float:
    """Return the least noise for which so many steps on Poisson samples are (epsilon, delta)-private."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL

    def accountant() -> PLDAccountant:
        return PLDAccountant(relation, DISCRETISATION * max(1.0, epsilon))

    def event(noise: float) -> dp_accounting.DpEvent:
        if sampling_rate == 1:
            return dp_accounting.GaussianDpEvent(noise / math.sqrt(steps))  # one such step tells as much
        step = dp_accounting.PoissonSampledDpEvent(sampling_rate, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    bracket = None
    if sampling_rate == 1:  # the accountant takes minutes over far too little noise, where others begin
        most = _enough(epsilon, delta) * math.sqrt(steps)
        bracket = dp_accounting.ExplicitBracketInterval(most / 4, most)
    noise = float(dp_accounting.calibrate_dp_mechanism(accountant, event, epsilon, delta, bracket))
    while accountant().compose(event(noise)).get_epsilon(delta) > epsilon:  # the search has a tolerance
        noise *= _LOOSE
    return noise


def _enough(epsilon: float, delta: float) -> float:
    """Return noise that is more than enough for one step on all rows.

    References
    ----------
    Bun and Steinke, arXiv:1605.02065, Propositions 1.3 and 1.6, solved for the deviation.
    """
    log = -math.log(delta)
    return 1 / (math.sqrt(2) * (math.sqrt(log + epsilon) - math.sqrt(log)))


def descend(
    layers: Sequence[Layer],
    rows: Matrix64,
    labels: Labels,
    training: PrivateTraining,
    rng: np.random.Generator,
    *,
    noise: float | None = None,
) -> list[Layer]:
    """Return layers trained by DP-SGD with momentum, averaged over the last steps.

    Parameters
    ----------
    layers : sequence of (weights, biases)
        Where to begin; the last one has an output for each class.
    rows : (n, l) ndarray of float64
    labels : (n,) ndarray of int
    rng : numpy.random.Generator
        Of samples and noise; nobody else may know its state.
    noise : float, optional
        In place of the calibrated noise multiplier: for audits.
    """
    rate = training.sampling_rate(len(rows))
    deviation = CLIP * (training.noise_multiplier(len(rows)) if noise is None else noise)
    expected = rate * len(rows)
    current = [(weights.copy(), biases.copy()) for weights, biases in layers]
    velocity = [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
    total = [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
    counted = max(1, round(AVERAGED * training.steps))
    for step in counted_steps(training.steps):
        chosen = rng.random(len(rows)) < rate if rate < 1 else np.ones(len(rows), dtype=bool)
        gradients = clipped_sum(current, rows[chosen], labels[chosen])
        for own, speed, gradient, mean in zip(current, velocity, gradients, total, strict=True):
            for values, moving, summed, averaged in zip(own, speed, gradient, mean, strict=True):
                noisy = summed + deviation * rng.standard_normal(summed.shape)
                moving *= MOMENTUM
                moving += (1 - MOMENTUM) * noisy / expected
                values -= training.learning_rate * moving
                if step >= training.steps - counted:
                    averaged += values / counted
    return total


def clipped_sum(layers: Sequence[Layer], rows: Matrix64, labels: Labels) -> list[Layer]:
    """Return the sum over rows of the gradient of the cross-entropy, each clipped to the length `CLIP`.

    The gradient of one row in one layer is the outer product of what the layer gets and of what comes back.
    So its length is known without the gradient itself [1]_.

    References
    ----------
    .. [1] Goodfellow, arXiv:1510.01799.
    """
    inputs = [rows]
    for weights, biases in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ weights + biases, 0))
    weights, biases = layers[-1]
    back = _probabilities(inputs[-1] @ weights + biases)
    back[np.arange(len(labels)), labels] -= 1
    backs = [back]
    for index in range(len(layers) - 1, 0, -1):
        backs.insert(0, (backs[0] @ layers[index][0].T) * (inputs[index] > 0))
    pairs = list(zip(inputs, backs, strict=True))
    squares = sum(
        np.einsum("ij,ij->i", delta, delta) * (np.einsum("ij,ij->i", taken, taken) + 1)
        for taken, delta in pairs
    )
    share = np.minimum(1, CLIP / np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny)))[:, None]
    return [(taken.T @ (share * delta), (share * delta).sum(axis=0)) for taken, delta in pairs]


def _probabilities(logits: Matrix64) -> Matrix64:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
