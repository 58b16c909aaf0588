"""The commands of a round: create the anchor, prepare, contribute, status, receive, predict."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypedDict

import typer

from metering.client_traffic import recorded, total
from metering.explanation import RoundBytes, RoundExplanation, in_words
from metering.explanation import as_json as as_json_object
from protocol.answers import Status
from protocol.errors import InputError, OdcError
from protocol.suspicions import LIKELY_CAUSE
from protocol.texts import visible
from runtime.standing import progress_words
from user_client.cli.desk import agree_to_send, prepared_in_words
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_private,
)
from user_client.cli.parts import WithParts, predictor_with
from user_client.cli.privacy_options import takes_privacy_options
from user_client.cli.progress import busy, reading, upload_progress
from user_client.cli.table_options import TABLE, TableArgument, reads_table
from user_client.sdk.desk import AttackLevel
from user_client.sdk.next_steps import next_step, prediction_in_words
from user_client.sdk.own_bytes import explain_bytes
from user_client.sdk.parts import JoinedPredictor
from user_client.sdk.prepared import Prepared
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.round import Round
from user_client.sdk.shared_rows import have_come
from user_client.sdk.unfit_rows import UnfitRows
from user_client.tables import OUTPUT, Source, is_parquet, read_parts, table_writer, without_formulas

log = logging.getLogger(__name__)
anchor = typer.Typer(no_args_is_help=True, help="The anchor, which the lead institution creates.")


@anchor.command(name="create")
@reads_table
def create(
    context: typer.Context,
    table: Annotated[
        Source | None,
        typer.Option(
            "--table",
            help="for a public anchor: CSV, Parquet, Excel or Feather file with the feature columns",
            **TABLE,
        ),
    ] = None,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Create the anchor and seal it for each member; the analyst relays it and cannot read it."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        with busy(as_json, "sealing the anchor"):
            members = chosen.create_anchor(table)
    value = {"collaboration_id": chosen.id, "sealed_for": members}
    show(as_json, value, lambda: f"anchor sealed for {members} members\nnext: odc contribute TABLE")


@anchor.command(name="share")
def share(context: typer.Context, collaboration: CollaborationOption = None, as_json: AsJson = False) -> None:
    """Seal the anchor for late consumers that have accepted the terms since."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        names = chosen.share_anchor()
    value = {"collaboration_id": chosen.id, "sealed_for": names}
    show(as_json, value, lambda: f"anchor sealed for {', '.join(names) or 'nobody: no late consumer is new'}")


@takes_privacy_options
@reads_table
def prepare(
    context: typer.Context,
    table: TableArgument,
    options: PrivacyOptions,
    threshold: Annotated[
        float | None,
        typer.Option(help="report of how many rows the projection drops less than this share, e.g. 0.3"),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="PNG file to write: a few rows, what leaves of them, what collusion could rebuild"),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="height and width of a row as a picture, e.g. 28x28")
    ] = None,
    attacks: Annotated[
        bool, typer.Option(help="try on our own rows what others could find in the uplink, a few seconds")
    ] = True,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="give these attacks minutes, and try to recognise our rows as well"),
    ] = False,
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what would leave and the risk of it. Nothing is sent."""
    size = _picture_shape(picture, shape, table)
    if picture is not None:
        refuse_to_overwrite(picture, force=force, option="--picture")
    if thorough and not attacks:
        raise InputError("--thorough and --no-attacks contradict each other: leave one of them out")
    level: AttackLevel = "thorough" if thorough else "quick" if attacks else "none"
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        words = "preparing the table" if level == "none" else "preparing the table, attacking our own rows"
        with reading(as_json, table, words) as watched:
            prepared = chosen.prepare(watched, options, threshold=threshold, attacks=level)
        refused = chosen.policy_violations()
        if picture is not None:
            write_private(picture, chosen.draw_picture(table, size))
    value = {**prepared.to_json(), "refused": refused, "picture": str(picture) if picture else None}
    show(as_json, value, lambda: prepared_in_words(prepared, refused, picture))


@takes_privacy_options
@reads_table
def contribute(
    context: typer.Context,
    options: PrivacyOptions,
    table: Annotated[
        Source | None,
        typer.Argument(
            help="CSV, Parquet, Excel or Feather file; not needed to send what is prepared", **TABLE
        ),
    ] = None,
    accept_signal_loss: Annotated[
        bool,
        typer.Option(
            "--accept-signal-loss",
            help="send even if the leading axes hold less of our own score than the terms ask for",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="send without asking; needed where there is no terminal")
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="the table has no rows on purpose: receive the model, send no row"),
    ] = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Send our one uplink, after a question. Run it again after an interruption: it continues."""
    if table is None and options != PrivacyOptions():
        raise InputError(
            "privacy options need the table: the prepared uplink keeps the options it was prepared with"
        )
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        if table is not None:
            _refuse_to_drop_options(chosen.prepared, options)
            with reading(as_json, table, "preparing the table") as watched:
                chosen.prepare(watched, options)
        with upload_progress(as_json) as progress:
            receipt = chosen.contribute(
                accept_signal_loss=accept_signal_loss,
                progress=progress,
                confirm=partial(agree_to_send, chosen, yes=yes, consumer=consumer),
            )
    value = {
        "collaboration_id": chosen.id,
        "payload_bytes": receipt.payload_bytes,
        "received_at": receipt.received_at,
        "uplink_digest": receipt.uplink_digest.hex(),
    }
    show(
        as_json,
        value,
        lambda: (
            f"the analyst has received our {receipt.payload_bytes:,} bytes and signed a receipt\n"
            "next: odc receive"
        ),
    )


