"""The card that goes with an exported model: what it is, what it is worth, and what was signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from protocol import __version__
from protocol.alignment_terms import alignment_in_words
from protocol.answers import MemberReport
from protocol.codec import digest
from protocol.consent import warnings_of
from protocol.labels import MultiLabel, NumberLabel, SurvivalLabel
from protocol.messages import DownlinkManifest
from protocol.model_terms import model_in_words
from protocol.table_schema import Column, ColumnOfLevels, NumericColumn, Schema
from protocol.terms import Terms
from runtime.terminal import figures_in_words, plain, score_in_words, second
from user_client.class_scores import class_scores_in_words, label_score_in_words
from user_client.custody.round_directory import RoundDirectory
from user_client.errors import MissingExtraError
from user_client.sdk.evaluation import Evaluation
from user_client.sdk.shared_rows import trained_model
from user_client.sdk.terms import accepted_terms, own_party, own_schema

_OF_ROWS: Final = (
    "contains the secret map F_i G_i of one institution. It must stay inside that institution:"
    " whoever has it, and what the analyst has, can rebuild values of the rows that were sent."
)
_OF_SUMS: Final = (
    "contains the secret coordinates of the sums. It must stay inside that institution: with"
    " what the analyst has, the total, whoever has it can read the cohort's means and correlations."
)
_INPUTS: Final = {
    "text": 'string without surrounding spaces, "" for an empty field',
    "number": "64-bit float, NaN for an empty field",
}


@dataclass(frozen=True, repr=False)
class Exported:
    """A model from raw columns to the answer, as an ONNX file, and its card in Markdown.

    Attributes
    ----------
    onnx_file : bytes
        It holds F_i G_i, or under sums the secret coordinates.
    card : str
    largest_difference : float
        Of an answer to that of `predict`, over made-up rows: a probability, or a number from -1 to 1.
    """

    onnx_file: bytes
    card: str
    largest_difference: float

    def __repr__(self) -> str:
        return f"<Exported of {len(self.onnx_file)} bytes>"


def exported(
    directory: RoundDirectory,
    evaluation: Evaluation | None,
    ask_report: Callable[[], MemberReport | None],
    *,
    now: int,
) -> Exported:
    """Return the model as a file, with its card; raises `MissingExtraError` without the extra ``export``."""
    try:
        from user_client.sdk import export
    except ModuleNotFoundError:
        raise MissingExtraError("the export", "export") from None
    report = ask_report()
    onnx_file, largest = export.export(directory, report)
    return Exported(onnx_file, card(directory, evaluation, report, now), largest)


def warning_of(terms: Terms, of: str = "This file") -> str:
    """Return what whoever has the file has to know, as a sentence about ``of``."""
    return f"{of} {_OF_ROWS if terms.sums is None else _OF_SUMS}"


def inputs_of(schema: Schema) -> dict[str, str]:
    """Return what each input of the file is: a text, a number, or a number of days since something."""
    return {column.name: _input_of(column) for column in schema.columns}


def _input_of(column: Column) -> str:
    if isinstance(column, ColumnOfLevels):
        return "text"
    if isinstance(column, NumericColumn) or column.dates is None:
        return "number"
    return f"days since {'1970-01-01' if column.since is None else f'the date in {column.since}'}"


@dataclass(frozen=True)
class Card:
    """What a model is, what it is worth and what was signed.

    Attributes
    ----------
    party : str
        The institution that can predict with it.
    model : str
        Its kind, and whose rows trained it.
    inputs : mapping of str to str
        The columns that it needs, and what each is, as `inputs_of` says it.
    """

    title: str
    purpose: str
    party: str
    predicts: str
    model: str
    alignment: str
    signed: str
    inputs: Mapping[str, str]
    scores: tuple[str, ...]
    warnings: tuple[str, ...]


def card_of(directory: RoundDirectory, evaluation: Evaluation | None, report: MemberReport | None) -> Card:
    """Return the card of the model that we have received."""
    terms, party = accepted_terms(directory), directory.load(DownlinkManifest).party
    teachers = _teachers(terms, party, report)
    return Card(
        title=terms.title,
        purpose=terms.purpose or "",
        party=party,
        predicts=f"Predicts {_predicted(terms)}",
        model=f"Model: {model_told(directory, terms, report)}, of the rows of {teachers}",
        alignment=f"Alignment: {alignment_told(terms, report)}",
        signed=f"Collaboration {terms.collaboration_id}, terms {digest(terms).hex()}",
        inputs=inputs_of(own_schema(directory)),
        scores=tuple(_scores(evaluation, report, directory)),
        warnings=tuple(warnings_of(terms)),
    )


def card(
    directory: RoundDirectory, evaluation: Evaluation | None, report: MemberReport | None, now: int
) -> str:
    """Return the card of an exported file, as Markdown."""
    found = card_of(directory, evaluation, report)
    lines = [
        f"# {found.title}",
        *(["", found.purpose] if found.purpose else []),
        "",
        f"**{warning_of(accepted_terms(directory), of='The file beside this card')}**",
        "",
        f"- {found.predicts}",
        f"- {found.model}; the file is that of {found.party}",
        f"- {found.alignment}",
        f"- {found.signed}",
        f"- Exported {second(now)} by odc {__version__}",
        "",
        "## Inputs",
        "",
        "One tensor (rows, 1) for each column. A row with a field that the terms refuse has the answer NaN,"
        " and no class.",
        "",
        "| column | type |",
        "|---|---|",
        *(f"| {_escaped(name)} | {_escaped(_tensor(kind))} |" for name, kind in found.inputs.items()),
        "",
        "## Scores",
        "",
        *(f"- {line}" for line in found.scores),
        "",
        "## What the terms warn of",
        "",
        *(f"- {warning}" for warning in found.warnings),
    ]
    return "\n".join(lines) + "\n"


def _tensor(kind: str) -> str:
    return _INPUTS.get(kind) or f"{_INPUTS['number']}: the {kind}, with fractions for times of the day"


def model_told(directory: RoundDirectory, terms: Terms, report: MemberReport | None) -> str:
    """Return the kind of the model, and that it was chosen if the analyst's report says so."""
    if (trained := trained_model(directory)) is not None:
        return f"{trained.kind}, trained here on the rows that the analyst's knn model shares"
    results = (report["results"] or {}) if report else {}
    own = _group_of(directory.load(DownlinkManifest).party, results)
    chosen = own.get("model") if own else results.get("choice", {}).get("chosen")
    return f"{chosen} (chosen by the analyst)" if chosen else model_in_words(terms.model)


