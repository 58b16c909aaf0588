"""What we read in the JSON answers of an analyst, checked first: an analyst may answer anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from protocol.answers import MemberReport, Status
from protocol.errors import MalformedMessageError

_NONE: Final = type(None)
_STATUS: Final[Mapping[str, tuple[type, ...]]] = {
    "state": (str,),
    "collaboration_id": (str,),
    "title": (str,),
    "members": (list,),
    "failure": (str, _NONE),
    "judging": (bool,),
    "unreadable": (bool,),
    "computing": (dict,),
    "waiting_for": (list,),
    "you": (dict, _NONE),
}
_COMPUTING: Final[Mapping[str, tuple[type, ...]]] = {
    "stage": (str,),
    "at": (int,),
    "done": (int,),
    "of": (int,),
    "unit": (str,),
}
_MEMBER: Final[Mapping[str, tuple[type, ...]]] = {
    "party": (str,),
    "late_consumer": (bool,),
    "suspected": (dict,),
    "left_out": (bool,),
}
_SUSPECTED: Final[Mapping[str, tuple[type, ...]]] = {"assumption": (str,), "evidence": (str,)}
_LATE_CONSUMER: Final[Mapping[str, tuple[type, ...]]] = {
    "accepted": (bool,),
    "anchor_ready": (bool,),
    "uplink": (str,),
    "downlink": (str,),
    "refused": (str, _NONE),
}
_REPORT: Final[Mapping[str, tuple[type, ...]]] = {
    "state": (str,),
    "results": (dict, _NONE),
    "member_scores": (list,),
}
_ALIGNMENT: Final[Mapping[str, tuple[type, ...]]] = {
    "concordance_gap": (float, int),
    "party_gaps": (dict,),
    "suspicions": (list,),
    "left_out": (list,),
}


def status_in(value: object) -> Status:
    """Return the status of a collaboration in an answer; raises `MalformedMessageError`.

    Analysts of other versions say less or more: what is there has to have the right type.
    """
    found = _with("status", value, _STATUS, needed=("state",))
    for member in found.get("members", ()):
        entry = _with("status", member, _MEMBER, needed=("party",))
        if entry.get("late_consumer"):
            _with("status", entry, _LATE_CONSUMER, needed=_LATE_CONSUMER)
        if entry.get("suspected"):
            _with("status", entry["suspected"], _SUSPECTED, needed=_SUSPECTED)
    if "computing" in found:
        counts = ("done", "of", "unit") if "of" in found["computing"] else ()
        _with("status", found["computing"], _COMPUTING, needed=("stage", *counts))
    if (you := found.get("you")) is not None:
        _with("status", you, {"party": (str,)}, needed=("party",))
    return cast("Status", found)


def statuses_in(value: object) -> list[Status]:
    """Return the list of collaborations in an answer; raises `MalformedMessageError`."""
    if not isinstance(value, list):
        raise MalformedMessageError("answer", "lists no collaborations; is this an ODC analyst?")
    for row in value:
        _with("answer", row, _STATUS, needed=("collaboration_id", "title"))
    return [status_in(row) for row in value]


def report_in(value: object) -> MemberReport:
    """Return the report of a collaboration in an answer; raises `MalformedMessageError`."""
    found = _with("report", value, _REPORT, needed=("state", "results"))
    results = _with(
        "report", found["results"] or {}, {"judgement": (dict, _NONE), "alignment": (dict,)}, needed=()
    )
    aligned = _with("report", results.get("alignment", {}), _ALIGNMENT, needed=())
    if gaps := aligned.get("party_gaps"):
        _with("report", aligned, _ALIGNMENT, needed=("concordance_gap",))
        _with("report", gaps, dict.fromkeys(gaps, (float, int)), needed=())
    for suspicion in aligned.get("suspicions", ()):
        _with("report", suspicion, {**_SUSPECTED, "party": (str,)}, needed=(*_SUSPECTED, "party"))
    return cast("MemberReport", found)


def _with(
    name: str, value: object, types: Mapping[str, tuple[type, ...]], needed: Collection[str]
) -> dict[str, Any]:
    """Return an object whose fields have these types, and that has those which are needed."""
    if not isinstance(value, dict):
        raise MalformedMessageError(name, "has no object where one belongs; is this an ODC analyst?")
    for field, allowed in types.items():
        is_there = field in value
        if (is_there and not isinstance(value[field], allowed)) or (field in needed and not is_there):
            raise MalformedMessageError(name, f"has no {field} that can be read; is this an ODC analyst?")
    return value
