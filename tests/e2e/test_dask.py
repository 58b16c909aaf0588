"""Whole rounds computed by workers of a Dask scheduler, some of which are killed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from ssl import create_default_context
from typing import Any, Final

import httpx
import psutil
import pytest
from distributed import Client

from analyst_server.training.progress import STAGES
from runtime.confinement import landlock_version
from tests.harness.consortium import Consortium, consortium
from tests.harness.dask import Cluster, cluster, wait_for_workers
from tests.harness.s3 import arrays_in_s3

SLOW: Final = {"kind": "mlp", "hidden_units": 512, "epochs": 100}
"""Trains for longer than it takes to kill who trains it."""
LIMIT_S: Final = 120


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("dask")
    with cluster(folder / "cluster", folder / "blobs") as made:
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, workers: Cluster) -> Iterator[Consortium]:
    with consortium(
        tmp_path_factory.mktemp("consortium"),
        "lead-hospital",
        "hospital-b",
        ODC_ANALYST_COMPUTE_URL=workers.url,
        ODC_ANALYST_BLOB_URL=workers.blob_dir.as_uri(),
    ) as found:
        yield found


def until(what: Callable[[], Any]) -> Any:
    """Wait until something is true, and return it."""
    ends = time.monotonic() + LIMIT_S
    while not (found := what()):
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)
    return found


def holder(workers: Cluster, step: str) -> psutil.Process:
    """Return the process that runs a step, once one does."""
    with Client(workers.url, set_as_default=False) as client:
        processes = client.run(os.getpid)

        def look() -> list[str]:
            running = client.processing()
            return [one for one, keys in running.items() if any(str(key).startswith(step) for key in keys)]

        return psutil.Process(processes[until(look)[0]])


def test_a_round_is_computed_by_the_workers_alone(made: Consortium, workers: Cluster) -> None:
    found = made.anchored(latent_dim=3, alignment={"method": "odc", "target": "identity"})
    made.contribute_all(found, 80)
    made.receive_all(found)
    made.wait_for_judgement(found)
    server = psutil.Process(made.analyst.server.pid)  # type: ignore[union-attr]  # it runs
    assert server.children() == []
    assert "formula (3)" in made.analyst.run("collaboration", "report", found)
    assert not list(workers.blob_dir.glob(f"{found}/work-*"))


def test_the_status_says_how_far_the_workers_are(made: Consortium, workers: Cluster) -> None:
    found = made.anchored(latent_dim=3, model=SLOW)
    made.contribute_all(found, 600)
    told = until(lambda: made.lead.round(found).status().get("computing"))
    assert told["stage"] in STAGES
    made.receive_all(found)


def test_a_round_ends_although_the_worker_that_trains_is_killed(made: Consortium, workers: Cluster) -> None:
    found = made.anchored(latent_dim=3, model=SLOW)
    made.contribute_all(found, 600)
    killed = holder(workers, "train_model")
    killed.kill()
    made.receive_all(found)
    made.wait_for_judgement(found)
    assert killed.pid not in [one.pid for one in workers.children()]


def test_a_round_ends_although_the_scheduler_is_killed_and_another_comes(
    made: Consortium, workers: Cluster
) -> None:
    found = made.anchored(latent_dim=3, model=SLOW)
    made.contribute_all(found, 600)
    holder(workers, "train_model")
    workers.kill_scheduler()
    made.wait_for(found, "sealed")
    workers.start_scheduler()
    made.receive_all(found)
    made.wait_for_judgement(found)
    log = made.log()
    assert log.count("rounds wait until they can be computed") == 1
    assert "Traceback" not in log


def test_without_a_scheduler_a_server_starts_and_its_rounds_wait(made: Consortium, workers: Cluster) -> None:
    made.wait_for_all_judgements()
    made.analyst.stop()
    workers.kill_scheduler()
    made.analyst.start()
    found = made.anchored(latent_dim=3)
    made.contribute_all(found, 80)
    until(lambda: "no Dask scheduler answers" in made.log())
    assert made.state(found) == "sealed"
    workers.start_scheduler()
    wait_for_workers(workers, 2)
    made.receive_all(found)


def test_workers_read_and_write_arrays_in_s3(tmp_path: Path) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        arrays_in_s3() as arrays,
        cluster(tmp_path / "cluster", tmp_path / "blobs", arrays=arrays) as workers,
        consortium(
            tmp_path / "consortium",
            "lead-hospital",
            "hospital-b",
            ODC_ANALYST_COMPUTE_URL=workers.url,
            **arrays,
        ) as made,
    ):
        for variable, value in arrays.items():  # for the operator's commands in this process
            patch.setenv(variable, value)
        found = made.anchored(latent_dim=3)
        made.contribute_all(found, 80)
        made.receive_all(found)
        made.wait_for_judgement(found)
        assert arrays["AWS_SECRET_ACCESS_KEY"] not in made.log() + workers.log()


def test_a_worker_that_does_not_see_the_arrays_is_named_and_no_institution(tmp_path: Path) -> None:
    if landlock_version() == 0:
        pytest.skip("without Landlock a worker reads every directory of this machine")
    elsewhere, shared = tmp_path / "elsewhere", tmp_path / "shared"
    with (
        cluster(tmp_path / "cluster", elsewhere, workers=0) as workers,
        consortium(
            tmp_path / "consortium",
            "lead-hospital",
            "hospital-b",
            ODC_ANALYST_COMPUTE_URL=workers.url,
            ODC_ANALYST_BLOB_URL=shared.as_uri(),
        ) as made,
    ):
        until(lambda: ready(made)["compute"] == "waiting")
        assert ready(made)["status"] == "ok", "uplinks are taken"
        workers.start_worker()
        wait_for_workers(workers, 1)
        until(lambda: ready(made)["compute"] == "ok")
        found = made.anchored(latent_dim=3)
        made.contribute_all(found, 80)
        until(lambda: made.state(found) == "failed")
        status = made.lead.round(found).status()
        failure = str(status["failure"])
        assert re.search(r"the compute worker 127\.0\.0\.1:\d+ does not see the arrays", failure)
        assert status["waiting_for"] == ["the analyst: odc-analyst collaboration resume"]
        assert f"does not see the arrays in {shared}: it may not be read: Permission denied" in made.log()
        workers.blob_dir = shared
        workers.workers[0].terminate()
        workers.workers[0].wait()
        workers.start_worker()
        made.analyst.run("collaboration", "resume", found)
        made.receive_all(found)
        assert "Traceback" not in made.log()


def ready(made: Consortium) -> dict[str, Any]:
    context = create_default_context(cafile=made.analyst.data_dir / "identity" / "root.pem")
    found: dict[str, Any] = httpx.get(f"{made.analyst.url}/readyz", verify=context).json()
    return found
