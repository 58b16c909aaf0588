"""A killed server's round is taken up by the next one at once, whatever its lease and the clocks say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.harness.consortium import Consortium, consortium

HOUR_S = 3600
SLOW_MODEL = {"kind": "mlp", "hidden_units": 1024, "epochs": 150, "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """A lease of an hour is also what one of ten seconds looks like to a clock that was set back."""
    directory = tmp_path_factory.mktemp("leases")
    with consortium(directory, "lead-hospital", "hospital-b", ODC_ANALYST_LEASE_S=str(HOUR_S)) as found:
        yield found


@pytest.fixture(autouse=True)
def judge_nothing(made: Consortium) -> Iterator[None]:
    """No test waits until a model of the one before is judged."""
    yield
    made.close_all()


def test_a_killed_servers_round_is_taken_up_at_once(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    made.analyst.kill()
    made.analyst.start()
    made.receive_all(found)


def test_a_killed_servers_round_can_be_resumed_and_cancelled_while_no_server_runs(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    made.analyst.kill()
    made.analyst.run("collaboration", "resume", found)
    made.analyst.run("collaboration", "cancel", found, "--yes")
    assert made.state(found) == "cancelled"
    made.analyst.start()


def test_no_lock_of_an_ended_worker_stays(made: Consortium) -> None:
    made.analyst.stop()
    made.analyst.start()
    deadline = time.monotonic() + 30
    while len(list((made.analyst.data_dir / "workers").iterdir())) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
