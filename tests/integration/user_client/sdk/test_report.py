"""Waiting for the judgement of a model asks for the report once."""

from __future__ import annotations

import httpx
import pytest

from analyst_server.services import judging, rounds
from tests.harness.app import InProcess
from tests.harness.in_process import Consortium

OWNER, LEASE_S = "worker", 10


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are asked for from now on."""
    found: list[str] = []
    plain = InProcess.handle_request

    def note(self: InProcess, request: httpx.Request) -> httpx.Response:
        found.append(request.url.path)
        return plain(self, request)

    monkeypatch.setattr(InProcess, "handle_request", note)
    return found


def released(consortium: Consortium) -> None:
    """Release a round whose model is not judged yet."""
    consortium.until_contributed()
    assert rounds.claim(consortium.analyst, OWNER, LEASE_S) == consortium.id
    rounds.compute(consortium.analyst, consortium.id, OWNER)


def judge(consortium: Consortium) -> None:
    claimed = judging.claim(consortium.analyst, OWNER, LEASE_S)
    assert claimed is not None
    judging.compute(consortium.analyst, claimed, OWNER)


def test_who_waits_reads_the_report_once_the_model_is_judged(
    consortium: Consortium, asked: list[str]
) -> None:
    released(consortium)
    pauses: list[float] = []
    asked.clear()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            judge(consortium)

    found = consortium.hospital_round.report(wait_s=3600, pause=pause)
    assert found["results"] is not None
    assert not found["results"]["judgement"]["is_pending"]
    assert len(pauses) == 3
    assert [path for path in asked if path.endswith("/report")] == [asked[-1]]


def test_who_waits_in_vain_reads_the_report_as_it_is(consortium: Consortium) -> None:
    released(consortium)
    pauses: list[float] = []
    found = consortium.hospital_round.report(wait_s=60, pause=pauses.append)
    assert found["results"] is not None
    assert found["results"]["judgement"]["is_pending"]
    assert sum(pauses) == pytest.approx(60)


def test_an_analyst_of_an_earlier_version_is_asked_for_its_report(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = InProcess.handle_request

    def earlier(self: InProcess, request: httpx.Request) -> httpx.Response:
        answer = plain(self, request)
        if request.url.path != f"/v1/collaborations/{consortium.id}":
            return answer
        status = httpx.Response(200, headers=answer.headers, content=answer.read()).json()
        del status["judging"]
        return httpx.Response(200, json=status)

    released(consortium)
    monkeypatch.setattr(InProcess, "handle_request", earlier)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            judge(consortium)

    found = consortium.hospital_round.report(wait_s=3600, pause=pause)
    assert found["results"] is not None
    assert not found["results"]["judgement"]["is_pending"]
    assert len(pauses) == 2
