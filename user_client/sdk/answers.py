"""What we read in the JSON answers of an analyst, checked first: an analyst may answer anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from protocol.answers import MemberReport, MemberStatus, Status
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
    "accepted": (bool,),
    "anchor_ready": (bool,),
    "uplink": (str,),
    "downlink": (str,),
    "late_consumer": (bool,),
    "refused": (str, _NONE),
    "rejected": (str, _NONE),
    "excluded": (bool,),
    "suspected": (dict,),
    "left_out": (bool,),
}
_UNSAID: Final[Mapping[str, Any]] = {"members": [], "failure": None, "you": None}
_UNSAID_OF_A_MEMBER: Final[Mapping[str, Any]] = {
    "accepted": False,
    "anchor_ready": False,
    "uplink": "none",
    "downlink": "none",
    "late_consumer": False,
    "refused": None,
}
"""What is read of a status, and of a member in it, where an analyst of another version does not say."""
_YOU: Final[Mapping[str, tuple[type, ...]]] = {"party": (str,), "role": (str,)}
_SUSPECTED: Final[Mapping[str, tuple[type, ...]]] = {"assumption": (str,), "evidence": (str,)}
_REPORT: Final[Mapping[str, tuple[type, ...]]] = {
    "state": (str,),
    "results": (dict, _NONE),
    "member_scores": (list,),
    "parties": (list,),
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
    found = {**_UNSAID, **_with("status", value, _STATUS, needed=("state",))}
    found["members"] = [_member_in(member) for member in found["members"]]
    if not all(isinstance(item, str) for item in found.get("waiting_for", ())):
        raise MalformedMessageError("status", "has no waiting_for that can be read; is this an ODC analyst?")
    if "computing" in found:
        counts = ("done", "of", "unit") if "of" in found["computing"] else ()
        _with("status", found["computing"], _COMPUTING, needed=("stage", *counts))
    if (you := found["you"]) is not None:
        found["you"] = {"role": "institution", **_with("status", you, _YOU, needed=("party",))}
    return cast("Status", found)


def _member_in(value: object) -> dict[str, Any]:
    found = {**_UNSAID_OF_A_MEMBER, **_with("status", value, _MEMBER, needed=("party",))}
    if found.get("suspected"):
        _with("status", found["suspected"], _SUSPECTED, needed=_SUSPECTED)
    return found


def statuses_in(value: object) -> list[Status]:
    """Return the list of collaborations in an answer; raises `MalformedMessageError`."""
    if not isinstance(value, list):
        raise MalformedMessageError("answer", "lists no collaborations; is this an ODC analyst?")
    for row in value:
        _with("answer", row, _STATUS, needed=("collaboration_id", "title"))
    return [status_in(row) for row in value]


def own_entry(status: Status) -> MemberStatus | None:
    """Return what the analyst says of us in a round; None if we are none of its members."""
    you = status["you"]
    return next((each for each in status["members"] if you and each["party"] == you["party"]), None)


def report_in(value: object) -> MemberReport:
    """Return the report of a collaboration in an answer; raises `MalformedMessageError`."""
    found = _with("report", value, _REPORT, needed=("state", "results"))
    for party in found.get("parties", ()):
        _with("report", party, {"party": (str,)}, needed=("party",))
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
