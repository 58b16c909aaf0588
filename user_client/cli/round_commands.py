"""The commands of a round: anchor, prepare, contribute, status, receive, predict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import typer

from metering.client_traffic import total
from metering.explanation import RoundExplanation, in_words
from metering.explanation import as_json as as_json_object
from protocol.errors import InputError
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    TableArgument,
    busy,
    open_session,
    refuse_to_overwrite,
    show,
    upload_progress,
    write_output,
    write_private,
)
from user_client.cli.privacy import (
    picture_shape,
    prepared_text,
    refuse_to_forget_options,
    takes_privacy_options,
)
from user_client.sdk import (
    PrivacyOptions,
    create_anchor,
    draw_picture,
    explain_our_bytes,
    own_model,
    prepared_before,
)
from user_client.sdk import contribute as send_contribution
from user_client.sdk import predict as predict_rows
from user_client.sdk import prepare as prepare_uplink
from user_client.sdk import receive as receive_downlink
from user_client.tables import read_table, text_of

anchor = typer.Typer(no_args_is_help=True, help="The anchor; drawn by the lead institution.")


@anchor.command(name="create")
def create(
    context: typer.Context,
    table: Annotated[
        Path | None,
        typer.Option("--table", help="CSV (also .gz) or Parquet with the feature columns: a public anchor"),
    ] = None,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Draw the anchor and seal it for each member; the analyst relays it unread."""
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        with busy(as_json, "sealing the anchor"):
            members = create_anchor(session, chosen, table)
    value = {"collaboration_id": chosen, "sealed_for": members}
    show(as_json, value, lambda: f"anchor sealed for {members} members\nnext: odc contribute TABLE")


@takes_privacy_options
def prepare(
    context: typer.Context,
    table: TableArgument,
    options: PrivacyOptions,
    threshold: Annotated[
        float | None, typer.Option(help="say how many rows keep less than this share hidden, as 0.3")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="PNG file to write: a few rows, what leaves of them, what collusion brings back"),
    ] = None,
    shape: Annotated[str | None, typer.Option(help="of a row as a picture, as 28x28")] = None,
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what would leave and the risk of it. Nothing is sent."""
    size = picture_shape(picture, shape, table)
    if picture is not None:
        refuse_to_overwrite(picture, force=force, option="--picture")
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        prepared = prepare_uplink(session, chosen, table, options, threshold=threshold)
        if picture is not None:
            write_private(picture, draw_picture(session, chosen, table, size))
    value = {**asdict(prepared), "picture": str(picture) if picture else None}
    show(as_json, value, lambda: prepared_text(prepared, picture))


@takes_privacy_options
def contribute(
    context: typer.Context,
    options: PrivacyOptions,
    table: Annotated[
        Path | None, typer.Argument(help="CSV (also .gz) or Parquet; not needed to send what is prepared")
    ] = None,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Send our one uplink. Run it again after a break: it goes on where it stopped."""
    if table is None and options != PrivacyOptions():
        raise InputError("what is prepared was prepared with its options; name the table to change them")
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        if table is not None:
            refuse_to_forget_options(prepared_before(session, chosen), options)
            prepare_uplink(session, chosen, table, options)
        with upload_progress(as_json) as progress:
            receipt = send_contribution(session, chosen, progress=progress)
    value = {
        "collaboration_id": chosen,
        "payload_bytes": receipt.payload_bytes,
        "received_at": receipt.received_at,
        "uplink_digest": receipt.uplink_digest.hex(),
    }
    show(
        as_json,
        value,
        lambda: f"the analyst has our {receipt.payload_bytes:,} bytes and signed for them\nnext: odc receive",
    )


