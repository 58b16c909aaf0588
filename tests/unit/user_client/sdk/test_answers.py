"""What an analyst answers is read only if it has the right types."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import MalformedMessageError
from user_client.sdk.answers import own_entry, report_in, status_in

SUSPICION = {"party": "hospital-b", "assumption": "orthonormal", "evidence": "is stretched", "rows": 3}


def report(**alignment: Any) -> dict[str, Any]:
    return {"state": "released", "results": {"rows": 80, "alignment": alignment}}


def test_a_report_of_another_version_may_say_less_of_the_alignment() -> None:
    for value in (report(), {"state": "released", "results": {}}, {"state": "enrolling", "results": None}):
        assert report_in(value) == value
    value = report(concordance_gap=0, party_gaps={"a": 0.1, "b": 0}, suspicions=[SUSPICION], left_out=["b"])
    assert report_in(value) == value


@pytest.mark.parametrize(
    "alignment",
    [
        {"party_gaps": {"a": 0.1}},
        {"party_gaps": {"a": "wide"}, "concordance_gap": 0.1},
        {"concordance_gap": "wide"},
        {"suspicions": {}},
        {"suspicions": ["hospital-b"]},
        {"suspicions": [{**SUSPICION, "evidence": 1}]},
        {"left_out": "b"},
    ],
)
def test_an_alignment_that_cannot_be_read_is_refused(alignment: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError, match="is this an ODC analyst"):
        report_in(report(**alignment))
    with pytest.raises(MalformedMessageError, match="is this an ODC analyst"):
        report_in({"state": "released", "results": {"alignment": [alignment]}})


def test_what_an_analyst_of_another_version_does_not_say_of_a_status_has_its_usual_value() -> None:
    found = status_in({"state": "collecting", "members": [{"party": "a"}], "you": {"party": "a"}})
    ours = own_entry(found)
    assert ours is not None
    assert (ours["accepted"], ours["uplink"], found["failure"]) == (False, "none", None)
    assert own_entry(status_in({"state": "collecting"})) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"waiting_for": [1]},
        {"members": [{"party": "a", "accepted": "yes"}]},
        {"members": [{"party": "a", "late_consumer": True, "refused": 1}]},
        {"members": ["a"]},
        {"you": {"party": 1}},
        {"you": {}},
        {"computing": {"stage": "training", "of": 3}},
    ],
)
def test_a_status_that_cannot_be_read_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError, match="is this an ODC analyst"):
        status_in({"state": "collecting", **changed})
