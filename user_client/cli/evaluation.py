"""Did it help us? The commands that compare the collaboration with our own rows, and show its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from metering.explanation import RoundExplanation, in_words
from protocol.answers import MemberReport
from protocol.texts import visible
from runtime.command_line import as_json_option
from runtime.terminal import (
    calibration_in_words,
    fewer_numbers,
    figures_in_words,
    joined_rows_in_words,
    own_maps_in_words,
    score_in_words,
    training_in_words,
)
from user_client.class_scores import (
    bins_in_words,
    class_scores_in_words,
    label_score_in_words,
    of_class_in_words,
)
from user_client.cli.options import (
    collaboration_option,
    open_session,
    round_of,
    show,
)
from user_client.cli.progress import busy, reading
from user_client.cli.table_options import reads_table, table_argument
from user_client.sdk.evaluation import Evaluation
from user_client.sdk.joined_rows import own_group
from user_client.sdk.shared_rows import is_trained
from user_client.tables import Source
from user_client.words import alignment_in_words, local_fit_in_words, trained_in_words

_JUDGED: Final = (
    "judgement",
    "hold_out_scores",
    "choice",
    "alignment_choice",
    "of_rows",
    "far_rows",
    "groups",
    "joined_rows",
    "alignment",
    "parity_gap",
)
"""The results that are shown in words of their own, or to machines alone."""
_MOST_CLASSES: Final = 10
"""Of more, only machines are told of each."""
_UNCLEAR: Final = "whether that is a gain is unclear: "
_VERDICTS: Final = {
    "gain": "the gain is clear: on rows like these, the collaboration predicts better than you do alone",
    "loss": "the loss is clear: on rows like these, you predict better alone than with the collaboration",
    "unclear": (
        f"{_UNCLEAR}the interval contains 0; more rows would tell more, from another table with labels"
    ),
    "no comparison": (
        "there is no model of your own rows alone to compare with: those that were sent have fewer than two"
        " different labels or no event, or were prepared by an earlier version"
    ),
}


@click.command()
@table_argument
@click.option(
    "--send", is_flag=True, help="send the scores to the analyst, for the report that every member reads"
)
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def evaluate(
    context: click.Context, table: Source, send: bool, collaboration: str | None, as_json: bool
) -> None:
    """Compare the collaboration's model with one of our own rows alone, on rows that were not sent.

    Of the table that was prepared these are the rows that were kept back, of another table all.
    """
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        with reading(as_json, table, "predicting with both models") as watched:
            found = chosen.evaluate(watched, send=send)
    value = {"collaboration_id": chosen.id, **found.to_json()}
    show(as_json, value, lambda: "\n".join(_evaluation_lines(found)))


@click.command()
@collaboration_option
@click.option("--wait", type=float, default=0, help="seconds to wait until the analyst has judged the model")
@as_json_option
@click.pass_context
def report(context: click.Context, collaboration: str | None, wait: float, as_json: bool) -> None:
    """Show what the analyst reports of the collaboration, and what we have found ourselves."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, received=True)
        with busy(as_json, "waiting for the judgement of the model"):
            found = chosen.report(wait_s=wait)
        own = chosen.evaluation
    bytes_explained = chosen.explain_bytes()
    value = {"report": found, "evaluation": own.to_json() if own else None}
    next_step = None
    if own is None and own_group(chosen.directory) is None:  # of joined rows nobody has all columns
        next_step = "we have not evaluated it yet: odc evaluate TABLE"
        if is_trained(chosen.directory):
            next_step = f"{trained_in_words(None)}; {next_step}"
    sent = {party["party"] for party in found.get("parties", ())}
    known = {*sent, *found.get("excluded", ())}
    missing = [party for party in chosen.terms.awaited_parties if sent and party not in known]
    show(as_json, value, lambda: _report_text(found, own, bytes_explained, next_step, missing))


def _evaluation_lines(found: Evaluation) -> Iterator[str]:
    drawn = "" if found.rows == found.of_rows else f" drawn from {found.of_rows:,}"
    yield f"{score_in_words(found.score)}{drawn}{' kept back' if found.kept_back else ' of another table'}"
    yield _VERDICTS[found.verdict] if found.too_few is None else f"{_UNCLEAR}{found.too_few}"
    if not found.kept_back:
        yield _left_out(found.left_out)
    yield from _of_classes(found)
    for label, of_label in found.by_label.items():
        yield f"{label}: {label_score_in_words(of_label)}"
    if found.trained is not None:
        yield f"together: {trained_in_words(found.trained)}"
    if (fit := found.local_fit) is not None:
        yield f"alone: a {local_fit_in_words(fit)}"
    yield (
        "the analyst has the scores: every member reads them in the report"
        if found.sent
        else "nothing was sent"
    )


