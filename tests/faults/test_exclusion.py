"""An institution that the operator leaves out, by real processes: the others go on, and everybody is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst_server.services import exclusion
from protocol.errors import NotFoundError, OutOfOrderError
from protocol.states import Event
from tests.harness.consortium import consortium, rows


def test_the_others_predict_without_the_excluded_and_every_ledger_says_so(tmp_path: Path) -> None:
    names = ("lead-hospital", "hospital-b", "hospital-c")
    with consortium(tmp_path, *names) as made:
        found = made.anchored()
        made.contribute("lead-hospital", found, rows(0, 40))
        made.contribute("hospital-b", found, rows(1, 40))
        with made.operator() as opened:
            exclusion.exclude(opened, found, "hospital-b")
        made.contribute("hospital-c", found, rows(2, 40))
        made.wait_for(found, "released")
        for name in ("lead-hospital", "hospital-c"):
            made.sessions[name].round(found).receive()
            assert made.sessions[name].round(found).predict(rows(99, 10)).labels
        with pytest.raises(NotFoundError, match="operator has excluded hospital-b"):
            made.sessions["hospital-b"].round(found).receive()
        for session in made.sessions.values():
            _, ledger = session.round(found).fetch_ledger()
            (entry,) = [one for one in ledger.entries if one.event is Event.EXCLUDE]
            assert entry.party == "hospital-b"
            assert session.round(found).report()["excluded"] == ["hospital-b"]
            excluded = [one["party"] for one in session.round(found).status()["members"] if one["excluded"]]
            assert excluded == ["hospital-b"]
        with made.operator() as opened, pytest.raises(OutOfOrderError):
            exclusion.exclude(opened, found, "hospital-c")
