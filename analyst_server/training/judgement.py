"""What a judgement of a model is: two estimates of its scores, and one headline where it can be trusted.

A model learns from pooled rows who sent a row, because the parties' spans differ. Where their labels
differ as well, that alone scores high on pooled held-out rows and is worth nothing to a member. So no figure
here compares rows of different parties: each is a mean over parties of a score inside one party.
docs/scores.md says what the bounds below were measured on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy.stats import t

from analyst_server.training.calibration import MAY_LACK, Calibration
from analyst_server.training.party_scores import ENOUGH_OF_CLASSES, OF_ONE_LABEL, PartyScore

LEAST_SHARE_SCORED: Final = 0.5
"""Of the rows that trained the model: a headline speaks for at least so many of them."""
WIDEST_HEADLINE: Final = 0.05
"""Half the width that the interval of a headline would have, by the numbers of rows, for a ROC-AUC of 0.5.

Not the width that was measured: it is smaller where the score is high by chance, so that a bound on it would
let the scores pass that are too high. With this width the mean error that comes of the choice of rows is at
most 2 points, whatever the ROC-AUC.
"""
WIDEST_OF_NUMBERS: Final = 0.1
"""The same for R squared, where the interval is widest: at a correlation of 0.58."""
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
class Estimate:
    """What a new row may expect: means over the scored parties, and each party's own scores.

    Attributes
    ----------
    figures : mapping of str to Interval
        A mean over the parties that have the figure, if these sent at least half of the scored rows.
    by_party : mapping of str to PartyScore
    calibration : Calibration, optional
        Of the scored rows of all parties together. Errors of opposite signs at two parties cancel in it.
    """

    figures: Mapping[str, Interval]
    by_party: Mapping[str, PartyScore]
    calibration: Calibration | None = None

    @property
    def decisive(self) -> Interval:
        """The figure that decides whether a headline can be trusted."""
        return next(iter(self.figures.values()))

    @property
    def rows(self) -> int:
        return sum(score.rows for score in self.by_party.values())


@dataclass(frozen=True)
class Judgement:
    """Both estimates, the headline or why there is none, and what could not be scored.

    Attributes
    ----------
    within : Estimate, optional
        Rows held out inside every party; weighted by rows.
    across : Estimate, optional
        Whole parties held out; every party counts the same.
    headline : mapping of str to Interval, optional
        The figures of ``within``, where they can be trusted: what a member may expect for its own new rows.
    why_none : str, optional
        One sentence, if there is no headline.
    one_for_all : Estimate, optional
        Where groups of parties have models of their own: the scores of one model for all, as ``within``.
    notes : tuple of str
        Fits that could not be made.
    is_pending : bool
        Whether the model is still to be judged.
    """

    within: Estimate | None = None
    across: Estimate | None = None
    headline: Mapping[str, Interval] | None = None
    why_none: str | None = None
    one_for_all: Estimate | None = None
    notes: tuple[str, ...] = field(default=())
    is_pending: bool = False

    def of_rows_with_noise(self) -> Judgement:
        """Return this judgement without its headline: a member's own rows have no noise, and score higher."""
        return replace(self, headline=None, why_none=self.why_none or ROWS_WITH_NOISE)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; the variances stay here."""
        return {
            "within": _plain(self.within),
            "across": _plain(self.across),
            "headline": _plain_figures(self.headline) if self.headline else None,
            "why_none": self.why_none,
            **({"one_for_all": _plain(self.one_for_all)} if self.one_for_all else {}),
            "notes": list(self.notes),
            "is_pending": self.is_pending,
        }


NOT_YET: Final = Judgement(
    why_none="the model is not judged yet: it is fitted again on parts of the rows, which takes a while",
    is_pending=True,
)

NOT_JUDGED: Final = Judgement(
    why_none=(
        "the model is differentially private, and scores of the rows that trained it would not be; the"
        " institutions measure it on rows that they kept back (odc evaluate --send)"
    )
)

ONLY_SUMS: Final = Judgement(
    why_none=(
        "only sums were sent, and no row that could be held out; the institutions measure the model on rows"
        " that they kept back (odc evaluate --send)"
    )
)


def mean_over_rows(
    scores: Mapping[str, PartyScore], calibration: Calibration | None = None
) -> Estimate | None:
    """Return the mean weighted by rows, with the interval that the rows' sampling gives it."""
    if not scores:
        return None
    least = _least_errors(list(scores.values()))

    def interval(name: str, parties: Sequence[PartyScore]) -> Interval:
        figures = [party.figures[name] for party in parties]
        weights = np.array([party.rows for party in parties]) / sum(party.rows for party in parties)
        variance = float(weights**2 @ np.array([figure.variance for figure in figures]))
        error = max(math.sqrt(variance), least.get(name, 0.0))
        return _bounded(name, float(weights @ np.array([figure.value for figure in figures])), _Z * error)

    found = {name: interval(name, parties) for name, parties in _having(scores, fewest=1)}
    return Estimate(found, dict(scores), calibration)


