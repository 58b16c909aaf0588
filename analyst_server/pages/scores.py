"""The scores of a model in the report, as lines for a terminal and as parts of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from analyst_server.pages.elements import exact, heading, paragraph, table
from analyst_server.services.report_answers import (
    CalibrationReport,
    EstimateReport,
    HeadlineReport,
    IntervalReport,
    JudgementReport,
    PartyScoreReport,
    Results,
)
from runtime.terminal import (
    CALIBRATION_FIGURES,
    FIGURES,
    calibration_in_words,
    figure,
    figure_in_words,
    figures_in_words,
    training_in_words,
)

_WAYS: Final[Mapping[Literal["within", "across"], str]] = {
    "within": "rows held out inside the parties",
    "across": "whole parties held out",
}
_NOT_SCORED: Final = "not scored"
_SHARES_OF_A_BIN: Final[tuple[Literal["predicted", "observed"], ...]] = ("predicted", "observed")


def score_lines(results: Results) -> list[str]:
    """Return the headline or why there is none, both estimates, and each party's scores if they are known."""
    if "judgement" not in results:
        return [_of_an_earlier_version(results)]
    judgement = results["judgement"]
    lines = [_headline(judgement)]
    if not judgement.get("is_pending"):
        lines += [f"  {words:<34} {_said(judgement[way])}" for way, words in _WAYS.items()]
    for party, ways in _by_party(judgement).items():
        said = "; ".join(f"{way} {_party(score)}" for way, score in ways.items())
        lines.append(f"    {party:<32} {said}")
    lines += _calibration_lines(judgement)
    if private := _privacy(results):
        lines.append(private)
    lines += training_in_words(results)
    return [*lines, *(f"  {note}" for note in judgement["notes"])]


def score_parts(results: Results) -> list[str]:
    """Return the same as parts of a page."""
    if "judgement" not in results:
        return [paragraph(f"{_of_an_earlier_version(results)}.")]
    judgement = results["judgement"]
    names = _names(judgement)
    parts = [
        heading("Scores on held-out rows"),
        paragraph(f"{_headline(judgement)}."),
    ]
    if not judgement.get("is_pending"):
        parts.append(
            table(
                "Means over the parties, with 95 % intervals",
                ["", *(FIGURES[name] for name in names)],
                [[words, *_cells(judgement[way], names)] for way, words in _WAYS.items()],
            )
        )
    parts += [*_label_parts(judgement), *_calibration_parts(judgement)]
    if private := _privacy(results):
        parts.append(paragraph(f"{private}."))
    parts += [paragraph(f"{line.strip()}.") for line in training_in_words(results)]
    by_party = _by_party(judgement)
    if by_party:
        said = [FIGURES[name] for name in names]
        parts.append(
            table(
                "Each party's own rows; the members are not shown this table",
                [
                    "party",
                    *(f"{score}, {way}" for way in _WAYS for score in ("rows", *said)),
                ],
                [
                    [party, *(cell for score in ways.values() for cell in _party_cells(score, names))]
                    for party, ways in by_party.items()
                ],
            )
        )
    return [*parts, *(paragraph(f"{note}.", quiet=True) for note in judgement["notes"])]


def _label_parts(judgement: JudgementReport) -> list[str]:
    """Return the scores of each of several labels."""
    found = {
        way: estimate["labels"] for way in _WAYS if (estimate := judgement[way]) and "labels" in estimate
    }
    labels = list(dict.fromkeys(label for one in found.values() for label in one))
    if not labels:
        return []
    rows = [
        [words, *(_interval_cell(found.get(way, {}).get(label)) for label in labels)]
        for way, words in _WAYS.items()
    ]
    return [table("ROC-AUC of each label: means over the parties, with 95 % intervals", ["", *labels], rows)]


def _interval_cell(found: IntervalReport | None) -> str:
    return figure_in_words("roc_auc", cast("Mapping[str, float]", found)) if found else _NOT_SCORED


def _calibration_lines(judgement: JudgementReport) -> list[str]:
    """Return the means, and the table of all rows together if it is known."""
    lines = []
    for way, words in _WAYS.items():
        estimate = judgement[way]
        if estimate is None:
            continue
        if said := calibration_in_words(estimate):
            lines.append(f"  {words:<34} {said}")
        if table_of_all := estimate.get("calibration"):
            lines.append(f"    {_of_all_rows(table_of_all)}")
            lines.append(f"    {'predicted (observed) share:':<32} {_bins_in_words(table_of_all)}")
    return lines


def _of_all_rows(found: CalibrationReport) -> str:
    rows = sum(one["rows"] for one in found["bins"])
    return (
        f"calibration error of all {rows:,} scored rows together {found['ece']:.3f}; probabilities that are"
        f" right would have about {found['ece_by_chance']:.3f} on as many"
    )


def _bins_in_words(found: CalibrationReport) -> str:
    return ", ".join(f"{one['predicted']:.3f} ({one['observed']:.3f})" for one in found["bins"])