class StatusShown(TypedDict):
    """What ``odc status --json`` prints."""

    party: str
    role: str
    consortium: str
    analyst: str
    collaborations: list[Status]
    traffic_bytes: dict[str, dict[str, int]]
    """Bytes ``sent`` and ``received`` by kind of request."""
    next: dict[str, str]
    """What we do next, by the id of the collaboration."""
    wire: dict[str, RoundBytes]
    """Where the bytes went, by the id of the collaboration."""


def status(
    context: typer.Context, collaboration: CollaborationOption = None, as_json: AsJson = False
) -> None:
    """Show our collaborations, whom they wait for, and how many bytes we have sent and received."""
    with open_session(context) as session:
        membership = session.membership
        rows = [session.round(collaboration).status()] if collaboration else session.collaborations()
    traffic, counts = total(session.home.traffic_path), recorded(session.home.traffic_path)
    explained = {
        row["collaboration_id"]: explain_bytes(
            session, session.round(row["collaboration_id"]).directory, counts
        )
        for row in rows
    }
    value: StatusShown = {
        "party": membership.party,
        "role": membership.role,
        "consortium": membership.consortium,
        "analyst": membership.analyst_url,
        "collaborations": rows,
        "traffic_bytes": traffic,
        "next": {
            row["collaboration_id"]: next_step(row, session.round(row["collaboration_id"]).directory).words
            for row in rows
        },
        "wire": {key: as_json_object(found) for key, found in explained.items() if found},
    }
    show(as_json, value, lambda: _status_text(value, explained))


