"""The commands of a round: create the anchor, prepare, contribute, status."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

import click

from metering.client_traffic import recorded, total
from metering.explanation import RoundBytes, RoundExplanation, in_words
from metering.explanation import as_json as as_json_object
from protocol.answers import Status
from protocol.errors import InputError
from protocol.messages import Receipt
from protocol.states import State
from runtime.command_line import PATH, InOrder, as_json_option
from runtime.standing import progress_words
from runtime.terminal import minute
from user_client.cli.desk import agree_to_send, prepared_in_words
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_private,
)
from user_client.cli.privacy_options import takes_privacy_options
from user_client.cli.progress import busy, reading, upload_progress
from user_client.cli.table_options import TABLE, reads_table, table_argument
from user_client.sdk.desk import AttackLevel
from user_client.sdk.next_steps import next_step
from user_client.sdk.own_bytes import explain_bytes
from user_client.sdk.prepared import Prepared
from user_client.sdk.privacy import PrivacyOptions
from user_client.tables import Source
from user_client.words import dangers, suspected_in_words

anchor = InOrder("anchor", help="The anchor, which the lead institution creates.")


@anchor.command(name="create")
@click.option(
    "--table",
    type=TABLE,
    help="for a public anchor: CSV, Parquet, Excel or Feather file with the feature columns",
)
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def create(context: click.Context, table: Source | None, collaboration: str | None, as_json: bool) -> None:
    """Create the anchor and seal it for each member; the analyst relays it and cannot read it."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        with busy(as_json, "sealing the anchor"):
            members = chosen.create_anchor(table)
    value = {"collaboration_id": chosen.id, "sealed_for": members}
    show(as_json, value, lambda: f"anchor sealed for {members} members\nnext: odc contribute TABLE")


@anchor.command(name="share")
@collaboration_option
@as_json_option
@click.pass_context
def share(context: click.Context, collaboration: str | None, as_json: bool) -> None:
    """Seal the anchor for late consumers that have accepted the terms since."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        names = chosen.share_anchor()
    value = {"collaboration_id": chosen.id, "sealed_for": names}
    show(as_json, value, lambda: f"anchor sealed for {', '.join(names) or 'nobody: no late consumer is new'}")


@click.command()
@table_argument
@click.option(
    "--threshold",
    type=float,
    help="report of how many rows the projection drops less than this share, e.g. 0.3",
)
@click.option(
    "--picture",
    type=PATH,
    help="PNG file to write: a few rows, what leaves of them, what collusion could rebuild",
)
@click.option("--shape", help="height and width of a row as a picture, e.g. 28x28")
@click.option(
    "--attacks/--no-attacks",
    default=True,
    help="try on our own rows what others could find in the uplink, a few seconds",
)
@click.option(
    "--thorough", is_flag=True, help="give these attacks minutes, and try to recognise our rows as well"
)
@force_option
@collaboration_option
@as_json_option
@reads_table
@takes_privacy_options
@click.pass_context
def prepare(
    context: click.Context,
    table: Source,
    options: PrivacyOptions,
    threshold: float | None,
    picture: Path | None,
    shape: str | None,
    attacks: bool,
    thorough: bool,
    force: bool,
    collaboration: str | None,
    as_json: bool,
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
    value = {
        **prepared.to_json(),
        "dangers": dangers(prepared),
        "refused": refused,
        "picture": str(picture) if picture else None,
    }
    show(as_json, value, lambda: prepared_in_words(prepared, refused, picture))


@click.command()
@click.argument(
    "table",
    type=TABLE,
    required=False,
    help="CSV, Parquet, Excel or Feather file; not needed to send what is prepared",
)
@click.option(
    "--accept-signal-loss",
    is_flag=True,
    help="send even if the leading axes hold less of our own score than the terms ask for",
)
@click.option("--yes", is_flag=True, help="send without asking; needed where there is no terminal")
@click.option(
    "--consumer", is_flag=True, help="the table has no rows on purpose: receive the model, send no row"
)
@collaboration_option
@as_json_option
@reads_table
@takes_privacy_options
@click.pass_context
def contribute(
    context: click.Context,
    options: PrivacyOptions,
    table: Source | None,
    accept_signal_loss: bool,
    yes: bool,
    consumer: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Send our one uplink, after a question. Run it again after an interruption: it continues."""
    if table is None and options != PrivacyOptions():
        raise InputError(
            "privacy options need the table: the prepared uplink keeps the options it was prepared with"
        )
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True, accepted=True)
        before = chosen.directory.find(Receipt)
        if table is not None:
            _refuse_to_drop_options(chosen.prepared, options)
            with reading(as_json, table, "preparing the table") as watched:
                chosen.prepare(watched, options)
        with upload_progress(as_json) as progress:
            receipt = chosen.contribute(
                accept_signal_loss=accept_signal_loss,
                progress=progress,
                confirm=partial(agree_to_send, chosen, yes=yes, consumer=consumer, table=table),
            )
    value = {
        "collaboration_id": chosen.id,
        "payload_bytes": receipt.payload_bytes,
        "received_at": receipt.received_at,
        "uplink_digest": receipt.uplink_digest.hex(),
    }
    said = f"the analyst has received our {receipt.payload_bytes:,} bytes and signed a receipt"
    if receipt == before:
        said = (
            f"nothing was sent now: our one uplink of this round was received {minute(receipt.received_at)}"
        )
    show(as_json, value, lambda: f"{said}\nnext: odc receive")


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


@click.command()
@collaboration_option
@as_json_option
@click.pass_context
def status(context: click.Context, collaboration: str | None, as_json: bool) -> None:
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


def _status_text(value: StatusShown, explained: dict[str, RoundExplanation | None]) -> str:
    lines = [f"{value['party']} ({value['role']}) in {value['consortium']}, analyst {value['analyst']}"]
    for row in value["collaborations"]:
        lines.append(f"{row['collaboration_id']}  {row['state']}  {row['title']}")
        if row["state"] == State.CANCELLED:
            continue
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
    return [
        f"  {line}"
        for member in row["members"]
        if (suspected := member.get("suspected"))
        for line in suspected_in_words(member["party"], suspected, is_left_out=member.get("left_out", False))
    ]


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


COMMANDS: Final[tuple[click.Command, ...]] = (prepare, contribute, status)
"""The commands of this module that stand directly behind `odc`."""
