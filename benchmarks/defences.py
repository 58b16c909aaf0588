"""What an institution can do to its rows before they leave; `benchmarks.privacy` compares these defences.

A defence takes one party's rows and returns what its uplink is computed from: which rows, in which order,
what is projected, and by which basis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.bases import principal_directions
from protocol.gaussian_mechanism import gaussian_sigma
from user_client.privacy.noise import add_noise, clip_rows
from user_client.privacy.reduction import hidden_share
from user_client.secret.expansion import haar

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Sent:
    """What one uplink is computed from.

    Attributes
    ----------
    order : (k,) ndarray of int
        Which of the party's rows are sent, in the order of the uplink.
    features : (k, m) ndarray
        What is projected: these rows, or these rows with noise.
    secret_basis : (m, l) ndarray
    """

    order: Indices
    features: Matrix
    secret_basis: Matrix


Defence = Callable[[Matrix, int, np.random.Generator], Sent]
"""``defence(rows, latent_dim, rng)``."""


def drawn_basis(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Matrix:
    """Return a basis as an institution creates it: its principal directions, rotated at random."""
    return np.asarray(principal_directions(rows, latent_dim, rng) @ haar(rng.bytes, latent_dim))


def plain(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Sent:
    """Send every row unchanged."""
    return Sent(np.arange(len(rows)), rows, drawn_basis(rows, latent_dim, rng))


def fewer_dimensions(share: float) -> Defence:
    """Return a defence that projects to a share of the latent dimensions."""
    return lambda rows, latent_dim, rng: plain(rows, max(1, round(share * latent_dim)), rng)


def keep_hidden(threshold: float) -> Defence:
    """Return a defence that omits rows of which the projection hides less than ``threshold`` (epsilon-DR)."""

    def defence(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Sent:
        basis = drawn_basis(rows, latent_dim, rng)
        kept = np.flatnonzero(hidden_share(rows, basis) >= threshold)
        return Sent(kept, rows[kept], basis)

    return defence


def gaussian_noise(epsilon: float, delta: float, clip_norm: float) -> Defence:
    """Return a defence that clips the rows and adds noise before it computes the basis.

    The noise is that of the analytic Gaussian mechanism.
    """
    sigma = noise_sigma(epsilon, delta, clip_norm)

    def defence(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Sent:
        noisy = add_noise(clip_rows(rows, clip_norm), sigma, rng.standard_normal)
        return Sent(np.arange(len(rows)), noisy, drawn_basis(noisy, latent_dim, rng))

    return defence


def non_readily_identifiable(perturbation: float) -> Defence:
    """Return a defence that permutes the rows and uses a basis of ``X_i + delta E``, E in [-1, 1] [1]_.

    References
    ----------
    .. [1] Nosaka and Yoshise, Data Collaboration Analysis Over Matrix Manifolds, Algorithm 1.
    """

    def defence(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Sent:
        order = rng.permutation(len(rows))
        basis = drawn_basis(rows + perturbation * rng.uniform(-1, 1, rows.shape), latent_dim, rng)
        return Sent(order, rows[order], basis)

    return defence


def noise_sigma(epsilon: float, delta: float, clip_norm: float) -> float:
    """Return the standard deviation of the noise if one row may be replaced by any other: sensitivity 2 C."""
    return gaussian_sigma(epsilon, delta, sensitivity=2 * clip_norm)
