"""PostgreSQL or the S3 server is away during a round of two analysts, and comes back: nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pytest

from tests.harness.consortium import WAIT_S
from tests.harness.line import Distant
from tests.harness.postgresql import PostgreSql, analysts_postgresql
from tests.harness.s3 import arrays_in_s3
from tests.harness.several import CUT_AFTER, LEASE_S, SLOW_MODEL, Several, several_analysts


class Store(Protocol):
    """A server that may be away."""

    def stop(self) -> None: ...
    def start(self) -> None: ...


@dataclass
class Restarting:
    """Two analysts, and a store of theirs that is another process."""

    several: Several
    store: Store
    said: str
    """What an analyst writes into its log while the store is away."""

    def restart(self) -> None:
        """Let the store be away until an analyst has noticed, and for longer than any lease."""
        noticed = self.several.logs().count(self.said)
        self.store.stop()
        deadline = time.monotonic() + WAIT_S
        while self.several.logs().count(self.said) == noticed:
            assert time.monotonic() < deadline, f"nobody has missed it:\n{self.several.logs()[-2000:]}"
            time.sleep(0.05)
        time.sleep(2 * LEASE_S)
        self.store.start()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSql]:
    with analysts_postgresql() as made:
        yield made


@pytest.fixture(scope="module", params=["postgresql", "s3"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: PostgreSql
) -> Iterator[Restarting]:
    directory = tmp_path_factory.mktemp("restarts")
    with postgres.database() as name:
        records_url = postgres.records_url(name)
        if request.param == "postgresql":
            shared = {"ODC_ANALYST_BLOB_URL": f"file://{directory / 'shared'}"}
            with several_analysts(directory, records_url, shared) as made:
                yield Restarting(made, postgres, "the analyst's database does not answer")
        else:
            with arrays_in_s3() as there, Distant.from_url(there["AWS_ENDPOINT_URL"]) as distant:
                here = {**there, "AWS_ENDPOINT_URL": distant.url}
                with several_analysts(directory, records_url, here) as made:
                    yield Restarting(made, distant, "the analyst's blob store does not answer")


@pytest.fixture
def restarting(world: Restarting) -> Iterator[Restarting]:
    yield world
    world.several.be_quiet()
    assert "Traceback" not in world.several.logs()  # it is an error that is foreseen


def test_a_store_is_restarted_in_an_upload_and_nothing_acknowledged_is_lost(restarting: Restarting) -> None:
    several = restarting.several
    found = several.consortium.anchored(latent_dim=4)
    first, second = several.consortium.names
    receipt = several.send(found, first)
    acknowledged = several.steps(found)
    several.balancer.pause_s = 0.02
    begun = threading.Event()
    several.balancer.on_bytes = lambda _server, sent: begun.set() if sent > CUT_AFTER else None
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(several.send, found, second, 1)
        assert begun.wait(WAIT_S)
        restarting.restart()
        several.balancer.pause_s = 0.0
        sending.result(WAIT_S)
    assert several.steps(found)[: len(acknowledged)] == acknowledged
    for step in ("begin uplink", "accept uplink"):
        assert several.steps(found).count(step) == 2
    several.consortium.receive_all(found)
    assert several.consortium.sessions[first].round(found).contribute() == receipt


def test_a_store_is_restarted_in_the_computation_and_the_round_ends(restarting: Restarting) -> None:
    several = restarting.several
    found = several.consortium.anchored(model=SLOW_MODEL)
    several.send_all(found, 1500)
    several.consortium.wait_for(found, "training")
    restarting.restart()
    several.consortium.receive_all(found)
    assert several.steps(found).count("release") == 1
