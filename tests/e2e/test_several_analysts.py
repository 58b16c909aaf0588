"""Two analysts behind a balancer: whatever happens to one of them, the other goes on with its work."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odc_demo.actors import free_port
from tests.harness.consortium import WAIT_S
from tests.harness.postgresql import PostgreSql, analysts_postgresql
from tests.harness.real_balancer import real_balancer
from tests.harness.s3 import arrays_in_s3
from tests.harness.several import CUT_AFTER, NAMES, SLOW_MODEL, Several, several_analysts

CONFIGURATIONS = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSql]:
    with analysts_postgresql() as made:
        yield made


@pytest.fixture(scope="module", params=["directory", "s3"])
def blobs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Where both analysts have their arrays."""
    if request.param == "directory":
        yield {"ODC_ANALYST_BLOB_URL": f"file://{tmp_path_factory.mktemp('shared')}"}
        return
    with arrays_in_s3() as environment:
        yield environment


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgreSql, blobs: dict[str, str]
) -> Iterator[Several]:
    with (
        postgres.database() as name,
        several_analysts(tmp_path_factory.mktemp("several"), postgres.records_url(name), blobs) as made,
    ):
        yield made


@pytest.fixture
def several(world: Several) -> Iterator[Several]:
    """Both analysts run, and the balancer does nothing but balance."""
    yield world
    world.be_quiet()


def test_a_round_is_played_while_each_connection_goes_to_another_analyst(several: Several) -> None:
    found = several.consortium.anchored(latent_dim=4)
    several.balancer.cut_after = CUT_AFTER
    several.send_all(found)
    assert len(several.balancer.served) > 2 * len(NAMES)
    assert set(several.balancer.served) == {one.port for one in several.analysts}
    several.balancer.cut_after = None
    several.consortium.receive_all(found)
    several.consortium.wait_for_judgement(found)
    assert several.steps(found).count("begin uplink") == len(NAMES)


def test_an_analyst_is_killed_in_an_upload_and_nothing_acknowledged_is_lost(several: Several) -> None:
    found = several.consortium.anchored(latent_dim=4)
    several.balancer.pause_s = 0.002
    killed = list[int]()

    def kill_once(server: int, sent: int) -> None:
        if sent > CUT_AFTER and not killed:
            killed.append(server)
            several.at(server).kill()

    several.balancer.on_bytes = kill_once
    several.send_all(found)
    assert killed
    assert several.at(killed[0]).server is None
    several.balancer.pause_s = 0.0
    several.consortium.receive_all(found)


def test_an_analyst_is_killed_in_training_and_the_other_ends_the_round(several: Several) -> None:
    found = several.consortium.anchored(model=SLOW_MODEL)
    several.send_all(found, 1500)
    several.consortium.wait_for(found, "training")
    several.holder(found).kill()
    several.consortium.receive_all(found)
    assert several.steps(found).count("release") == 1


def test_analysts_are_restarted_one_after_the_other_while_institutions_send(several: Several) -> None:
    found = several.consortium.anchored(latent_dim=4)
    several.balancer.pause_s = 0.01
    begun = threading.Event()
    several.balancer.on_bytes = lambda _server, sent: begun.set() if sent > CUT_AFTER else None
    with ThreadPoolExecutor(len(NAMES)) as threads:
        sending = [threads.submit(several.send, found, name, seed) for seed, name in enumerate(NAMES)]
        assert begun.wait(WAIT_S)
        for one in several.analysts:
            one.stop()
            one.start()
        several.balancer.pause_s = 0.0
        for each in sending:
            assert each.result(WAIT_S)
    several.consortium.receive_all(found)
    assert several.steps(found).count("accept uplink") == len(NAMES)


def test_an_analyst_that_sleeps_beyond_its_lease_publishes_nothing_when_it_wakes(several: Several) -> None:
    found = several.consortium.anchored(model=SLOW_MODEL)
    several.send_all(found, 1500)
    several.consortium.wait_for(found, "training")
    sleeper = several.holder(found)
    assert sleeper.server is not None
    os.kill(sleeper.server.pid, signal.SIGSTOP)
    try:
        (awake,) = [one for one in several.analysts if one is not sleeper]
        for name in several.consortium.names:  # a sleeper takes connections, and answers none
            several.consortium.go_through(name, awake.port)
        several.consortium.receive_all(found)
        several.consortium.wait_for_judgement(found)
        before = several.consortium.records()
    finally:
        os.kill(sleeper.server.pid, signal.SIGCONT)
    told = "another worker has taken this round up"
    deadline = time.monotonic() + WAIT_S
    while told not in sleeper.log_path.read_text():
        assert time.monotonic() < deadline, sleeper.log_path.read_text()[-2000:]
        time.sleep(0.05)
    assert several.consortium.records() == before
    several.consortium.receive_all(found)
    assert several.steps(found).count("release") == 1
    for name in several.consortium.names:
        several.consortium.go_through(name, several.balancer.port)


@pytest.mark.parametrize("program", ["haproxy", "nginx"])
def test_a_real_balancer_passes_tls_through_and_over_a_killed_analyst(
    several: Several, program: str, tmp_path: Path
) -> None:
    configuration, port = CONFIGURATIONS[program], free_port()
    with real_balancer(program, configuration, several.addresses(port), tmp_path, port):
        for name in several.consortium.names:
            several.consortium.go_through(name, port)
        try:
            found = several.consortium.anchored(latent_dim=4)
            first, *others = several.consortium.names
            several.send(found, first, 0, 80)
            several.analysts[0].kill()
            for seed, name in enumerate(others, start=1):
                several.send(found, name, seed, 80)
            several.consortium.receive_all(found)
        finally:
            for name in several.consortium.names:
                several.consortium.go_through(name, several.balancer.port)
