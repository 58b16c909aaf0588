"""What a late consumer is told to do next, and when it waits."""

from __future__ import annotations

from typing import Any, cast

import pytest

from protocol.answers import Status
from user_client.sdk.answers import status_in
from user_client.sdk.consumer import is_being_aligned, next_step


def status(state: str = "released", **ours: Any) -> Status:
    entry = {
        "party": "late",
        "accepted": True,
        "anchor_ready": True,
        "uplink": "received",
        "downlink": "none",
        "late_consumer": True,
        "refused": None,
        **ours,
    }
    other = {**entry, "party": "lead", "late_consumer": False}
    return cast("Status", {"state": state, "members": [other, entry], "you": {"party": "late"}})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (status("enrolling", accepted=False), "odc terms accept"),
        (status("enrolling"), "wait for the release"),
        (status("collecting", accepted=False), "wait for the release"),
        (status(accepted=False), "odc terms accept"),
        (status(anchor_ready=False), "odc anchor share"),
        (status("collecting", uplink="none"), "wait for the release"),
        (status(uplink="none"), "odc contribute TABLE, which sends none of its rows"),
        (status(uplink="receiving"), "odc contribute TABLE"),
        (status(), "odc receive --wait"),
        (status(refused="has rank 2, not 3"), "could not align us: has rank 2, not 3"),
    ],
)
def test_a_late_consumer_is_told_its_next_step(told: Status, words: str) -> None:
    assert words in (next_step(told) or "")


@pytest.mark.parametrize(
    "told",
    [
        status(late_consumer=False),
        status(downlink="ready"),
        status("closed"),
        status_in({"state": "released", "members": [{"party": "late"}], "you": {"party": "late"}}),
        status_in({"state": "released"}),
    ],
)
def test_everybody_else_and_whoever_is_done_is_told_nothing_of_it(told: Status) -> None:
    assert next_step(told) is None


def test_it_waits_while_the_analyst_has_its_uplink_and_no_answer() -> None:
    assert is_being_aligned(status())
    for other in (
        status(late_consumer=False),
        status(uplink="none"),
        status(downlink="ready"),
        status(refused="why"),
        status("closed"),
    ):
        assert not is_being_aligned(other)