def mean_over_parties(
    scores: Mapping[str, PartyScore], calibration: Calibration | None = None
) -> Estimate | None:
    """Return the plain mean with Student's interval over parties; None for fewer than two."""
    if len(scores) < 2:
        return None

    def interval(name: str, parties: Sequence[PartyScore]) -> Interval:
        values = [party.figures[name].value for party in parties]
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return _bounded(name, float(np.mean(values)), float(t.ppf(0.975, len(values) - 1)) * error)

    found = {name: interval(name, parties) for name, parties in _having(scores, fewest=2)}
    return Estimate(found, dict(scores), calibration)


def _having(scores: Mapping[str, PartyScore], fewest: int) -> Iterator[tuple[str, list[PartyScore]]]:
    """Yield each figure with the parties that have it, if these have at least half of the scored rows."""
    rows = sum(party.rows for party in scores.values())
    for name in dict.fromkeys(name for party in scores.values() for name in party.figures):
        parties = [party for party in scores.values() if name in party.figures]
        if len(parties) >= fewest and sum(party.rows for party in parties) >= LEAST_SHARE_SCORED * rows:
            yield name, parties


def _least_errors(parties: Sequence[PartyScore]) -> dict[str, float]:
    """Return the smallest standard errors of figures whose variances are 0 where all rows are right.

    Of n such rows the interval of the accuracy still ends near 1 - 2 / n, and that of a ROC-AUC as far from 1
    as the rarer side asks for, averaged over classes.
    """
    if not parties[0].class_rows:
        return {}
    class_rows = np.sum([party.class_rows for party in parties], axis=0)
    rarer = (
        1 / float(class_rows.min())
        if len(class_rows) == 2
        else float(np.linalg.norm(1 / class_rows)) / len(class_rows)
    )
    return {
        "roc_auc": rarer,
        # that of two classes is a mean over the rows of the second
        "pr_auc": 1 / float(class_rows[1]) if len(class_rows) == 2 else rarer,
        "accuracy": 1 / float(class_rows.sum()),
    }


_WIDEST: Final = {
    "roc_auc": (WIDEST_HEADLINE, "rows of a class: the ROC-AUC"),
    "r2": (WIDEST_OF_NUMBERS, "rows: R squared"),
    "c_index": (WIDEST_HEADLINE, "events: the C-index"),
}
"""Half the widest interval of a decisive figure by the numbers of rows, and what there are too few of."""
_ENDS: Final = {
    "r2": (-math.inf, 1.0),
    "rmse": (0.0, math.inf),
    "mae": (0.0, math.inf),
    "ibs": (0.0, math.inf),
    "calibration_slope": (-math.inf, math.inf),
    "calibration_intercept": (-math.inf, math.inf),
}
"""Where the interval of a figure ends at the latest, if that is not 0 and 1."""


def _bounded(name: str, mean: float, half_width: float) -> Interval:
    lowest, highest = _ENDS.get(name, (0.0, 1.0))
    return Interval(mean, max(lowest, mean - half_width), min(highest, mean + half_width))


def _plain_figures(figures: Mapping[str, Interval]) -> dict[str, Any]:
    return _by_label({name: asdict(interval) for name, interval in figures.items()})


