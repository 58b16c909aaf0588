"""Collaborations in words, as the commands of the operator show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from analyst_server.services import retention, views
from protocol.answers import Status
from protocol.states import State
from runtime.standing import progress_words
from runtime.terminal import minute

_NEXT: Final[Mapping[str, str]] = {
    State.FAILED: "odc-analyst collaboration resume {id}, or exclude {id} PARTY before it",
    State.RELEASED: "odc-analyst collaboration report {id}; close {id} once all have fetched their downlink",
}


def line_of(row: Status) -> str:
    """Return one collaboration as a line of a list: its id, its state, how many have sent, its title."""
    awaited = [member for member in row["members"] if not member["late_consumer"]]
    done = sum(member["uplink"] == "received" for member in awaited)
    line = f"{row['collaboration_id']}  {row['state']:<10} {done}/{len(awaited)}  {row['title']}"
    return f"{line} ({views.UNREADABLE})" if row.get("unreadable") else line


def kept_in_words(found: Sequence[retention.Kept]) -> str:
    """Return what is kept, or was erased, and until when its terms let it be."""
    lines = [
        f"{one.collaboration_id}  {one.state}, {'erased' if one.ended else 'kept'}:"
        f" its terms say until {minute(one.erase_at)}  {one.title}"
        for one in found
    ]
    return "\n".join(lines) or "no terms limit how long what is here may be kept"


def standing_in_words(row: Status) -> str:
    """Return where one collaboration stands, whom it waits for, and what its operator can do next."""
    lines = [f"{row['title']}: {row['state']}"]
    if row["failure"]:
        lines.append(f"failed: {row['failure']}")
    for member in row["members"]:
        rows = "" if member["rows"] is None else f", {member['rows']} rows"
        signed = "signed" if member["accepted"] else "not signed"
        downlink = "" if member["downlink"] == "none" else f", downlink {member['downlink']}"
        late = "late consumer, " if member["late_consumer"] else ""
        late += "excluded, " if member.get("excluded") else ""
        late += f"rejects the terms: {member['rejected']}, " if member.get("rejected") else ""
        refused = f", refused: {member['refused']}" if member["refused"] else ""
        sent = f"uplink {member['uplink']}{rows}{downlink}{refused}"
        lines.append(f"  {member['party']:<24} {late}terms {signed}, {sent}")
    lines += [f"waiting for {item}" for item in row["waiting_for"]]
    if (progress := progress_words(row)) is not None:
        lines.append(f"now {progress}")
    if "erase_at" in row:
        lines.append(f"kept until {minute(row['erase_at'])}, as the terms say")
    if (step := _NEXT.get(row["state"])) is not None:
        lines.append(f"next: {step.format(id=row['collaboration_id'][:8])}")
    return "\n".join(lines)
