"""Where a collaboration stands, as the pages of both sides show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from protocol.answers import MemberStatus, Status
from protocol.states import State
from protocol.texts import visible

PATH: Final = (
    State.ENROLLING,
    State.ANCHORED,
    State.COLLECTING,
    State.SEALED,
    State.ALIGNING,
    State.TRAINING,
    State.RELEASED,
    State.CLOSED,
)
"""The states of a round that goes well, in their order."""
MEANINGS: Final[Mapping[State, str]] = {
    State.DRAFT: "The terms are not published yet.",
    State.ENROLLING: "Every institution reads and signs the terms; the lead then creates the anchor.",
    State.ANCHORED: "Everybody has the anchor, which the analyst cannot read. Nobody has begun to send.",
    State.COLLECTING: "The institutions send their uplinks, one each.",
    State.SEALED: "No uplink is taken any more. The round waits to be computed.",
    State.ALIGNING: "The analyst brings the projections into one representation.",
    State.TRAINING: "The analyst trains the model, or holds it until the operator releases it.",
    State.RELEASED: "Every institution can fetch its downlink and predict on its own machine.",
    State.CLOSED: "The collaboration has ended. The analyst's copies of uplinks and downlinks are erased.",
    State.FAILED: "The round could not be computed. What was sent is kept, and it can be computed again.",
    State.CANCELLED: "The collaboration was ended before its release. What was sent is erased.",
}
_KINDS: Final[Mapping[State, str]] = {
    State.RELEASED: "good",
    State.CLOSED: "",
    State.FAILED: "bad",
    State.CANCELLED: "bad",
}
_HELD: Final = "the analyst: odc-analyst collaboration release"


@dataclass(frozen=True)
class Wait:
    """Somebody who has to act."""

    who: str
    what: str
    since: int | None
    """When it was last seen; None for the analyst, and for somebody who was never seen."""


@dataclass(frozen=True)
class Standing:
    """Where a collaboration stands on its way."""

    state: State
    reached: tuple[State, ...]
    """The states before this one; unknown of a collaboration that was cancelled."""
    is_held: bool
    """Whether its model waits for the operator."""

    @property
    def kind(self) -> str:
        return "warn" if self.is_held else _KINDS.get(self.state, "busy")

    @property
    def meaning(self) -> str:
        return MEANINGS[self.state]

    @property
    def words(self) -> str:
        return f"{self.state}, held" if self.is_held else str(self.state)

    @property
    def off_the_path(self) -> str | None:
        return None if self.state in PATH else str(self.state)


def standing(status: Status) -> Standing:
    """Return where a collaboration stands."""
    state = State(status["state"])
    reached: Sequence[State] = ()
    if state in PATH:
        reached = PATH[: PATH.index(state)]
    elif state is State.FAILED:  # it fails while it is computed
        reached = PATH[: PATH.index(State.SEALED) + 1]
    return Standing(state, tuple(reached), _HELD in status.get("waiting_for", []))


def waits(status: Status) -> list[Wait]:
    """Return whom a collaboration waits for, and what each has to do."""
    seen = {member["party"]: member["last_seen_at"] for member in status["members"]}
    found = []
    for line in status.get("waiting_for", []):
        who, _, what = line.partition(": ")
        found.append(Wait(who, what, seen.get(who.partition(",")[0])))
    return found


def uplink_words(member: MemberStatus) -> tuple[str, str]:
    """Return what became of a member's uplink, and how it is coloured."""
    if member.get("excluded"):
        return "excluded", "bad"
    if member["refused"]:
        return "refused", "bad"
    return {"none": ("not yet", ""), "receiving": ("arriving", "busy"), "received": ("received", "good")}[
        member["uplink"]
    ]


def arrival(member: MemberStatus) -> tuple[int, int] | None:
    """Return how much of an uplink has come and will come, while it is received."""
    if member["uplink"] != "receiving" or not member.get("payload_bytes"):
        return None
    return member["arrived_bytes"], member["payload_bytes"]


def said(status: Status) -> str:
    """Return where a collaboration stands in one sentence, for whoever listens to the page."""
    found = standing(status)
    who = ", ".join(dict.fromkeys(wait.who for wait in waits(status)))
    return f"{found.words[:1].upper()}{found.words[1:]}." + (f" Waits for {who}." if who else "")


def progress_words(status: Status) -> str | None:
    """Return how far the computation is, None if the analyst does not say."""
    told = status.get("computing")
    if not told or "stage" not in told:
        return None
    if not told.get("of"):
        return visible(told["stage"])
    return visible(f"{told['stage']}: {told['done']} of {told['of']} {told['unit']}")


def counts(status: Status) -> str:
    """Return how far the members are, in words."""
    members = [member for member in status["members"] if not member.get("excluded")]
    signed = sum(member["accepted"] for member in members)
    received = sum(member["uplink"] == "received" for member in members)
    fetched = sum(member["downlink"] == "fetched" for member in members)
    return f"of {len(members)} institutions, {signed} signed, {received} sent, {fetched} fetched"


def standing_values(status: Status) -> dict[str, Any]:
    """Return what a page of one collaboration says of where it stands."""
    return {
        "status": status,
        "standing": standing(status),
        "path": PATH,
        "waits": waits(status),
        "counts": counts(status),
        "progress": progress_words(status),
        "members": [
            {"of": member, "uplink": uplink_words(member), "arrival": arrival(member)}
            for member in status["members"]
        ],
    }