def _calibration_parts(judgement: JudgementReport) -> list[str]:
    """Return the means, the tables of all rows together, and every party's figures, where they are known."""
    parts = []
    means = {way: estimate for way in _WAYS if (estimate := judgement[way]) and "ece" in estimate}
    if means:
        parts.append(
            table(
                "Calibration: means over the parties with enough rows, with 95 % intervals",
                ["", *CALIBRATION_FIGURES.values()],
                [[_WAYS[way], *_calibration_cells(estimate)] for way, estimate in means.items()],
            )
        )
    for way, estimate in means.items():
        if found := estimate.get("calibration"):
            parts.append(
                table(
                    f"{_WAYS[way].capitalize()}: {_of_all_rows(found)}",
                    ["", "rows", "predicted share", "observed share"],
                    [
                        [
                            f"bin {number}",
                            exact(one["rows"]),
                            *(f"{one[key]:.3f}" for key in _SHARES_OF_A_BIN),
                        ]
                        for number, one in enumerate(found["bins"], 1)
                    ],
                )
            )
    own = [
        [f"{party}, {way}", *_party_calibration(score, found)]
        for party, ways in _by_party(judgement).items()
        for way, score in ways.items()
        if score and (found := score.get("calibration"))
    ]
    if own:
        head = ["party", *CALIBRATION_FIGURES.values(), "error by chance alone", "predicted (observed) share"]
        parts.append(
            table("Calibration of each party's own rows; the members are not shown this table", head, own)
        )
    return parts


def _calibration_cells(estimate: EstimateReport) -> list[str]:
    found = cast("Mapping[str, Mapping[str, float] | None]", estimate)
    return [figure_in_words(name, one) if (one := found.get(name)) else "" for name in CALIBRATION_FIGURES]


def _party_calibration(score: PartyScoreReport, found: CalibrationReport) -> list[str]:
    values = cast("Mapping[str, float | None]", score)
    figures = [
        figure(name, one) if (one := values.get(name)) is not None else "" for name in CALIBRATION_FIGURES
    ]
    return [*figures, f"{found['ece_by_chance']:.3f}", _bins_in_words(found)]


def _of_an_earlier_version(results: Results) -> str:
    scores = results["hold_out_scores"] or {}
    said = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
    if not said:
        return "on held-out rows: too few to score"
    return f"on held-out rows: {said} (of all parties pooled, by an earlier version: may be far too high)"


def _privacy(results: Results) -> str | None:
    private = results.get("model_privacy")
    if private is None:
        return None
    return (
        f"the model is differentially private towards those who get it: epsilon {private['epsilon']:g}, delta"
        f" {private['delta']:g}, by {private['steps']} steps of gradient descent with a noise multiplier of"
        f" {private['noise_multiplier']:.2f}, each on {private['sampling_rate']:.1%} of the rows"
    )


def _headline(judgement: JudgementReport) -> str:
    if judgement.get("is_pending") and judgement["why_none"]:
        return judgement["why_none"]
    if judgement["headline"] is None:
        return f"no score of the model can be trusted: {judgement['why_none']}"
    return f"a member's new rows score {_said(judgement['headline'])}"


def _said(scores: HeadlineReport | EstimateReport | None) -> str:
    if scores is None:
        return _NOT_SCORED
    return figures_in_words(scores)


def _names(judgement: JudgementReport) -> list[str]:
    """Return the figures that some estimate has."""
    found = judgement["within"] or judgement["across"]
    return [name for name in FIGURES if found and name in found] or ["roc_auc", "accuracy"]


def _cells(estimate: EstimateReport | None, names: Sequence[str]) -> list[str]:
    if estimate is None:
        return [_NOT_SCORED, *[""] * (len(names) - 1)]
    found = cast("Mapping[str, IntervalReport]", estimate)
    return [figure_in_words(name, cast("Mapping[str, float]", found[name])) for name in names]


def _by_party(judgement: JudgementReport) -> dict[str, dict[str, PartyScoreReport | None]]:
    """Return the scores of every party that has one, inside it and when it is held out."""
    found = {way: estimate["by_party"] if (estimate := judgement[way]) else {} for way in _WAYS}
    names = dict.fromkeys(party for scores in found.values() for party in scores)
    return {party: {way: scores.get(party) for way, scores in found.items()} for party in names}


def _party(score: PartyScoreReport | None) -> str:
    if score is None:
        return _NOT_SCORED
    values = cast("Mapping[str, float]", score)
    said = [f"{words} {figure(name, values[name])}" for name, words in FIGURES.items() if name in values]
    return ", ".join([*said, f"{score['rows']} rows"])


def _party_cells(score: PartyScoreReport | None, names: Sequence[str]) -> list[str]:
    if score is None:
        return ["", _NOT_SCORED, *[""] * (len(names) - 1)]
    values = cast("Mapping[str, float]", score)
    return [exact(score["rows"]), *(figure(name, values[name]) for name in names)]
