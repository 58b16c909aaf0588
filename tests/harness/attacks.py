"""What each role can try with the data it has: one function per attack, which returns the attacker's guess.

The rows are centred before anything is compared. A guess of the mean of all rows, which any published
statistic may reveal, then has error 1, and an error below 1 is what the attack itself has revealed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize
from scipy.spatial.distance import cdist

Matrix = NDArray[np.float64]


def reconstruction_error(rows: Matrix, guess: Matrix) -> float:
    """Return the mean over the rows of ``||x - x^|| / ||x||``; 1 if the guess is zero."""
    lengths = np.linalg.norm(rows, axis=1)
    missed = np.linalg.norm(rows - guess, axis=1)
    told = lengths > 0
    return float(np.mean(missed[told] / lengths[told]))


def estimated_basis_sums(anchor_rep: Matrix) -> Matrix:
    """Return the analyst's estimate of the direction of ``F_i.T 1``, from A_i alone.

    The mean of A_i's rows is ``F_i.T`` times the mean of the anchor's rows. For uniform entries in [0, 1)
    that mean is close to a multiple of 1; for a Haar or Gaussian anchor it has a random direction.
    """
    mean = anchor_rep.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def alignment_of(estimate: Matrix, truth: Matrix) -> float:
    """Return the absolute cosine between two directions."""
    return float(abs(estimate @ truth) / (np.linalg.norm(estimate) * np.linalg.norm(truth)))


def estimated_row_sums(rep: Matrix, basis_sums: Matrix) -> Matrix:
    """Return the analyst's estimate of ``x 1`` of each row, up to a factor: ``x F F.T 1``."""
    return np.asarray(rep @ basis_sums)


def mapped_back(aligned_rep: Matrix, secret_basis: Matrix, change_of_basis: Matrix) -> Matrix:
    """Return the member's guess of the others' rows: their aligned rows times its own ``(F_i G_i)^+``."""
    return np.asarray(aligned_rep @ np.linalg.pinv(secret_basis @ change_of_basis))


def colluders_basis(anchor: Matrix, anchor_rep: Matrix) -> Matrix:
    """Return ``F_j = A^+ A_j``: a member knows A, the analyst A_j (arXiv:2403.02780v5, section II-B)."""
    return np.asarray(np.linalg.lstsq(anchor, anchor_rep, rcond=None)[0])


def denoised(rep: Matrix, moments: Matrix, sigma: float) -> Matrix:
    """Return the best linear guess of what a representation was before noise: the Wiener filter.

    ``X~ (M + sigma**2 I)^-1 M``, with ``M = F.T C F`` from the second moments C of the rows, which we let
    the attacker know, and the public ``sigma``. Without noise it changes nothing.
    """
    return np.asarray(rep @ np.linalg.solve(moments + sigma**2 * np.eye(len(moments)), moments))


def spectrum_error(rows: Matrix, rep: Matrix) -> float:
    """Return the largest relative error of the analyst's estimate of X_i's top singular values, from X~_i."""
    told = np.linalg.svd(rep, compute_uv=False)
    truth = np.linalg.svd(rows, compute_uv=False)[: len(told)]
    return float(np.max(np.abs(told - truth) / truth[0]))


def matched_to_a_sample(aligned_rep: Matrix, sample: Matrix, components: int) -> Matrix:
    """Return a guess of all rows from the aligned rows and other rows of the same population.

    A rotated projection keeps the second moments up to that rotation: the eigenvectors of both sides
    correspond in the order of their eigenvalues (the known-sample attack on rotated data [1]_). Their signs
    follow from the skewness along each. Where eigenvalues are close to each other, the order is uncertain,
    so the first few components reveal most. The attack needs no key.

    Parameters
    ----------
    aligned_rep : (n, l) ndarray
        Of all parties: ``X F G``, with one common rotation.
    sample : (k, m) ndarray
        Rows that nobody sent; centred like the others.
    components : int
        How many eigenvectors are used, at most l.

    References
    ----------
    .. [1] Liu, Giannella, Kargupta, PKDD 2006, doi:10.1007/11871637_30.
    """
    left, right = (
        np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :components] for rows in (aligned_rep, sample)
    )
    skews = [np.mean((rows @ axes) ** 3, axis=0) for rows, axes in ((aligned_rep, left), (sample, right))]
    return np.asarray(aligned_rep @ (left * np.sign(skews[0] * skews[1])) @ right.T)


def linked_rows(rows: Matrix, rep: Matrix, latent_dim: int) -> NDArray[np.intp]:
    """Return which row of ``rep`` belongs to each row of a table, from the distances between them.

    The attacker has the table but neither the basis nor the order. A rotated and permuted projection keeps
    the distances between rows, so each row is recognised by its sorted distances to the others.
    """
    centred = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    marks = [
        np.sort(cdist(points, points), axis=1)
        for points in (left[:, :latent_dim] * values[:latent_dim], rep - rep.mean(axis=0))
    ]
    return np.asarray(linear_sum_assignment(cdist(*marks))[1])


def inverted_model(
    weights: list[Matrix], offsets: list[Matrix], class_index: int, starts: Matrix, penalty: float = 0.01
) -> Matrix:
    """Return the input that a ReLU network assigns to a class most confidently (model inversion).

    Minimises the cross-entropy of the class plus ``penalty`` times the squared length by L-BFGS [1]_, from
    each row of ``starts``, and returns the best. With one output unit, class 1 is the positive one.

    References
    ----------
    .. [1] Fredrikson, Jha, Ristenpart, CCS 2015, doi:10.1145/2810103.2813677.
    """
    if weights[-1].shape[1] == 1:  # the same network with two outputs
        weights = [*weights[:-1], np.hstack([np.zeros_like(weights[-1]), weights[-1]])]
        offsets = [*offsets[:-1], np.concatenate([[0.0], offsets[-1]])]

    def loss(point: Matrix) -> tuple[float, Matrix]:
        layers = [point]
        for index, (weight, offset) in enumerate(zip(weights, offsets, strict=True)):
            value = layers[-1] @ weight + offset
            layers.append(np.maximum(value, 0) if index < len(weights) - 1 else value)
        shifted = layers[-1] - layers[-1].max()
        log_sum = np.log(np.exp(shifted).sum())
        gradient = np.exp(shifted - log_sum)
        gradient[class_index] -= 1
        for weight, value in zip(reversed(weights), reversed(layers[:-1]), strict=True):
            gradient = (weight @ gradient) * (value > 0 if value is not point else 1.0)
        cost = log_sum - shifted[class_index] + penalty * point @ point
        return float(cost), gradient + 2 * penalty * point

    found = [minimize(loss, start, jac=True, method="L-BFGS-B") for start in starts]
    return np.asarray(min(found, key=lambda one: float(one.fun)).x)


def membership_advantage(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    """Return the best true-positive minus false-positive rate of a threshold on a score [1]_.

    References
    ----------
    .. [1] Yeom, Giacomelli, Fredrikson, Jha, CSF 2018, arXiv:1709.01604.
    """
    scores = np.concatenate([inside, outside])
    steps = np.concatenate([np.full(len(inside), 1 / len(inside)), np.full(len(outside), -1 / len(outside))])
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.diff(scores[order]) != 0, True)  # equal scores are on the same side
    return float(max(0.0, np.cumsum(steps[order])[ends].max()))


def got(attacker: str, **figures: float | int | str) -> None:
    """Print what an attacker got, in one line of figures: `pytest -rP` shows it."""
    told = ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
    )
    print(f"{attacker}: {told}")  # noqa: T201  # what these tests are read for
