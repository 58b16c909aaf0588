from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from benchmarks.abuse import campaign, members
from benchmarks.abuse.attacks import ATTACKS
from benchmarks.abuse.watch import PATIENCE_S, Watch

STALL_S = 0.6


@pytest.fixture
def address() -> Iterator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening, listening.getsockname()[1]


def _ask(port: int, patience_s: float) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), patience_s) as line:
            return line.recv(8) == b"healthy"
    except OSError:
        return False


def test_a_server_that_stalls_is_asked_all_the_while(address: tuple[socket.socket, int]) -> None:
    """It stalls for 0.6 s of a second: of 20 questions some 12 fall due meanwhile, and wait for its end."""
    listening, port = address
    is_over = threading.Event()

    def answer() -> None:
        listening.settimeout(0.05)
        time.sleep(STALL_S)
        while not is_over.is_set():
            with contextlib.suppress(TimeoutError):
                line, _ = listening.accept()
                with line:
                    line.sendall(b"healthy")

    server = threading.Thread(target=answer)
    server.start()
    watch = Watch(lambda patience_s: _ask(port, patience_s), os.getpid(), poll_s=0.05)
    watch.for_seconds(1.0)
    is_over.set()
    server.join()
    assert len(watch.waits_s) >= 15
    slow = [wait for wait in watch.waits_s if wait > 0.1]
    assert len(slow) >= 8  # one, if the next were asked after the answer
    assert max(watch.waits_s) > STALL_S - 0.1
    assert np.percentile(watch.waits_s, 99) > STALL_S - 0.2


def test_a_question_without_an_answer_counts_as_all_of_our_patience(
    address: tuple[socket.socket, int],
) -> None:
    watch = Watch(lambda patience_s: _ask(address[1], patience_s), os.getpid(), patience_s=0.3)
    watch.for_seconds(0.25)
    assert len(watch.waits_s) >= 2
    assert min(watch.waits_s) >= 0.3


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells the peak of another process")
def test_the_peak_of_memory_is_seen_though_it_is_over_before_anybody_looks() -> None:
    code = "import sys; x = bytearray(200 << 20); del x; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watch = Watch(lambda _: True, process.pid)
        watch.for_seconds(0.1)
        process.communicate()
    assert watch.peak_mib > 200


def test_under_every_attack_at_once_the_rounds_end_and_health_is_answered(tmp_path: Path) -> None:
    """Counts alone: times and memory are the claims of the benchmark, on a machine that does nothing else."""
    found = campaign.measure(tmp_path, 20)
    tried = {row["attack"]: row["tried"] for row in found.rows if "attack" in row}
    assert set(tried) == {*ATTACKS, *members.ATTACKS}
    assert min(tried.values()) > 0
    (rounds,) = (row for row in found.rows if "rounds" in row)
    assert rounds["rounds"] >= 2
    assert rounds["why"] == []
    (abused,) = (row for row in found.rows if row.get("server") == "abused")
    assert abused["questions"] > 0
    assert abused["longest_ms"] < 1000 * PATIENCE_S  # each was answered, however late
    claims = {claim.id: claim for claim in found.claims}
    assert set(claims) == {"abuse_health_p99_s", "abuse_rss_growth_mb", "abuse_rounds_failed"}
    assert claims["abuse_rounds_failed"].holds
