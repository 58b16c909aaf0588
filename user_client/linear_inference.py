"""How sure the weights of a linear model are, from rows like those it was fitted on. Arrays only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]


def information_of_classes(rows: Matrix64, probabilities: Matrix64) -> Matrix64:
    """Return the Fisher information of one row about the weights of a logistic regression.

    Parameters
    ----------
    rows : (n, d) ndarray of float64
        With a column of ones for the intercept.
    probabilities : (n, k) ndarray of float64
        Of every class but the first at each row.

    Returns
    -------
    (k d, k d) ndarray of float64
        About the weights of the log-odds of these classes against the first, one class after the other.
    """
    (count, width), others = rows.shape, probabilities.shape[1]
    found = np.empty((others, width, others, width))
    for one in range(others):
        for other in range(one + 1):
            shared = probabilities[:, one] * ((one == other) - probabilities[:, other])
            found[one, :, other] = found[other, :, one] = (rows * shared[:, None]).T @ rows / count
    return found.reshape(others * width, others * width)


def penalty_of_classes(penalty: Matrix64, others: int) -> Matrix64:
    """Return the second derivative of the penalty by the weights that `information_of_classes` is about.

    A model of more than two classes has weights for each class, all with the penalty. Given their differences
    from those of the first class, the penalty is least where all of them sum to zero.

    Parameters
    ----------
    penalty : (d,) ndarray of float64
        Second derivative by the weights of one class.
    others : int
        Classes but the first.
    """
    between = np.eye(others) - np.full((others, others), 1 / (others + 1)) if others > 1 else np.eye(1)
    return np.kron(between, np.diag(penalty))


def information_of_numbers(rows: Matrix64, errors: Matrix64) -> Matrix64:
    """Return the Fisher information of one row about the weights of least squares, (d, d).

    Parameters
    ----------
    rows : (n, d) ndarray of float64
        With a column of ones for the intercept.
    errors : (n,) ndarray of float64
        By how much each prediction is off.
    """
    return np.asarray(rows.T @ rows / np.sum(np.square(errors)))


def information_of_survival(rows: Matrix64, scores: Matrix64, labels: Matrix64) -> Matrix64:
    """Return the information of one row about the weights of Cox's model, (d, d).

    That is the second derivative of Breslow's partial likelihood: at each event, the covariance of the rows
    still at risk, weighted by their hazards.

    Parameters
    ----------
    rows : (n, d) ndarray of float64
        Without a column of ones: the baseline is not a weight.
    scores : (n,) ndarray of float64
        The logarithm of each row's hazard, up to a constant.
    labels : (n,) ndarray of float64
        Times, negative where the event was not seen.
    """
    order = np.argsort(-np.abs(labels), kind="stable")
    until, event = np.abs(labels[order]), labels[order] > 0
    ordered = rows[order]
    hazards = np.exp(scores[order] - scores.max())
    last = np.searchsorted(-until, -until, side="right")
    at_risk = np.cumsum(hazards)[last - 1]
    means = np.cumsum(hazards[:, None] * ordered, axis=0)[last - 1] / at_risk[:, None]
    # a row counts with its hazard at every event while it is at risk
    steps = np.where(event, 1 / at_risk, 0.0)
    first = np.searchsorted(-until, -until, side="left")
    counted = hazards * np.cumsum(steps[::-1])[::-1][first]
    second = (ordered * counted[:, None]).T @ ordered
    return np.asarray((second - means[event].T @ means[event]) / len(rows))


def covariance(information: Matrix64, count: int, penalty: Matrix64) -> Matrix64:
    """Return the covariance of the weights of a fit on ``count`` rows, (d, d).

    With H = count * information + penalty it is ``H^-1 (count * information) H^-1``: what the weights
    vary from sample to sample, around weights that the penalty has drawn towards zero.

    Parameters
    ----------
    information : (d, d) ndarray of float64
        Of one row.
    penalty : (d, d) ndarray of float64
        Second derivative of the penalty by the weights.
    """
    whole = count * information
    inverse = np.linalg.pinv(whole + penalty, hermitian=True)
    return np.asarray(inverse @ whole @ inverse)
