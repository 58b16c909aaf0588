"""What the dither of terms costs a model of a table's own rows: for whoever drafts, and whoever signs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.labels import AnyLabel
from protocol.model_terms import AveragedTerms, LogisticTerms, ModelTerms, RidgeTerms
from runtime.terminal import FIGURES
from user_client.privacy.information import Information
from user_client.privacy.noise import add_dither
from user_client.rows import sample_of
from user_client.scores import Metric, can_be_scored, compare
from user_client.sdk.local_models import Fitted, fit_by, fit_each
from user_client.secret.bands import FEWEST_ROWS
from user_client.secret.expansion import Matrix64

ON_DITHER: Final = "dither "
"""A remark on the dither begins so."""
MOST_ROWS: Final = 2000
"""Of more rows so many are chosen, and of wide ones fewer."""
TRAINED_ROWS: Final = 4000
"""Copies of the rows, each with dither of its own, train until there are so many.

What the noise costs few rows by chance is gone once others join; what it hides of curves is not.
"""
MOST_NUMBERS: Final = 150_000
"""Columns and outputs of all rows that train, counted together: a comparison takes a second or so."""
ROWS_OF_A_CLASS: Final = 20
"""Where classes have fewer on average, some have too few for an interval."""
FOLDS: Final = 4
LEAST_LOSS: Final = 0.02
"""Loss of R squared or ROC-AUC from which on it is named. Linear tables of 200 rows lose 0.01."""
BitsOf = Callable[[float], Information | None]
"""Returns how many bits of a row leave with so much dither."""


@dataclass(frozen=True)
class Cost:
    """Scores of two models of the same kind on the same rows, which did not train them.

    Attributes
    ----------
    metric : {"roc_auc", "accuracy", "r2"}
    with_dither, without : float
        Scores of the model of rows with dither, and of the one of rows without it.
    low, high : float
        The ends of the 95 % interval of ``with_dither - without``.
    """

    metric: Metric
    with_dither: float
    without: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Return whether the dither costs enough to be named, and not by chance."""
        return self.high < 0 and self.without - self.with_dither >= LEAST_LOSS


def remarks_on_dither(
    rows: Matrix64, labels: NDArray[Any], label: AnyLabel, model: ModelTerms, dither: float, bits: BitsOf
) -> Iterator[str]:
    """Yield what the dither costs, if that is clear, and what half of it would cost.

    Parameters
    ----------
    rows, labels, label, model, dither
        As for `cost_of_dither`.
    bits : callable
        See `BitsOf`.
    """
    found = cost_of_dither(rows, labels, label, model, dither)
    if found is None or not found.is_clear:
        return
    words = (
        f"{ON_DITHER}{dither:g}: trained on rows with this noise, a model of this table alone has"
        f" {FIGURES[found.metric]} {found.with_dither:.3f} on rows that were left out, and"
        f" {found.without:.3f} without it (95 % interval of the difference: {found.low:+.3f} to"
        f" {found.high:+.3f}); joining has to make up for that"
    )
    less = dither / 2
    weaker, now, then = cost_of_dither(rows, labels, label, model, less), bits(dither), bits(less)
    if weaker is not None and now is not None and then is not None:
        words += (
            f". Terms drafted with --dither {less:g} would leave {weaker.with_dither:.3f}, and let at most"
            f" {then.sent_bits:.0f} bits of a row leave instead of {now.sent_bits:.0f}"
        )
    yield words


def cost_of_dither(
    rows: Matrix64, labels: NDArray[Any], label: AnyLabel, model: ModelTerms, dither: float
) -> Cost | None:
    """Compare a model of rows with dither with one of the same rows without it.

    Both predict rows without dither. As at the analyst, rows with dither are first replaced by what is
    expected of them without it (docs/adr/0080). Models of the kind ``averaged`` are compared, which stands
    for the others, because these take too long here.

    Parameters
    ----------
    rows : (n, l) ndarray of float64
        Projected, without dither.
    labels : (n,) ndarray
        As on the wire.
    label : AnyLabel
        What the labels are.
    model : ModelTerms
        The kind that the terms ask for.
    dither : float
        As for `add_dither`.

    Returns
    -------
    Cost or None
        None without dither, for models that draw straight lines, which lose nothing, for survival, where
        labels or rows are too few to tell, and where rows are so wide, or classes so many, that it would take
        long.
    """
    if not dither or label.task == "survival" or isinstance(model, LogisticTerms | RidgeTerms):
        return None
    fits = label.outputs if label.task == "multilabel" else 1
    trained = min(TRAINED_ROWS, MOST_NUMBERS // (fits * (rows.shape[1] + label.outputs)))
    some = sample_of(len(rows), min(MOST_ROWS, trained), np.random.default_rng(0))
    rows, labels = rows[some], labels[some]
    if len(rows) < max(FEWEST_ROWS, ROWS_OF_A_CLASS * label.outputs) or not can_be_scored(labels, label.task):
        return None
    fitted = model if isinstance(model, AveragedTerms) else AveragedTerms()
    rng = np.random.default_rng(0)
    fold = rng.permutation(len(rows)) % FOLDS
    copies = [rows] * -(-trained // len(rows))
    noisy = [_expected(add_dither(copy, dither, rng.standard_normal), rows, dither) for copy in copies]
    with_dither = _held_out(fitted, noisy, rows, labels, label, fold)
    without = _held_out(fitted, copies, rows, labels, label, fold)
    if with_dither is None or without is None:
        return None
    found = compare(labels, with_dither, without, label.task)
    if found.alone is None or found.gain_low is None or found.gain_high is None:
        return None
    return Cost(found.metric, found.together, found.alone, found.gain_low, found.gain_high)


def _held_out(
    model: Fitted,
    copies: Sequence[Matrix64],
    rows: Matrix64,
    labels: NDArray[Any],
    label: AnyLabel,
    fold: NDArray[np.int64],
) -> Matrix64 | None:
    """Return what models of the other folds' copies say of the rows of each fold, (n, k), or None."""
    said = np.zeros((len(rows), label.outputs))
    for number in range(FOLDS):
        held = fold == number
        known, told = np.concatenate([copy[~held] for copy in copies]), np.tile(labels[~held], len(copies))
        if label.task == "multilabel":
            fitted = fit_each(model, known, told, label.outputs)
        else:
            fitted = fit_by(model, known, told, label.outputs if label.task == "classes" else 0)
        if fitted is None:
            return None
        said[held] = fitted.predictions(rows[held])
    return said


def _expected(noisy: Matrix64, rows: Matrix64, dither: float) -> Matrix64:
    """Return the best linear guess of rows without dither, by the moments of these."""
    mean = rows.mean(axis=0)
    second = rows.T @ rows / len(rows)
    covariance = second - np.outer(mean, mean)
    kept = np.linalg.lstsq(covariance + dither**2 * second, covariance, rcond=None)[0]
    return np.asarray(mean + (noisy - mean) @ kept)
