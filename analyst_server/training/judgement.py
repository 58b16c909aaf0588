"""What a judgement of a model is: two estimates of its scores, and one headline where it can be trusted.

A model learns from pooled rows who sent a row, because the parties' spans differ. Where their labels
differ as well, that alone scores high on pooled held-out rows and is worth nothing to a member. So no figure
here compares rows of different parties: each is a mean over parties of a score inside one party.
docs/scores.md says what the bounds below were measured on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, t

from analyst_server.training.models import Labels

LEAST_ROWS_OF_A_CLASS: Final = 5
"""A party is scored if it has as many rows of every class: one for each fold."""
LEAST_SHARE_SCORED: Final = 0.5
"""Of the rows that trained the model: a headline speaks for at least so many of them."""
WIDEST_HEADLINE: Final = 0.05
"""Half the width that the interval of a headline would have, by the numbers of rows, for a ROC-AUC of 0.5.

Not the width that was measured: it is smaller where the score is high by chance, so that a bound on it would
let the scores pass that are too high. With this width the mean error that comes of the choice of rows is at
most 2 points, whatever the ROC-AUC.
"""
NARROW: Final = 0.02
"""An interval of half this width is narrow enough however few the rows; such scores are close to 1."""
LEAST_DISAGREEMENT: Final = 0.05
"""Smaller differences of the two estimates never withhold a headline."""
ROWS_WITH_NOISE: Final = (
    "the rows were sent with noise, and members' own rows, which have none, score higher; the institutions"
    " measure that themselves (odc evaluate --send)"
)
_Z: Final = 1.959964
"""Half the width of a 95 % interval, in standard errors."""


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class PartyScore:
    """The scores of the held-out rows of one party.

    Attributes
    ----------
    rows : int
        How many were scored.
    class_rows : tuple of int
        How many of them are of each class.
    roc_auc, accuracy : float
        As `metrics.score` defines them.
    roc_auc_variance, accuracy_variance : float
        Sampling variance, from the rows alone.
    """

    rows: int
    class_rows: tuple[int, ...]
    roc_auc: float
    accuracy: float
    roc_auc_variance: float
    accuracy_variance: float


@dataclass(frozen=True)
class Estimate:
    """What a new row may expect: means over the scored parties, and each party's own scores."""

    roc_auc: Interval
    accuracy: Interval
    by_party: Mapping[str, PartyScore]

    @property
    def rows(self) -> int:
        return sum(score.rows for score in self.by_party.values())


@dataclass(frozen=True)
class Headline:
    """The scores that a member may expect for its own new rows."""

    roc_auc: Interval
    accuracy: Interval


@dataclass(frozen=True)
class Judgement:
    """Both estimates, the headline or why there is none, and what could not be scored.

    Attributes
    ----------
    within : Estimate, optional
        Rows held out inside every party; weighted by rows.
    across : Estimate, optional
        Whole parties held out; every party counts the same.
    headline : Headline, optional
        That of ``within``, where it can be trusted.
    why_none : str, optional
        One sentence, if there is no headline.
    notes : tuple of str
        Fits that could not be made.
    """

    within: Estimate | None = None
    across: Estimate | None = None
    headline: Headline | None = None
    why_none: str | None = None
    notes: tuple[str, ...] = field(default=())

    def of_rows_with_noise(self) -> Judgement:
        """Return this judgement without its headline: a member's own rows have no noise, and score higher."""
        return replace(self, headline=None, why_none=self.why_none or ROWS_WITH_NOISE)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; the variances stay here."""
        return {
            "within": _plain(self.within),
            "across": _plain(self.across),
            "headline": asdict(self.headline) if self.headline else None,
            "why_none": self.why_none,
            "notes": list(self.notes),
        }


NOT_JUDGED: Final = Judgement(
    why_none=(
        "the model is differentially private, and scores of the rows that trained it would not be; the"
        " institutions measure it on rows that they kept back (odc evaluate --send)"
    )
)


def score_party(
    labels: Labels, probabilities: NDArray[np.floating], *, least_rows: int = LEAST_ROWS_OF_A_CLASS
) -> PartyScore | None:
    """Return the scores of the rows of one party, or None if a class has too few of them.

    The variance of the ROC-AUC is DeLong's [1]_: the mean of squared placement values. With more
    than two classes the placement values of the classes, one against rest, are averaged row by row.

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers.
    probabilities : (n, k) ndarray
        Column j belongs to class j.
    least_rows : int
        The fewest rows of a class, at least 2.

    References
    ----------
    .. [1] DeLong, DeLong, Clarke-Pearson, Biometrics 44 (1988) 837-845, doi:10.2307/2531595.
    """
    classes = probabilities.shape[1]
    class_rows = np.bincount(labels, minlength=classes)
    if class_rows.min() < least_rows:
        return None
    against_rest = [1] if classes == 2 else range(classes)
    found = [_roc_auc(labels == one, probabilities[:, one]) for one in against_rest]
    influence = np.mean([rows for _, rows in found], axis=0)
    accuracy = float(np.mean(probabilities.argmax(axis=1) == labels))
    return PartyScore(
        rows=len(labels),
        class_rows=tuple(class_rows.tolist()),
        roc_auc=float(np.mean([value for value, _ in found])),
        accuracy=accuracy,
        roc_auc_variance=float(influence @ influence),
        accuracy_variance=accuracy * (1 - accuracy) / (len(labels) - 1),
    )


def mean_over_rows(scores: Mapping[str, PartyScore]) -> Estimate | None:
    """Return the mean weighted by rows, with the interval that the rows' sampling gives it."""
    if not scores:
        return None
    parties = scores.values()
    weights = np.array([party.rows for party in parties]) / sum(party.rows for party in parties)
    # where all rows are right the variances are 0; of n such rows the interval still ends near 1 - 2 / n
    least_error = _least_error(np.sum([party.class_rows for party in parties], axis=0))
    rows = sum(party.rows for party in parties)

    def interval(values: Iterable[float], variances: Iterable[float], least_error: float) -> Interval:
        mean = float(weights @ np.array(list(values)))
        error = max(math.sqrt(float(weights**2 @ np.array(list(variances)))), least_error)
        return _clipped(mean, _Z * error)

    return Estimate(
        interval((one.roc_auc for one in parties), (one.roc_auc_variance for one in parties), least_error),
        interval((one.accuracy for one in parties), (one.accuracy_variance for one in parties), 1 / rows),
        dict(scores),
    )


