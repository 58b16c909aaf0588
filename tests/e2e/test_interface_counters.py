"""Our report of the bytes of a round against what the interfaces counted, with nothing else on the line.

The analyst and every institution are machines of their own: network namespaces. Frames carry headers of
Ethernet, IP and TCP, which the kernel's count of a connection does not have; `odc_demo.namespaces`
says which, and taking them off leaves what TCP carried.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.csv
import pytest

from metering.explanation import PartyExplanation
from odc_demo.namespaces import (
    ANALYST_ADDRESS,
    Counters,
    Machine,
    star,
    why_not,
)
from tests.harness.consortium import consortium_on_machines, rows
from user_client.sdk import Session

NAMES = ("lead-hospital", "hospital-b")
FEATURES, LATENT_DIM, ROWS = 40, 30, 4000
TOLERANCE = 0.001
"""What the meter may miss: the alert that closes a connection comes when nobody looks any more."""


TRIES = 5
"""A busy machine may be late to acknowledge, and TCP then sends a segment again: counted, but not ours."""


def skip_without_namespaces() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(f"no network namespaces here: {reason}")


@dataclass(frozen=True)
class Measured:
    """One round, as the lines, the institutions and the analyst counted it."""

    lines: dict[str, Counters]
    institutions: dict[str, PartyExplanation]
    analyst: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    skip_without_namespaces()
    directory = tmp_path_factory.mktemp("lines")
    with star(NAMES) as net, consortium_on_machines(directory, net) as made:
        found = made.publish(features=FEATURES, latent_dim=LATENT_DIM)
        for seed, session in enumerate(made.sessions.values()):
            pyarrow.csv.write_csv(rows(seed, ROWS, features=FEATURES), session.home.path / "rows.csv")
        made.play_by_command(found, "rows.csv")
        made.analyst.stop()  # it writes the last of its count
        report = json.loads(made.analyst.run("collaboration", "report", found, "--json"))
        yield Measured(
            {name: machine.counters() for name, machine in net.parties.items()},
            {name: _own_count(session, found) for name, session in made.sessions.items()},
            {row["party"]: row for row in report["wire"]["parties"]},
        )


def _own_count(session: Session, collaboration_id: str) -> PartyExplanation:
    found = session.round(collaboration_id).explain_bytes()
    assert found is not None
    assert found.counter == "kernel"
    return found.parties[0]


def _repeated(row: dict[str, Any]) -> int:
    """What TCP repeated towards an institution, which only the analyst's kernel knows."""
    kinds = ("uplink", "downlink", "anchor", "control", "membership")
    return sum(int(row[kind]["retransmitted_bytes"]) for kind in kinds)


@pytest.mark.parametrize("name", NAMES)
def test_an_institution_counts_what_its_interface_counts(measured: Measured, name: str) -> None:
    ours = measured.institutions[name].total.measured_bytes + _repeated(measured.analyst[name])
    assert ours == pytest.approx(measured.lines[name].tcp_payload_bytes, rel=TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_the_analyst_counts_what_the_interface_counts(measured: Measured, name: str) -> None:
    row, own = measured.analyst[name], measured.institutions[name].total
    counted = row["total"]["measured_bytes"] + own.retransmitted_bytes
    assert counted == pytest.approx(measured.lines[name].tcp_payload_bytes, rel=TOLERANCE)


def test_bytes_are_counted_one_by_one_once_the_headers_are_off() -> None:
    skip_without_namespaces()
    sent_bytes, answered_bytes = 1_234_567, 54_321
    for _ in range(TRIES):
        with star(["one", "other"]) as net:
            _exchange(net.analyst, net.parties["one"], sent_bytes, answered_bytes)
            one, other = (machine.counters() for machine in net.parties.values())
            if not (one.repeated_segments or net.analyst.repeated_segments()):
                break
    assert (one.sent_payload_bytes, one.received_payload_bytes) == (sent_bytes, answered_bytes)
    assert other.bytes == 0


_SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 5000)) as server:
    print("listening", flush=True)
    line, _ = server.accept()
    with line:
        while line.recv(2**16):
            pass
        line.sendall(bytes(int(sys.argv[2])))
"""
_ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as line:
    line.sendall(bytes(int(sys.argv[2])))
    line.shutdown(socket.SHUT_WR)
    while line.recv(2**16):
        pass
"""


def _exchange(analyst: Machine, party: Machine, sent_bytes: int, answered_bytes: int) -> None:
    """Send so many bytes over one connection and get so many back."""
    serve = [*analyst.prefix, sys.executable, "-c", _SERVE, ANALYST_ADDRESS, str(answered_bytes)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        party.run(sys.executable, "-c", _ASK, ANALYST_ADDRESS, str(sent_bytes))
        assert server.wait(timeout=60) == 0


def test_machines_are_gone_afterwards_whatever_happened() -> None:
    skip_without_namespaces()
    names: list[str] = []
    with pytest.raises(RuntimeError, match="in the middle"):
        _fail_in_the_middle(names)
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert len(names) == 2
    assert not any(name in left for name in names)


def _fail_in_the_middle(names: list[str]) -> None:
    with star(["one"]) as net:
        names += [net.analyst.namespace, net.parties["one"].namespace]
        raise RuntimeError("in the middle")