def status(
    context: typer.Context, collaboration: CollaborationOption = None, as_json: AsJson = False
) -> None:
    """Show our collaborations, whom they wait for, and what we have sent and received."""
    with open_session(context) as session:
        membership = session.membership
        rows = [session.status(collaboration)] if collaboration else session.collaborations()
    traffic = total(session.home.traffic_path)
    explained = {row["collaboration_id"]: explain_our_bytes(session, row["collaboration_id"]) for row in rows}
    value = {
        "party": membership.party,
        "role": membership.role,
        "consortium": membership.consortium,
        "analyst": membership.analyst_url,
        "collaborations": rows,
        "traffic_bytes": traffic,
        "wire": {key: as_json_object(found) for key, found in explained.items() if found},
    }
    show(as_json, value, lambda: _status_text(value, explained))


def receive(
    context: typer.Context,
    wait: Annotated[float, typer.Option(help="seconds to wait for the release")] = 0,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch our one downlink: a change-of-basis matrix and the model, or predictions to train our own on."""
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        with busy(as_json, "waiting for the downlink, and learning from it"):
            manifest = receive_downlink(session, chosen, wait_s=wait)
        found = own_model(session, chosen) if manifest.has_anchor_predictions else None
    sizes = {spec.name: spec.payload_bytes for spec in manifest.arrays}
    value = {
        "collaboration_id": chosen,
        "payload_bytes": sum(sizes.values()),
        "arrays": sizes,
        "model_parameters": manifest.model_parameters,
        "held_out_agreement": found.held_out_agreement if found else None,
    }
    trained = (
        "our own model is trained: it names the analyst's class for"
        f" {found.held_out_agreement:.1%} of the anchor rows it had not seen\n"
        if found
        else ""
    )
    show(as_json, value, lambda: f"received {sum(sizes.values()):,} bytes\n{trained}next: odc predict TABLE")


def predict(
    context: typer.Context,
    table: TableArgument,
    out: Annotated[Path, typer.Option(help="CSV file to write")] = Path("predictions.csv"),
    keep: Annotated[
        list[str] | None,
        typer.Option(help="column of the table to write before the prediction, as a number of the patient"),
    ] = None,
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Predict on this machine: label and probabilities for each row, in the order of the table."""
    if out.exists() and table.exists() and out.samefile(table):
        raise InputError(f"{out} is the table itself; name another file with --out")
    refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        rows = read_table(table)
        columns: dict[str, Any] = {name: text_of(rows, name) for name in keep or []}
        predictions = predict_rows(session, chosen, rows)
    found: dict[str, Any] = {"prediction": predictions.labels}
    for index, name in enumerate(predictions.classes):
        found[f"probability_{name}"] = predictions.probabilities[:, index]
    if taken := columns.keys() & found.keys():
        reason = "the predictions have a column of this name; rename it in the table"
        raise InputError(f"--keep {taken.pop()}: {reason}")
    columns |= found
    with pa.BufferOutputStream() as written:
        pyarrow.csv.write_csv(pa.table(columns), written)
        write_output(out, written.getvalue().to_pybytes())
    value = {"rows": len(predictions.labels), "predictions": str(out)}
    show(as_json, value, lambda: f"{len(predictions.labels)} predictions written to {out}")


def _status_text(value: dict[str, Any], explained: dict[str, RoundExplanation | None]) -> str:
    lines = [f"{value['party']} ({value['role']}) in {value['consortium']}, analyst {value['analyst']}"]
    for row in value["collaborations"]:
        lines.append(f"{row['collaboration_id']}  {row['state']}  {row['title']}")
        if row["failure"]:
            lines.append(f"  failed: {row['failure']}")
        lines += [f"  waiting for {item}" for item in row["waiting_for"]]
        if row["state"] == "released":
            lines.append("  next: odc receive, then odc predict TABLE")
        found = explained[row["collaboration_id"]]
        if found is not None:
            lines.append(f"  bytes on the wire, both ways, counted by the {found.counter}:")
            lines += [f"    {line}" for line in in_words(found.total)]
    if not value["collaborations"]:
        lines.append("no collaboration names this institution yet")
    for kind, sums in sorted(value["traffic_bytes"].items()):
        lines.append(f"  {kind:<9} {sums['sent']:>12,} bytes sent {sums['received']:>12,} received")
    return "\n".join(lines)
