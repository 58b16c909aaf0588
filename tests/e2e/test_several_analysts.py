"""Two analysts behind a balancer: whatever happens to one of them, the other goes on with its work."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from odc_demo.actors import free_port
from tests.harness.consortium import WAIT_S
from tests.harness.postgresql import PostgreSql, analysts_postgresql
from tests.harness.s3 import arrays_in_s3
from tests.harness.several import CUT_AFTER, NAMES, SLOW_MODEL, Several, several_analysts

ROOT = Path(__file__).parents[2]


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


@contextmanager
def real_balancer(program: str, several: Several, directory: Path) -> Iterator[int]:
    """Run HAProxy or nginx with our configuration of it, at other addresses; yield its port."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: apt install haproxy nginx libnginx-mod-stream)")
    port, (one, two) = free_port(), (each.port for each in several.analysts)
    name = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}[program]
    text = (ROOT / "deploy" / "balancer" / name).read_text()
    changes = {
        "10.0.0.11:8443": f"127.0.0.1:{one}",
        "10.0.0.12:8443": f"127.0.0.1:{two}",
        "/etc/haproxy/odc-root.pem": str(several.analysts[0].data_dir / "identity" / "root.pem"),
        "analyst.example": "localhost",
        "bind :8443": f"bind 127.0.0.1:{port}",
        "listen 8443": f"listen 127.0.0.1:{port}",
    }
    for before, after in changes.items():
        text = text.replace(before, after)
    module = Path(path).parents[1] / "lib/nginx/modules/ngx_stream_module.so"
    text = text.replace("modules/ngx_stream_module.so", str(module))
    (directory / name).write_text(text)
    here = f"daemon off; pid {directory}/pid; error_log stderr;"
    words = {
        "haproxy": ["-f", str(directory / name)],
        "nginx": ["-p", str(directory), "-c", str(directory / name), "-g", here],
    }[program]
    running = subprocess.Popen([path, *words], cwd=directory)
    try:
        deadline = time.monotonic() + WAIT_S
        while not _listens(port):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield port
    finally:
        running.terminate()
        running.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("program", ["haproxy", "nginx"])
def test_a_real_balancer_passes_tls_through_and_over_a_killed_analyst(
    several: Several, program: str, tmp_path: Path
) -> None:
    with real_balancer(program, several, tmp_path) as port:
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
