"""What the operator can do with a collaboration, in words: what happens, and what nobody can undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from protocol import operations
from protocol.answers import MemberStatus, Status
from protocol.operations import Operation
from protocol.states import TRANSITIONS, Event, State
from runtime.standing import standing


@dataclass(frozen=True)
class Act:
    """One step of the operator."""

    operation: Operation
    event: Event
    words: str
    """What stands on its button."""
    happens: tuple[str, ...]
    forever: tuple[str, ...]
    """What cannot be undone; nothing, where the step can be taken back."""
    is_last_resort: bool = False

    @property
    def name(self) -> str:
        """Return its name in addresses."""
        return self.operation.name


SEAL: Final = Act(
    operations.SEAL, Event.SEAL, "Seal the round now",
    happens=("The round is computed with what has arrived, at once.",),
    forever=("No uplink is taken afterwards. An institution that has sent nothing gets no downlink.",),
)  # fmt: skip
RESUME: Final = Act(
    operations.RESUME, Event.RESUME, "Compute the round again",
    happens=(
        "The round starts again from the uplinks that are stored; nobody has to send anything.",
        "A model that is held is discarded, and trained again.",
    ),
    forever=(),
)  # fmt: skip
RELEASE: Final = Act(
    operations.RELEASE, Event.RELEASE, "Release the model",
    happens=("Every institution that has sent can fetch its downlink, and predict with the model.",),
    forever=(
        "The model cannot be called back: what an institution has fetched stays on its machine.",
        "The collaboration can no longer be cancelled, and nobody can be excluded.",
    ),
)  # fmt: skip
EXCLUDE: Final = Act(
    operations.EXCLUDE, Event.EXCLUDE, "Exclude",
    happens=(
        "Its anchor representation aligns nobody, and its rows train nothing.",
        "A model that is held is discarded; compute the round again afterwards.",
        "A round that waited for this institution alone is sealed.",
        "Every member sees it in the status, in the report and in the ledger.",
    ),
    forever=("The institution takes no part in this collaboration any more, and gets no downlink.",),
    is_last_resort=True,
)  # fmt: skip
CANCEL: Final = Act(
    operations.CANCEL, Event.CANCEL, "Cancel the collaboration",
    happens=("The collaboration ends without a model. Its ledger stays.", "What is being computed is ended."),
    forever=(
        "Everything that the institutions have sent is erased here.",
        "To go on, new terms have to be published, signed and sent to again.",
    ),
    is_last_resort=True,
)  # fmt: skip
CLOSE: Final = Act(
    operations.CLOSE, Event.CLOSE, "Close the collaboration",
    happens=("The collaboration ends. Its ledger and its report stay.",),
    forever=(
        "The analyst's copies of uplinks and downlinks are erased.",
        "Who has not fetched its downlink cannot fetch it any more, and no late consumer can join.",
    ),
    is_last_resort=True,
)  # fmt: skip
ACTS: Final[Mapping[str, Act]] = {act.name: act for act in (SEAL, RESUME, RELEASE, EXCLUDE, CANCEL, CLOSE)}
_OF_ONE_PARTY: Final = (EXCLUDE,)


def possible(status: Status) -> list[Act]:
    """Return the acts that the state of a collaboration allows; the use case may still refuse one."""
    state, is_held = State(status["state"]), standing(status).is_held
    found = [act for act in ACTS.values() if _allows(state, act.event) and act not in _OF_ONE_PARTY]
    if not any(member["uplink"] == "received" for member in status["members"]):
        found = [act for act in found if act is not SEAL]
    computes = state in (State.ALIGNING, State.TRAINING) and not is_held
    return [act for act in found if not (computes and act in (RELEASE, RESUME))]


def _allows(state: State, event: Event) -> bool:
    """Return whether a step, or a failure and then the step, leads on from a state."""
    fails = event is Event.CANCEL and (state, Event.FAIL) in TRANSITIONS
    return fails or (state, event) in TRANSITIONS


def can_be_excluded(status: Status, member: MemberStatus) -> bool:
    """Return whether the state of a collaboration allows to leave a member out."""
    state, is_held = State(status["state"]), standing(status).is_held
    awaited = [one for one in status["members"] if not one["late_consumer"] and not one.get("excluded")]
    allows = (
        len(awaited) > 1
        and (state, Event.EXCLUDE) in TRANSITIONS
        and (state is not State.TRAINING or is_held)
    )
    return allows and not member["late_consumer"] and not member.get("excluded")


def concerned(act: Act, status: Status) -> list[str]:
    """Return the institutions that lose something by an act, as it stands now."""
    members = [member for member in status["members"] if not member.get("excluded")]
    if act is SEAL:
        return [one["party"] for one in members if one["uplink"] != "received" and not one["late_consumer"]]
    if act is CLOSE:
        return [one["party"] for one in members if one["downlink"] != "fetched"]
    return []


def invitation_text(status: Status, address: str) -> str:
    """Return what an operator may send to the institutions once terms are published."""
    parties = ", ".join(member["party"] for member in status["members"])
    return (
        f"To {parties}\n\n"
        f'The terms of the collaboration "{status["title"]}" are published at {address}.\n\n'
        "On the machine with your table, run:\n\n"
        f"    odc round rows.csv --collaboration {status['collaboration_id']}\n\n"
        "It shows the terms and what your table finds in them, and asks before it signs. It shows what would"
        " leave and its risk, and asks before it sends. Interrupt it at any time and run it again.\n\n"
        "If you have not joined the consortium: `odc join INVITATION` first; the lead sends the file.\n"
    )