def _left_out(rows: int | None) -> str:
    """Return which rows of another table were not scored."""
    if rows is None:
        return "nothing here tells which rows were sent: if some of these were, both scores are too good"
    if rows:
        return f"{rows:,} more rows of this table have the values of rows that were sent, and are left out"
    return "by their values, none of these rows was sent"


def _of_classes(found: Evaluation) -> Iterator[str]:
    """Yield what there is beside the score where the label is a class."""
    for name, scores in (("together", found.together_in_classes), ("alone", found.alone_in_classes)):
        if scores is not None:
            yield f"{name}: {class_scores_in_words(scores)}"
            if scores.bins:
                yield f"  probabilities (and what came of them): {bins_in_words(scores.bins)}"
    yield from found.notes
    if len(found.by_class) <= _MOST_CLASSES:
        yield from (of_class_in_words(name, of_class) for name, of_class in found.by_class.items())


def _report_text(
    found: MemberReport,
    own: Evaluation | None,
    explained: RoundExplanation | None,
    next_step: str | None,
    missing: Sequence[str],
) -> str:
    how = f"alignment {found['alignment']}" if found.get("uplink", "rows") == "rows" else "masked sums"
    lines = [
        f"{found['title']}: {found['state']}, {how}, l = {found['latent_dim']} of"
        f" {found['features']} features"
    ]
    lines += [f"  {visible(party)} {words}" for party, words in fewer_numbers(found)]
    lines += [f"  {visible(words)}" for words in (*own_maps_in_words(found), *joined_rows_in_words(found))]
    if found["failure"]:
        lines.append(f"failed: {found['failure']}")
    if found.get("excluded"):
        lines.append(f"excluded by the analyst's operator: {', '.join(found['excluded'])}")
    if found["results"] and missing:
        lines.append(f"without rows of {', '.join(missing)}: no uplink of theirs is part of this round")
    if found["results"]:
        lines.append("the analyst has measured:")
        lines += [f"  {line}" for line in _judgement_lines(found["results"].get("judgement") or {})]
        lines += [f"  {line}" for line in training_in_words(found["results"])]
        lines += [f"  {line}" for line in alignment_in_words(found["results"].get("alignment") or {})]
        other = {key: value for key, value in found["results"].items() if key not in _JUDGED}
        lines += [f"  {name}: {value}" for name, value in _flat(other)]
    if found["member_scores"]:
        lines.append("the institutions have measured:")
        lines += [f"  {score['party']}: {score_in_words(score)}" for score in found["member_scores"]]
    if explained is not None:
        lines.append(f"our bytes on the wire, both ways, counted by the {explained.counter}:")
        lines += [f"  {line}" for line in in_words(explained.total)]
    if own is not None:
        lines.append("we have measured:")
        lines += [f"  {line}" for line in _evaluation_lines(own)]
    elif next_step is not None:
        lines.append(next_step)
    return "\n".join(lines)


def _judgement_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield how the analyst judges its model (docs/scores.md); nothing for a report of an earlier version."""
    if found.get("headline"):
        yield f"a new row of ours may expect: {figures_in_words(found['headline'])}"
    elif found.get("is_pending"):
        yield found["why_none"]
    elif found.get("why_none"):
        yield f"no score to expect for a new row: {found['why_none']}"
    for key, name in (("within", "rows held out inside the parties"), ("across", "whole parties held out")):
        if found.get(key):
            yield f"{name}: {figures_in_words(found[key])}"
            if said := calibration_in_words(found[key]):
                yield f"  {said}"


def _flat(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield each result with its name, whatever results the analyst's version has."""
    for key, one in value.items():
        name = f"{before}{key.replace('_', ' ')}"
        if isinstance(one, dict):
            yield from _flat(one, f"{name}, ")
        elif isinstance(one, list):
            if one:
                yield name, ", ".join(map(_shown, one))
        else:
            yield name, _shown(one)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


COMMANDS: Final[tuple[click.Command, ...]] = (evaluate, report)
"""The commands of this module that stand directly behind `odc`."""