def _teachers(terms: Terms, party: str, report: MemberReport | None) -> str:
    """Return whose rows trained the model, in words: a group's if it has one of its own, else all."""
    if terms.model_groups is not None and report is None:
        return "its group of institutions, or of all: the analyst's report says which"
    own = _group_of(party, (report["results"] or {}) if report else {})
    return ", ".join(own["parties"] if own else terms.parties)


def _group_of(party: str, results: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the group of a party that has a model of its own, as the report has it."""
    return next((group for group in results.get("groups", []) if party in group["parties"]), None)


def alignment_told(terms: Terms, report: MemberReport | None) -> str:
    """Return the method that aligned the parties, as `model_told` does the model."""
    choice = (report["results"] or {}).get("alignment_choice") if report else None
    return f"{choice['chosen']} (chosen by the analyst)" if choice else alignment_in_words(terms.alignment)


def _escaped(name: str) -> str:
    """Return a name as a cell of a Markdown table."""
    return name.replace("\\", "\\\\").replace("|", "\\|")


def _predicted(terms: Terms) -> str:
    label = terms.table_schema.label_column
    if isinstance(label, NumberLabel):
        return f"{label.name}, a number from {label.low:g} to {label.high:g}"
    if isinstance(label, SurvivalLabel):
        times = ", ".join(map(plain, label.times))
        return f"the probability that {label.event} = {label.seen} comes after {label.name} = {times}"
    if isinstance(label, MultiLabel):
        return "whether a row has each of " + ", ".join(f"{one.name} = {one.present}" for one in label.labels)
    return f"{label.name}, one of {', '.join(label.classes)}"


def _scores(
    evaluation: Evaluation | None, report: MemberReport | None, directory: RoundDirectory
) -> Iterator[str]:
    is_ours = trained_model(directory) is not None
    if accepted_terms(directory).group_of(own_party(directory)) is not None:
        yield "not measured here: others hold some of the columns, and `odc evaluate` needs whole rows"
    elif evaluation is None:
        yield "not measured here yet: `odc evaluate TABLE`"
    else:
        yield f"here, {second(evaluation.evaluated_at)}: {score_in_words(evaluation.score)}"
        if evaluation.together_in_classes is not None:
            yield f"here, on the same rows: {class_scores_in_words(evaluation.together_in_classes)}"
        yield from (f"here, {note}" for note in evaluation.notes)
        for name, found in evaluation.by_label.items():
            yield f"here, {name}: {label_score_in_words(found)}"
    if report is None:
        yield "the analyst's report could not be fetched when this was written"
        return
    if is_ours:
        yield "the analyst and the other institutions have scores of the knn model alone, not of this one"
        return
    judgement = (report["results"] or {}).get("judgement") or {}
    if judgement.get("headline"):
        yield f"what a new row may expect, by the analyst: {figures_in_words(judgement['headline'])}"
    elif judgement.get("why_none"):
        yield f"no score from the analyst: {judgement['why_none']}"
    for score in report["member_scores"]:
        yield f"{score['party']}: {score_in_words(score)}"