def mean_over_parties(scores: Mapping[str, PartyScore]) -> Estimate | None:
    """Return the plain mean with Student's interval over parties; None for fewer than two."""
    if len(scores) < 2:
        return None

    def interval(values: Sequence[float]) -> Interval:
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return _clipped(float(np.mean(values)), float(t.ppf(0.975, len(values) - 1)) * error)

    return Estimate(
        interval([one.roc_auc for one in scores.values()]),
        interval([one.accuracy for one in scores.values()]),
        dict(scores),
    )


def _roc_auc(positive: NDArray[np.bool_], found: NDArray[np.floating]) -> tuple[float, NDArray[np.float64]]:
    """Return the area and how much each row moves it."""
    ranks = rankdata(found)
    influence = np.empty(len(found))
    for rows, sign in ((positive, 1), (~positive, -1)):
        others = len(found) - rows.sum()
        below = (ranks[rows] - rankdata(found[rows])) / others
        placed = below if sign > 0 else 1 - below
        number = len(placed)
        influence[rows] = (placed - placed.mean()) / math.sqrt(number * (number - 1))
        area = float(placed.mean())  # the same for both
    return area, influence


def _least_error(class_rows: NDArray[np.integer]) -> float:
    """Return the smallest standard error of a ROC-AUC: 1 / n of the rarer side, averaged over classes."""
    if len(class_rows) == 2:
        return 1 / float(class_rows.min())
    return float(np.linalg.norm(1 / class_rows)) / len(class_rows)


def _clipped(mean: float, half_width: float) -> Interval:
    return Interval(mean, max(0.0, mean - half_width), min(1.0, mean + half_width))


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "roc_auc": asdict(estimate.roc_auc),
        "accuracy": asdict(estimate.accuracy),
        "by_party": {
            party: {"rows": one.rows, "roc_auc": one.roc_auc, "accuracy": one.accuracy}
            for party, one in estimate.by_party.items()
        },
    }


def conclude(
    within: Estimate | None,
    across: Estimate | None,
    *,
    rows: Mapping[str, int],
    one_class: int,
    notes: Iterable[str] = (),
) -> Judgement:
    """Return the judgement: the headline is that of ``within`` unless something speaks against it.

    Parameters
    ----------
    rows : mapping
        How many rows each party sent that sent any.
    one_class : int
        How many of those parties sent rows of one class only.
    """
    why_none = _why_no_headline(within, across, rows, one_class)
    headline = Headline(within.roc_auc, within.accuracy) if within and not why_none else None
    return Judgement(within, across, headline, why_none, tuple(notes))


def _why_no_headline(
    within: Estimate | None, across: Estimate | None, rows: Mapping[str, int], one_class: int
) -> str | None:
    if len(rows) < 2:
        return "only one party sent rows, so nothing says what a score would be worth to another"
    scored = sum(rows[party] for party in within.by_party) / sum(rows.values()) if within else 0.0
    if within is None or scored < LEAST_SHARE_SCORED:
        if one_class:
            return (
                f"{one_class} of {len(rows)} parties sent rows of one class only,"
                " so a score inside a party says nothing"
            )
        able = len(within.by_party) if within else 0
        return (
            f"only {able} of {len(rows)} parties have {LEAST_ROWS_OF_A_CLASS}"
            f" held-out rows of every class, with {100 * scored:.0f} % of the rows"
        )
    if within.roc_auc.half_width > NARROW and _half_width_by_numbers(within) > WIDEST_HEADLINE:
        return (
            "too few rows of a class: the ROC-AUC inside the parties may lie anywhere between"
            f" {100 * within.roc_auc.low:.1f} and {100 * within.roc_auc.high:.1f}"
        )
    if across is not None and _disagree(within, across):
        return (
            f"rows held out inside the parties score {100 * within.roc_auc.mean:.1f} and parties held out"
            f" {100 * across.roc_auc.mean:.1f}: they disagree by more than their intervals"
        )
    return None


def _half_width_by_numbers(within: Estimate) -> float:
    """Return half the width of the interval if every ROC-AUC were 0.5: its variance is (1/n + 1/m) / 12."""
    variance = 0.0
    for score in within.by_party.values():
        own = np.array(score.class_rows)
        variance += score.rows**2 * float(np.mean(1 / own + 1 / (score.rows - own))) / 12
    return _Z * math.sqrt(variance) / within.rows


def _disagree(within: Estimate, across: Estimate) -> bool:
    one, other = within.roc_auc, across.roc_auc
    apart = abs(one.mean - other.mean)
    return apart > max(LEAST_DISAGREEMENT, one.half_width + other.half_width)
