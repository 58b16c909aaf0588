"""Processes that are taken away without a word, at every step: the round ends well all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest

from odc_demo.actors import CommandError
from protocol.errors import RoundFailedError
from tests.harness.consortium import WAIT_S, Consortium, consortium, refused, rows
from tests.harness.line import line
from tests.harness.processes import compute_processes

MIB = 2**20
LARGE = {"features": 20, "latent_dim": 20, "anchor": {"kind": "haar", "rows": 20}}
SLOW_MODEL = {"kind": "mlp", "hidden_units": 1024, "epochs": 150, "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("killed"), "lead-hospital", "hospital-b") as found:
        yield found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose uplink is 80 bytes a row: seven chunks of a mebibyte."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    pyarrow.parquet.write_table(rows(3, 85_000, features=20), path)
    return path


@pytest.fixture(autouse=True)
def put_in_order(made: Consortium) -> Iterator[None]:
    """Whatever became of a test, the next one finds a server with nothing to do, and a straight line."""
    yield
    if made.analyst.server is None:
        made.analyst.start()
    made.close_all()
    made.go_through("hospital-b", made.analyst.port)


def kill_and_restart(made: Consortium) -> None:
    made.analyst.kill()
    made.analyst.start()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


def arrived_bytes(made: Consortium, collaboration_id: str) -> int:
    """What lies at the analyst of uploads that are not complete."""
    parts = (made.analyst.data_dir / "blobs" / collaboration_id / "uplinks").glob("*[0-9a-f].part")
    return sum(path.stat().st_size for path in parts)


def contribute_last(made: Consortium, found: str) -> None:
    made.contribute("hospital-b", found, rows(1, 40))
    made.wait_for_judgement(found)


def test_the_analyst_may_be_killed_between_any_two_steps(made: Consortium) -> None:
    found = made.publish()
    lead, b = made.sessions.values()
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("enrolling", lambda: lead.round(found).accept()),
        ("enrolling", lambda: b.round(found).accept()),
        ("anchored", lambda: lead.round(found).create_anchor()),
        ("collecting", lambda: made.contribute("lead-hospital", found, rows(0, 40))),
        (
            "released",
            lambda: contribute_last(made, found),
        ),
        ("released", lambda: lead.round(found).receive()),
    ]
    for state, step in steps:
        kill_and_restart(made)
        step()
        assert made.state(found) == state
        records = made.records()
        made.analyst.kill()
        assert made.records() == records  # what was answered is on the disk
        made.analyst.start()
    made.receive_all(found)


@pytest.mark.parametrize("states", [("aligning", "training"), ("training",)], ids=["at once", "training"])
def test_the_analyst_may_be_killed_while_it_computes(made: Consortium, states: tuple[str, ...]) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, *states)  # a process that has loaded its libraries aligns in milliseconds
    kill_and_restart(made)
    made.receive_all(found)
    made.close_all()  # what is judged until then is not looked at
    events = [entry["event"] for entry in made.records()["ledger"] if entry["collaboration_id"] == found]
    assert events.count("resume") >= 1
    assert events.count("release") == 1


def test_the_analyst_may_be_stopped_while_it_computes(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    server = psutil.Process(made.analyst.server.pid)  # type: ignore[union-attr]  # it runs
    children = server.children(recursive=True)
    for session in made.sessions.values():
        session.close()  # a server that goes down waits some seconds for lines that are open
    made.analyst.stop()
    assert made.state(found) == "sealed"  # handed back, so that nobody waits for its lease
    psutil.wait_procs(children, timeout=60)
    assert not [child for child in children if child.is_running()]
    made.analyst.start()
    made.receive_all(found)


def test_a_killed_analyst_leaves_no_compute_process_behind(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    children = psutil.Process(made.analyst.server.pid).children(recursive=True)  # type: ignore[union-attr]
    made.analyst.kill()
    psutil.wait_procs(children, timeout=60)
    assert not [child for child in children if child.is_running()]
    made.analyst.start()
    made.receive_all(found)


def test_an_analyst_killed_during_an_upload_keeps_what_arrived(made: Consortium, large: Path) -> None:
    found = made.anchored(**LARGE)
    made.sessions["hospital-b"].round(found).prepare(large)
    with line(made.analyst.port, up_bytes_per_s=8 * MIB) as slow:
        made.go_through("hospital-b", slow.port)
        done: list[Any] = []
        sending = threading.Thread(
            target=lambda: done.append(made.sessions["hospital-b"].round(found).contribute())
        )
        sending.start()
        try:
            wait_until(lambda: arrived_bytes(made, found) >= 2 * MIB, "the upload")
        finally:
            made.analyst.kill()
            kept = arrived_bytes(made, found)
            made.analyst.start()
            sending.join(timeout=WAIT_S)
        assert kept >= 2 * MIB
        assert done, "the upload did not end"
        made.go_through("hospital-b", made.analyst.port)
    made.contribute("lead-hospital", found, rows(0, 40, features=20))
    made.wait_for(found, "released")
    assert made.sessions["hospital-b"].round(found).receive().uplink_digest == done[0].uplink_digest


def test_a_killed_contribute_goes_on_when_it_is_run_again(made: Consortium, large: Path) -> None:
    found = made.anchored(**LARGE)
    with line(made.analyst.port, up_bytes_per_s=8 * MIB) as slow:
        made.go_through("hospital-b", slow.port)
        process = made.institution("hospital-b").start("contribute", "--yes", str(large), "-c", found)
        try:
            wait_until(lambda: arrived_bytes(made, found) >= 2 * MIB, "the upload")
        finally:
            process.kill()
            process.communicate(timeout=60)
    basis = made.sessions["hospital-b"].home.collaboration(found) / "basis.npy"
    first = basis.read_bytes()
    made.go_through("hospital-b", made.analyst.port)
    before = arrived_bytes(made, found)
    assert before >= 2 * MIB
    done = made.institution("hospital-b").odc("contribute", "--yes", str(large), "-c", found)
    assert done["payload_bytes"] > 6 * MIB
    assert basis.read_bytes() == first
    sent = [row for row in made.records()["uplinks"] if row["collaboration_id"] == found]
    assert len(sent) == 1  # the same upload, not another
    made.contribute("lead-hospital", found, rows(0, 40, features=20))
    made.wait_for(found, "released")
    made.sessions["hospital-b"].round(found).receive()
    assert len(made.sessions["hospital-b"].round(found).predict(rows(5, 9, features=20)).labels) == 9


def test_what_a_cancelled_round_computes_is_ended(made: Consortium) -> None:
    found = made.anchored(model={**SLOW_MODEL, "epochs": 10_000})
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    computing = compute_processes(made)
    made.analyst.run("collaboration", "cancel", found, "--yes")
    _, alive = psutil.wait_procs(computing, timeout=WAIT_S)
    assert computing
    assert not alive
    events = [entry["event"] for entry in made.records()["ledger"] if entry["collaboration_id"] == found]
    assert events[-2:] == ["fail", "cancel"]


def test_a_model_is_judged_no_longer_once_its_round_is_closed(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.receive_all(found)
    judging = compute_processes(made)
    made.analyst.run("collaboration", "close", found, "--yes")
    _, alive = psutil.wait_procs(judging, timeout=WAIT_S)  # they would wait for the next round
    assert judging
    assert not alive


def test_a_compute_process_that_is_killed_once_costs_nobody_anything(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    computing = compute_processes(made)
    for child in computing:
        child.kill()
    assert computing
    made.receive_all(found)
    assert "its step is run once more" in made.log()


def test_a_compute_process_killed_twice_fails_the_round_and_resume_finishes_it(made: Consortium) -> None:
    found = made.anchored(model=SLOW_MODEL)
    made.contribute_all(found, 1500)
    made.wait_for(found, "training")
    first = compute_processes(made)
    for child in first:
        child.kill()
    wait_until(lambda: set(compute_processes(made)) - set(first) != set(), "another process")
    for child in compute_processes(made):
        child.kill()
    assert first
    made.wait_for(found, "failed")
    with refused(made, RoundFailedError, exit_code=6, says="a compute process ended unexpectedly"):
        made.sessions["hospital-b"].round(found).receive()
    assert made.sessions["hospital-b"].round(found).status()["waiting_for"] == [
        "the analyst: odc-analyst collaboration resume"
    ]
    made.analyst.run("collaboration", "resume", found)
    made.receive_all(found)


def test_a_round_without_one_class_fails_with_a_reason_and_can_be_cancelled(made: Consortium) -> None:
    found, before = made.anchored(), len(made.log())  # a compute process of a killed server may say so there
    for seed, name in enumerate(made.names):
        table = rows(seed, 60)
        kept = table.filter(pa.compute.equal(table.column("label"), "yes"))
        made.contribute(name, found, kept)
    made.wait_for(found, "failed")
    with pytest.raises(CommandError) as caught:
        made.institution("hospital-b").odc("receive", "-c", found)
    assert caught.value.exit_code == 6
    why = "training needs rows of every class; none of the class no came: cancel the collaboration"
    assert why in caught.value.stderr
    assert f"odc: hint: {RoundFailedError.hint}" in caught.value.stderr
    assert "Traceback" not in made.log()[before:]
    made.analyst.run("collaboration", "cancel", found, "--yes")
    status = made.sessions["hospital-b"].round(found).status()
    assert (status["state"], status["waiting_for"]) == ("cancelled", [])
