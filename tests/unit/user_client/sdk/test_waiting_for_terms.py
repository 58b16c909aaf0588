"""Waiting for terms: an analyst that is restarted meanwhile does not end it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from user_client.errors import ConnectionFailedError
from user_client.sdk.next_steps import wait_for_terms
from user_client.sdk.session import Session

RUNNING: list[dict[str, Any]] = [{"state": "enrolling"}]


def session_that_finds(*answers: list[dict[str, Any]] | None) -> Session:
    """Return a session whose analyst gives one answer after the other; None for no answer."""
    left: Iterator[list[dict[str, Any]] | None] = iter(answers)

    def collaborations() -> list[dict[str, Any]]:
        answer = next(left)
        if answer is None:
            raise ConnectionFailedError("refused")
        return answer

    return cast("Session", SimpleNamespace(collaborations=collaborations))


def test_an_analyst_that_goes_away_does_not_end_the_wait_for_terms() -> None:
    session = session_that_finds([], None, None, RUNNING)
    assert wait_for_terms(session, wait_s=3600, pause=lambda _: None) == RUNNING


def test_an_analyst_that_was_never_there_does() -> None:
    with pytest.raises(ConnectionFailedError):
        wait_for_terms(session_that_finds(None), wait_s=3600, pause=lambda _: None)


def test_an_analyst_that_is_away_when_the_time_is_up_is_told_of() -> None:
    pauses: list[float] = []
    with pytest.raises(ConnectionFailedError):
        wait_for_terms(session_that_finds([], *[None] * 9), wait_s=5, pause=pauses.append)
    assert sum(pauses) == 5
