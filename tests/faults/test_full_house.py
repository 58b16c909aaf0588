"""Strangers who hold connections, and one member who holds too many: everybody else comes in all the same."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from tests.harness.consortium import Consortium, consortium, rows
from tests.harness.stranger import HEALTH, answer, is_closed, plain, secured, trust
from user_client.custody.home import Home

PER_ADDRESS, STRANGERS, PER_CERTIFICATE = 10, 20, 5
SETTINGS = {
    "ODC_ANALYST_MAX_CONNECTIONS": "200",
    "ODC_ANALYST_MAX_STRANGERS": str(STRANGERS),
    "ODC_ANALYST_MAX_STRANGERS_PER_ADDRESS": str(PER_ADDRESS),
    "ODC_ANALYST_MAX_CONNECTIONS_PER_CERTIFICATE": str(PER_CERTIFICATE),
}
CONNECT = {"in the handshake": plain, "idle": secured, "half a head": secured}
SAID = {"in the handshake": b"\x16", "idle": HEALTH, "half a head": HEALTH[:20]}
STATUS = b"GET /v1/collaborations HTTP/1.1\r\nhost: analyst\r\n\r\n"


@pytest.fixture(scope="module", params=["auto", "transport"])
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Consortium]:
    directory = tmp_path_factory.mktemp("house")
    settings = {**SETTINGS, "ODC_ANALYST_COUNTER": request.param}
    with consortium(directory, "lead-hospital", "hospital-b", **settings) as found:
        yield found


def open_files(made: Consortium) -> int:
    assert made.analyst.server is not None
    return int(psutil.Process(made.analyst.server.pid).num_fds())


def shown(home: Home, made: Consortium) -> ssl.SSLContext:
    return trust(made.analyst, (home.certificate_path, home.key_path))


def assert_healthy(made: Consortium) -> None:
    """Ask from an address of its own."""
    with secured(made.analyst, "127.0.0.9") as line:
        line.sendall(HEALTH)
        assert answer(line).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("addresses", [1, 5])
@pytest.mark.parametrize("way", CONNECT)
def test_strangers_who_hold_connections_keep_nobody_out(made: Consortium, addresses: int, way: str) -> None:
    before = open_files(made)
    with ExitStack() as held:
        lines = []
        for index in range(60):
            source = f"127.0.0.{2 + index % addresses}"
            try:
                line = held.enter_context(
                    (plain if way == "in the handshake" else secured)(made.analyst, source)
                )
                line.sendall(
                    b"\x16" if way == "in the handshake" else HEALTH[:20] if way == "half a head" else b""
                )
            except OSError:  # turned away at once
                continue
            lines.append(line)
        assert_healthy(made)
        kept = [line for line in lines if not is_closed(line)]
        assert 0 < len(kept) <= min(STRANGERS, PER_ADDRESS * addresses)
        assert open_files(made) - before <= 2 * STRANGERS + 8
        made.contribute("lead-hospital", made.anchored(), rows(0, 40))


def test_one_certificate_has_so_many_connections_and_the_next_is_told_when_to_come_back(
    made: Consortium,
) -> None:
    context = shown(made.sessions["hospital-b"].home, made)
    with ExitStack() as held:
        busy = []
        for _ in range(PER_CERTIFICATE):  # each with an upload that does not go on
            line = held.enter_context(secured(made.analyst, context=context))
            line.sendall(b"POST /v1/collaborations/" + b"0" * 32 + b"/uplinks HTTP/1.1\r\nhost: a\r\n")
            line.sendall(b"content-type: application/vnd.odc.v1+msgpack\r\ncontent-length: 9\r\n")
            line.sendall(b"expect: 100-continue\r\n\r\n")
            assert line.recv(100).startswith(b"HTTP/1.1 100")
            busy.append(line)
        with secured(made.analyst, context=context) as line:
            line.sendall(STATUS)
            told = answer(line).lower()
            assert told.startswith(b"http/1.1 429")
            assert b"retry-after: 5" in told
            assert b"/problems/too-many-requests" in told
        assert not any(map(is_closed, busy))
        made.lead.collaborations()


def test_a_member_over_its_connections_leaves_the_others_alone(made: Consortium) -> None:
    context = shown(made.sessions["hospital-b"].home, made)
    with ExitStack() as held:
        lines = [
            held.enter_context(secured(made.analyst, context=context)) for _ in range(4 * PER_CERTIFICATE)
        ]
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(STATUS)
        made.lead.collaborations()
        assert_healthy(made)
        assert sum(not is_closed(line) for line in lines) <= PER_CERTIFICATE + PER_ADDRESS