def _by_label(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures with those of single labels in a part of their own, if there are any."""
    found = {name: value for name, value in figures.items() if not name.startswith(OF_ONE_LABEL)}
    of_labels = {
        name.removeprefix(OF_ONE_LABEL): value
        for name, value in figures.items()
        if name.startswith(OF_ONE_LABEL)
    }
    return {**found, **({"labels": of_labels} if of_labels else {})}


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    # only classes have figures that may be absent: they are said to be
    are_classes = any(one.class_rows for one in estimate.by_party.values())
    lacking = dict.fromkeys(MAY_LACK) if are_classes else {}
    return {
        **lacking,
        **_plain_figures(estimate.figures),
        **_plain_calibration(estimate.calibration, lacking),
        "by_party": {
            party: {
                "rows": one.rows,
                **lacking,
                **_by_label({name: figure.value for name, figure in one.figures.items()}),
                **_plain_calibration(one.calibration, lacking),
            }
            for party, one in estimate.by_party.items()
        },
    }


def _plain_calibration(found: Calibration | None, lacking: Mapping[str, None]) -> dict[str, Any]:
    if not lacking:
        return {}
    return {"calibration": {**asdict(found), "bins": list(map(asdict, found.bins))} if found else None}


def conclude(
    within: Estimate | None,
    across: Estimate | None,
    *,
    rows: Mapping[str, int],
    one_class: int,
    enough: str = ENOUGH_OF_CLASSES,
    one_for_all: Estimate | None = None,
    notes: Iterable[str] = (),
) -> Judgement:
    """Return the judgement: the headline is that of ``within`` unless something speaks against it.

    Parameters
    ----------
    rows : mapping
        How many rows each party sent that sent any.
    one_class : int
        How many of those parties sent rows of one class only.
    enough : str
        What a party needs to be scored, in words.
    """
    why_none = _why_no_headline(within, across, rows, one_class, enough)
    headline = within.figures if within and not why_none else None
    return Judgement(within, across, headline, why_none, one_for_all, tuple(notes))


def _why_no_headline(
    within: Estimate | None,
    across: Estimate | None,
    rows: Mapping[str, int],
    one_class: int,
    enough: str,
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
        return f"only {able} of {len(rows)} parties have {enough}, with {100 * scored:.0f} % of the rows"
    decisive = within.decisive
    widest, too_few = _WIDEST[next(iter(within.figures))]
    if any(name.startswith(OF_ONE_LABEL) for name in within.figures):
        too_few = "rows with a label: the mean ROC-AUC"
    # a score of classes that is high by chance looks certain, so that its width says too little; R squared of
    # numbers with a few that are far from all others is as uncertain as it looks
    width = max(_half_width_by_numbers(within), decisive.half_width if "r2" in within.figures else 0.0)
    if decisive.half_width > NARROW and width > widest:
        return (
            f"too few {too_few} inside the parties may lie anywhere between"
            f" {_told(within, decisive.low)} and {_told(within, decisive.high)}"
        )
    if across is not None and _disagree(within, across):
        return (
            f"rows held out inside the parties score {_told(within, decisive.mean)} and parties held out"
            f" {_told(across, across.decisive.mean)}: they disagree by more than their intervals"
        )
    return None


def _told(estimate: Estimate, value: float) -> str:
    """Return a decisive figure as the report writes it: R squared as it is, shares in points of a hundred."""
    return f"{value:.3f}" if "r2" in estimate.figures else f"{100 * value:.1f}"


def _half_width_by_numbers(within: Estimate) -> float:
    """Return half the width that the interval of the decisive figure has by the numbers of rows alone."""
    variance = sum(score.rows**2 * score.variance_by_numbers for score in within.by_party.values())
    return _Z * math.sqrt(variance) / within.rows


def _disagree(within: Estimate, across: Estimate) -> bool:
    one, other = within.decisive, across.decisive
    apart = abs(one.mean - other.mean)
    return apart > max(LEAST_DISAGREEMENT, one.half_width + other.half_width)