def receive(
    context: typer.Context,
    wait: Annotated[float, typer.Option(help="seconds to wait for the release")] = 0,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch our one downlink: change of basis and model, or predictions to train our own model on."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        with busy(as_json, "waiting for the downlink, and training on it"):
            manifest = chosen.receive(wait_s=wait)
        found = chosen.own_model() if manifest.has_anchor_predictions else None
        has_rows = not as_json and found is None and _has_rows(chosen)
    sizes = {spec.name: spec.payload_bytes for spec in manifest.arrays}
    value = {
        "collaboration_id": chosen.id,
        "payload_bytes": sum(sizes.values()),
        "arrays": sizes,
        "model_parameters": manifest.model_parameters,
        "held_out_agreement": found.held_out_agreement if found else None,
    }
    trained = (
        "our own model is trained: it predicts the same class as the analyst's model for"
        f" {found.held_out_agreement:.1%} of the anchor rows it was not trained on\n"
        if found
        else ""
    )
    first = "odc train (a model of our own, on the rows of all institutions), or " if has_rows else ""
    show(
        as_json,
        value,
        lambda: (
            f"received {sum(sizes.values()):,} bytes\n"
            f"{trained}next: {first}{prediction_in_words(chosen.directory)}"
        ),
    )


def _has_rows(chosen: Round) -> bool:
    """Return whether the model that was received is the rows of all institutions."""
    try:
        return have_come(chosen.directory)
    except OdcError:  # `odc predict` says what is wrong with the model; it has arrived
        return False


@reads_table
def predict(
    context: typer.Context,
    table: TableArgument,
    out: Annotated[
        Path,
        typer.Option(help="CSV or Parquet file, by its ending; - for the output of the program"),
    ] = Path("predictions.csv"),
    keep: Annotated[
        list[str] | None,
        typer.Option(help="column of the table to write before the prediction, such as a patient number"),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="CLASS=P: predict this class, or one of several labels, from this probability on: yes=0.3"
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            help="for a number: its interval that holds this share of rows like those of `odc evaluate`,"
            " such as 0.9"
        ),
    ] = None,
    with_: WithParts = None,
    skip_unfit: Annotated[
        bool,
        typer.Option(
            "--skip-unfit",
            help="a row that does not fit the terms gets an empty prediction and is named; without this, one"
            " such row refuses the table",
        ),
    ] = False,
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Predict on this machine: label and probabilities of each row, in the order of the table.

    The table is read part by part, so it may be larger than the memory.
    """
    if table.is_at(out):
        raise InputError(f"{out} is the table itself: name another file with --out")
    if out == OUTPUT and as_json:
        raise InputError("--json and --out - both want the output of the program: leave one of them out")
    refuse_to_overwrite(out, force=force)
    thresholds = dict(map(_threshold, threshold or ()))
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        predictor, answering = predictor_with(chosen, with_ or ())
    predictor.check(thresholds=thresholds, coverage=interval)
    rows, unfit = 0, UnfitRows() if skip_unfit else None
    with reading(as_json or out == OUTPUT, table, "predicting") as watched:
        parts = answering.predict_parts(
            read_parts(watched), keep=keep or (), thresholds=thresholds, coverage=interval, unfit=unfit
        )
        empty = next(parts)
        with table_writer(out, empty.schema) as write:
            for part in parts:
                # the terms have named the classes
                write(part if is_parquet(out) else without_formulas(part, *predictor.prediction_columns))
                rows += part.num_rows
    if unfit:
        log.warning(
            "%d of %d rows do not fit the terms, and have no prediction: %s", len(unfit), rows, unfit.in_words
        )
    if out != OUTPUT:
        value: dict[str, object] = {"rows": rows, "predictions": str(out)}
        if isinstance(answering, JoinedPredictor):
            value["left_out"] = answering.left_out
        if unfit is not None:
            value["unfit"] = {"rows": len(unfit), "by_column": unfit.counts}
        show(as_json, value, lambda: f"{rows - len(unfit or ())} predictions written to {out}")


def _threshold(text: str) -> tuple[str, float]:
    """Return class and probability of a ``--threshold``; raises `InputError`."""
    name, separator, number = text.rpartition("=")
    try:
        if not separator:
            raise ValueError
        return name, float(number)
    except ValueError:
        raise InputError("--threshold must be CLASS=PROBABILITY, such as yes=0.3") from None


def _status_text(value: StatusShown, explained: dict[str, RoundExplanation | None]) -> str:
    lines = [f"{value['party']} ({value['role']}) in {value['consortium']}, analyst {value['analyst']}"]
    for row in value["collaborations"]:
        lines.append(f"{row['collaboration_id']}  {row['state']}  {row['title']}")
        if row["failure"]:
            lines.append(f"  failed: {row['failure']}")
        excluded = [member["party"] for member in row["members"] if member.get("excluded")]
        lines += [f"  excluded by the analyst's operator: {party}" for party in excluded]
        lines += _suspicions(row)
        lines += [f"  waiting for {item}" for item in row["waiting_for"]]
        if (progress := progress_words(row)) is not None:
            lines.append(f"  now {progress}")
        lines.append(f"  next: {value['next'][row['collaboration_id']]}")
        found = explained[row["collaboration_id"]]
        if found is not None:
            lines.append(f"  bytes on the wire, both ways, counted by the {found.counter}:")
            lines += [f"    {line}" for line in in_words(found.total)]
    if not value["collaborations"]:
        lines.append("no collaboration names this institution yet")
    for kind, sums in sorted(value["traffic_bytes"].items()):
        lines.append(f"  {kind:<9} {sums['sent']:>12,} bytes sent {sums['received']:>12,} received")
    return "\n".join(lines)


def _suspicions(row: Status) -> list[str]:
    """Return whom the analyst suspects, of what, and what follows, in lines."""
    lines = []
    for member in row["members"]:
        if suspected := member.get("suspected"):
            cause = LIKELY_CAUSE.get(suspected["assumption"], "the analyst names a cause that we do not know")
            lines.append(f"  suspected by the analyst: {member['party']}: {cause}")
            lines.append(f"    its anchor representation {visible(suspected['evidence'])}")
            if member.get("left_out"):
                lines.append("    the model is trained without its rows")
    return lines


def _refuse_to_drop_options(prepared: Prepared | None, options: PrivacyOptions) -> None:
    """Raise `InputError` if a table prepared with privacy options would be sent without any."""
    if options == PrivacyOptions() and prepared is not None and prepared.options != options:
        error = InputError("the uplink was prepared with privacy options, and the command line has none")
        error.hint = (
            "nothing was sent; send what is prepared with `odc contribute`, or give the options again"
        )
        raise error


def _picture_shape(picture: Path | None, shape: str | None, table: Source) -> tuple[int, int]:
    """Return height and width of a row as a picture; raises `InputError`."""
    if picture is not None and table.is_at(picture):
        raise InputError(f"{picture} is the table itself: name another file with --picture")
    if (picture is None) != (shape is None):
        raise InputError("--picture FILE and --shape HEIGHTxWIDTH must be given together")
    found = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", shape or "1x1")
    if found is None:
        raise InputError("--shape must be HEIGHTxWIDTH, such as 28x28")
    return int(found[1]), int(found[2])


COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    prepare,
    contribute,
    status,
    receive,
    predict,
)
"""The commands of this module that stand directly behind `odc`."""
