"""A server that may open few files: strangers never take the last one, or nobody waits for it."""

from __future__ import annotations

import contextlib
import resource
import shutil
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from odc_demo.actors import Analyst
from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.stranger import HEALTH, answer, plain, secured, until_closed

OUT_OF_FILES = "out of system resource"
LIMIT_S = 30
pytestmark = [
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process"),
    pytest.mark.skipif(shutil.which("prlimit") is None, reason="util-linux is not installed"),
]


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("files"), "lead-hospital") as found:
        yield found


def hold(made: Consortium, held: ExitStack, count: int) -> None:
    """Hold connections without a handshake, from ten addresses."""
    for index in range(count):
        with contextlib.suppress(OSError):  # turned away
            held.enter_context(plain(made.analyst, f"127.0.0.{10 + index % 10}"))


def test_the_places_of_strangers_fit_into_the_limit_on_open_files(made: Consortium) -> None:
    made.analyst.stop()
    made.analyst.prefix = ("prlimit", "--nofile=400:400")
    made.analyst.start()
    made.lead.collaborations()  # which waits until it answers
    with ExitStack() as held:
        hold(made, held, 600)
        made.contribute("lead-hospital", made.anchored(), rows(0, 40))
    assert OUT_OF_FILES not in made.log()
    assert "the limit of 400 open files allows 100 connections" in made.log()


def let_in(analyst: Analyst) -> ssl.SSLSocket:
    """Return a connection, as soon as the server has noticed that others have ended theirs."""
    ends = time.monotonic() + LIMIT_S
    while True:
        try:
            return secured(analyst)
        except ConnectionResetError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


def test_whoever_comes_when_no_file_is_left_is_turned_away_at_once(made: Consortium) -> None:
    assert made.analyst.server is not None
    server = psutil.Process(made.analyst.server.pid)
    made.lead.collaborations()
    limit = server.num_fds() + 10
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
    with ExitStack() as held:
        hold(made, held, 40)
        with contextlib.suppress(ConnectionResetError), plain(made.analyst) as line:
            until_closed(line)
        made.lead.collaborations()  # on a connection that it has
    with let_in(made.analyst) as line:
        line.sendall(HEALTH)
        assert answer(line).startswith(b"HTTP/1.1 200")
    assert OUT_OF_FILES not in made.log()
