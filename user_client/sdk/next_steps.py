"""What an institution does next in a round, and waiting until that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from protocol.answers import MOVING, MemberStatus, Status
from protocol.joined_rows import JoinedRows
from protocol.messages import Acceptance, DownlinkManifest
from protocol.states import COMPUTING, ENDED, State
from runtime.waiting import look_until
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk import consumer
from user_client.sdk.answers import own_entry
from user_client.sdk.joined_rows import own_group
from user_client.sdk.session import Session
from user_client.sdk.shared_rows import is_trained
from user_client.sdk.terms import own_party
from user_client.sdk.watching import Patience

T = TypeVar("T")

Kind = Literal["accept", "anchor", "contribute", "receive", "predict", "combine", "wait", "ask", "none"]
OURS: Final[frozenset[Kind]] = frozenset({"accept", "anchor", "contribute", "receive"})
"""Steps of the round that are for us to do now."""
_LEADS_TO: Final[Mapping[Kind, State]] = {"accept": State.ENROLLING, "contribute": State.COLLECTING}
"""The state in which a round still is after such a step of ours, unless it was the last that was awaited."""
_AFTER_CANCEL: Final = (
    "the analyst has cancelled the collaboration, and erases what was sent: nothing is left to do in it."
    " Other terms come as another collaboration, which `odc round TABLE` waits for"
)
_WITHOUT_US: Final = (
    "the analyst has sealed the round without an uplink of ours, so no model comes back to us: ask the lead"
    " for another round"
)
_SHARE: Final = "odc anchor share"
_LOOKS_FOR_S: Final = 60.0
"""For so long we look with growing pauses where the analyst holds no answer until there is news."""


@dataclass(frozen=True)
class NextStep:
    """What comes next for us in one round.

    Attributes
    ----------
    kind : str
        ``wait`` for others, ``ask`` the lead, or one of our own steps; ``none`` after the end of the round.
        To ``combine`` is to predict with files of others, where rows are joined.
    words : str
        The command to run, or what is waited for.
    """

    kind: Kind
    words: str

    @property
    def awaited(self) -> str:
        """For whom or until what a step ``wait`` waits, with that preposition."""
        return self.words.removeprefix("odc ").removeprefix("wait").lstrip(", ")


def next_step(status: Status, directory: RoundDirectory) -> NextStep:
    """Return what comes next for us, by what the analyst reports and what is stored here."""
    ours, state, you = own_entry(status), status["state"], status["you"]
    if directory.holds(DownlinkManifest):
        whose = " (a model of our own answers, of odc train)" if is_trained(directory) else ""
        kind: Kind = "predict" if _joined_group(directory) is None else "combine"
        is_asked = ours is not None and f"{ours['party']}: {_SHARE}" in status.get("waiting_for", ())
        first = f"{_SHARE}, for which a late consumer waits; then " if is_asked else ""
        return NextStep(kind, f"{first}{prediction_in_words(directory)}{whose}")
    if state == State.CANCELLED:
        return NextStep("none", _AFTER_CANCEL)
    if state == State.CLOSED or ours is None or you is None:
        return NextStep("none", f"the collaboration is {state}: nothing is left to do")
    if ours.get("excluded"):
        return NextStep("none", "the analyst's operator has excluded us from this round: ask why")
    if (late := consumer.next_step(status)) is not None:
        return NextStep(_kind_of(late), late)
    return _under_way(status, ours, directory)


def prediction_in_words(directory: RoundDirectory) -> str:
    """Return how to predict with a model that has come: where rows are joined, with the parts of others."""
    group = _joined_group(directory)
    if group is None:
        return "odc predict TABLE, odc evaluate TABLE"
    others = ", ".join(group.others(own_party(directory)))
    return f"odc predict TABLE --with FILE, with a file of odc part TABLE from each of {others}"


def _joined_group(directory: RoundDirectory) -> JoinedRows | None:
    return own_group(directory) if directory.holds(Acceptance) else None


def _under_way(status: Status, ours: MemberStatus, directory: RoundDirectory) -> NextStep:
    """Return what comes next for a party that the round waits for."""
    state, asked = status["state"], status.get("waiting_for", ())
    if state == State.ENROLLING and (why := ours.get("rejected")) is not None:
        return NextStep("wait", f"odc wait, for other terms: we have rejected these ({why})")
    if state in (State.DRAFT, State.ENROLLING) and not ours["accepted"]:
        return NextStep("accept", "odc round TABLE, or one by one: odc terms show, odc terms accept")
    if f"{ours['party']}: odc anchor create" in asked:
        return NextStep("anchor", "odc anchor create")
    if state in (State.ANCHORED, State.COLLECTING) and ours["uplink"] != "received":
        return NextStep("contribute", "odc round TABLE, or odc contribute TABLE")
    is_asked_again = state in (State.FAILED, State.RELEASED) and ours["uplink"] == "receiving"
    if is_asked_again or f"{ours['party']}: odc contribute" in asked:
        return NextStep("contribute", "odc contribute")
    if state == State.RELEASED and ours["uplink"] == "received":
        return NextStep("receive", f"odc receive, then {prediction_in_words(directory)}")
    if state == State.RELEASED:
        return NextStep("none", _WITHOUT_US)
    return NextStep("wait", f"odc wait, for {_awaited(status)}")


def _kind_of(words: str) -> Kind:
    for kind in ("accept", "contribute", "receive"):
        if words.startswith((f"odc {kind}", f"odc terms {kind}")):
            return kind
    return "wait" if words.startswith("wait") else "ask"


def _awaited(status: Status) -> str:
    if status["state"] in COMPUTING:
        return "the analyst: the round is computed"
    return "; ".join(status.get("waiting_for", ())) or "the others, whom `odc status` names"


def wait_for_terms(
    session: Session, *, wait_s: float, pause: Callable[[float], None] = time.sleep
) -> list[Status]:
    """Return all collaborations, once a running one names us or after ``wait_s`` seconds."""

    def is_running(rows: list[Status]) -> bool:
        return any(row["state"] not in ENDED for row in rows)

    return _look_until(is_running, session.collaborations, None, wait_s=wait_s, pause=pause)


def _look_until(
    is_enough: Callable[[T], bool],
    look: Callable[[], T],
    seen: T | None,
    *,
    wait_s: float,
    pause: Callable[[float], None],
) -> T:
    """Return what was seen once it is enough, or after ``wait_s`` seconds; pauses grow for a minute.

    An analyst that goes away meanwhile does not end the wait, if something was ``seen`` before.
    """
    patience = Patience()

    def patient() -> T:
        nonlocal seen
        seen = look() if seen is None else patience.look(look, seen)
        return seen

    while True:
        looks_s = min(wait_s, _LOOKS_FOR_S)
        found = look_until(is_enough, patient, wait_s=looks_s, pause=pause)
        wait_s -= looks_s
        if is_enough(found):
            return found
        if wait_s <= 0:
            patience.end()
            return found


def status_after(
    session: Session, collaboration_id: str, step: NextStep, before: Status, *, wait_s: float
) -> Status:
    """Return the status after a step of ours: if others have to take theirs, once there is news.

    It is returned as it is after some seconds in any case, and if nobody has to.
    """
    watch, led_to = session.watch(collaboration_id), _LEADS_TO.get(step.kind)
    is_lead = before["you"] is not None and before["you"]["role"] == "lead"
    if led_to is None or (is_lead and led_to is State.ENROLLING):  # its line is the same when others sign
        return watch.now()
    return watch.past(led_to, wait_s=wait_s)


def wait_for_change(
    session: Session,
    directory: RoundDirectory,
    seen: Status,
    *,
    wait_s: float,
    pause: Callable[[float], None] = time.sleep,
    note: Callable[[Status], None] = lambda _status: None,
) -> Status | None:
    """Return the status once what concerns us has changed since ``seen``; None if it has not in ``wait_s``.

    It is the status of us alone, but for a lead that waits for signatures. ``note`` is told of each that is
    seen on the way.
    """
    before = next_step(seen, directory)

    def is_news(status: Status) -> bool:
        note(status)
        return _of_us(status) != _of_us(seen)

    def is_ours_now(status: Status) -> bool:
        return is_news(status) or next_step(status, directory) != before

    you = seen["you"]
    if seen["state"] != State.ENROLLING or you is None or you["role"] != "lead":
        found = session.watch(directory.collaboration_id).until(is_news, wait_s=wait_s, pause=pause)
        return found if is_news(found) else None
    # the lead's own line does not change when others sign
    look = session.round(directory.collaboration_id).status
    found = _look_until(is_ours_now, look, seen, wait_s=wait_s, pause=pause)
    return found if is_ours_now(found) else None


def _of_us(status: Status) -> tuple[str, dict[str, object]]:
    """Return the state and our own line, without what moves all the time."""
    ours: Mapping[str, object] = own_entry(status) or {}
    return status["state"], {name: value for name, value in ours.items() if name not in MOVING}
