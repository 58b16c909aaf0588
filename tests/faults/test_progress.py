"""How far a real training is, as the institutions, the operator and the pages see it; over a kill as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from analyst_server.services import views
from runtime.standing import progress_words
from tests.harness.consortium import WAIT_S, Consortium, consortium
from tests.harness.processes import compute_processes

SLOW_MODEL = {"kind": "mlp", "hidden_units": 1024, "epochs": 400, "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("progress"), "lead-hospital", "hospital-b") as found:
        yield found


def until_counted(made: Consortium, found: str, least: int) -> dict[str, Any]:
    """Return the status once so many epochs are done."""
    deadline = time.monotonic() + WAIT_S
    while True:
        status: Any = made.sessions["hospital-b"].round(found).status()
        assert status["state"] != "released", "the training was over before it said how far it is"
        if status.get("computing", {}).get("done", -1) >= least:
            return dict(status)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_status_says_how_far_the_training_is_and_begins_again_after_a_kill(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 6000)
    first = until_counted(made, found, 1)["computing"]
    assert (first["stage"], first["of"], first["unit"]) == ("training", 400, "epochs")
    second = until_counted(made, found, first["done"] + 2)
    assert second["computing"]["at"] >= first["at"]
    by_command = made.analyst.run("collaboration", "show", found)
    assert "now training: " in by_command
    shown = made.institution("hospital-b").odc("status")
    (row,) = [one for one in shown["collaborations"] if one["collaboration_id"] == found]
    assert row["computing"]["of"] == 400
    assert (progress_words(second) or "").endswith(" of 400 epochs")  # type: ignore[arg-type]  # as it came

    reached = second["computing"]["done"]
    first_ones = compute_processes(made)
    for child in first_ones:
        child.kill()
    wait_until(lambda: as_the_operator_sees_it(made, found).get("computing", {}).get("done", 0) < reached)
    wait_until(lambda: set(compute_processes(made)) - set(first_ones) != set())
    for child in compute_processes(made):
        child.kill()
    wait_until(lambda: as_the_operator_sees_it(made, found)["state"] == "failed")
    assert "computing" not in as_the_operator_sees_it(made, found)


def as_the_operator_sees_it(made: Consortium, found: str) -> dict[str, Any]:
    with made.operator() as opened:
        return dict(views.status(opened, None, found))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
