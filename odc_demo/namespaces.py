"""Network namespaces as machines: an analyst in the centre, and every party connected to it by its own line.

Linux counts the bytes on each line, and no program can bypass that. The line carries nothing else: no
address resolution (neighbours are fixed), no IPv6, no segments merged by offloading, no other party's frames.

A frame of TCP over IPv4 carries `HEADER_BYTES` besides its payload; the first frame of a connection in each
direction carries `HANDSHAKE_BYTES` more. `Counters.tcp_payload_bytes` subtracts both.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

ANALYST_ADDRESS: Final = "10.77.0.1"
ETHERNET_BYTES: Final = 14
"""Two addresses and a type; the interface does not count the checksum at the end of a frame."""
IP_BYTES: Final = 20
TCP_BYTES: Final = 20
TIMESTAMP_BYTES: Final = 12
"""The timestamp option and its padding, in every segment once both sides have offered it."""
HEADER_BYTES: Final = ETHERNET_BYTES + IP_BYTES + TCP_BYTES + TIMESTAMP_BYTES
HANDSHAKE_BYTES: Final = 8
"""Options only a SYN has: segment size (4), window scale (3) and a byte of padding."""
_LINE: Final = "line0"
_SETTINGS: Final = """
for scope in all default; do
  if [ -e /proc/sys/net/ipv6 ]; then echo 1 > /proc/sys/net/ipv6/conf/$scope/disable_ipv6; fi
done
# nothing gets lost here; a tail loss probe would only show that the machine is busy
echo 0 > /proc/sys/net/ipv4/tcp_early_retrans
# selective acknowledgements of reordered segments are options, which would make headers vary in length
echo 0 > /proc/sys/net/ipv4/tcp_sack
"""


@dataclass(frozen=True)
class Counters:
    """What one party's line carried, as counted by the party's interface and kernel."""

    sent_bytes: int
    received_bytes: int
    sent_frames: int
    received_frames: int
    connections: int
    """Connections the party opened, including refused ones."""
    refused_connections: int
    repeated_segments: int
    """Segments the party's TCP sent again. They were on the line, so the bytes include them."""

    @property
    def bytes(self) -> int:
        """Return the bytes of all frames, both directions, headers included."""
        return self.sent_bytes + self.received_bytes

    @property
    def tcp_payload_bytes(self) -> int:
        """Return the bytes of TCP payload, both directions; what was sent twice counts twice."""
        return self.sent_payload_bytes + self.received_payload_bytes

    @property
    def sent_payload_bytes(self) -> int:
        return self.sent_bytes - HEADER_BYTES * self.sent_frames - HANDSHAKE_BYTES * self.connections

    @property
    def received_payload_bytes(self) -> int:
        headers = HEADER_BYTES * self.received_frames - TIMESTAMP_BYTES * self.refused_connections
        answered = self.connections - self.refused_connections
        return self.received_bytes - headers - HANDSHAKE_BYTES * answered

    def __sub__(self, earlier: Counters) -> Counters:
        mine, theirs = vars(self), vars(earlier)
        return Counters(**{name: mine[name] - theirs[name] for name in mine})


@dataclass(frozen=True)
class Machine:
    """One namespace. A command that starts with `prefix` runs in it."""

    namespace: str

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.namespace)

    def run(self, *words: str) -> str:
        """Run a command in the namespace and return what it printed."""
        return _run(*self.prefix, *words)

    def end_processes(self) -> None:
        """Kill every process that still runs there, since child processes may outlive their parent."""
        for pid in map(int, _run("ip", "netns", "pids", self.namespace).split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def counters(self) -> Counters:
        """Read the counters of the machine's line to the analyst."""
        (line,) = json.loads(_run("ip", "-n", self.namespace, "-s", "-j", "link", "show", _LINE))
        sent, received = line["stats64"]["tx"], line["stats64"]["rx"]
        tcp = self._tcp_counters()
        return Counters(
            sent_bytes=sent["bytes"],
            received_bytes=received["bytes"],
            sent_frames=sent["packets"],
            received_frames=received["packets"],
            connections=tcp["ActiveOpens"],
            refused_connections=tcp["AttemptFails"],
            repeated_segments=tcp["RetransSegs"],
        )

    def repeated_segments(self) -> int:
        """Return the number of segments TCP has sent again from this machine."""
        return self._tcp_counters()["RetransSegs"]

    def _tcp_counters(self) -> dict[str, int]:
        """Return the two lines ``Tcp:`` of /proc/net/snmp, the names and the numbers, as a dict."""
        lines = self.run("cat", "/proc/net/snmp").splitlines()
        names, numbers = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
        return dict(zip(names, map(int, numbers), strict=True))


@dataclass(frozen=True)
class Star:
    """The analyst's machine and one per party, connected by lines."""

    analyst: Machine
    parties: dict[str, Machine]


def why_not() -> str | None:
    """Return why this system does not let us create namespaces, or None if it does."""
    if shutil.which("ip") is None:
        return "the command `ip` is not installed (Debian: apt-get install iproute2)"
    if os.geteuid() != 0:
        return "creating network namespaces needs root"
    try:
        with star(["probe"]):
            return None
    except subprocess.CalledProcessError as error:
        return f"`{' '.join(error.cmd)}` failed: {error.stderr.strip()}"


@contextmanager
def star(parties: Sequence[str]) -> Iterator[Star]:
    """Create the machines and their lines, and remove all of them afterwards, also after an error."""
    run_id = uuid.uuid4().hex[:8]
    with ExitStack() as stack:
        analyst = stack.enter_context(_machine(f"odc-{run_id}-analyst"))
        _run("ip", "-n", analyst.namespace, "address", "add", f"{ANALYST_ADDRESS}/32", "dev", "lo")
        machines = {}
        for index, party in enumerate(parties):
            machine = stack.enter_context(_machine(f"odc-{run_id}-{index}"))
            _lay_line(analyst, machine, index)
            machines[party] = machine
        yield Star(analyst, machines)


@contextmanager
def _machine(namespace: str) -> Iterator[Machine]:
    _run("ip", "netns", "add", namespace)
    machine = Machine(namespace)
    try:
        machine.run("sh", "-e", "-c", _SETTINGS)
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
        yield machine
    finally:
        _run("ip", "netns", "delete", namespace)  # this deletes its lines too


def _lay_line(analyst: Machine, party: Machine, index: int) -> None:
    """Connect the two by a virtual cable, with fixed addresses and neighbours."""
    there, address = f"party{index}", f"10.77.{1 + index // 250}.{1 + index % 250}"
    mac_here, mac_there = f"02:00:00:00:{index // 256:02x}:{index % 256:02x}", "02:00:00:01:00:00"
    _run(
        *("ip", "link", "add", _LINE, "netns", party.namespace, "address", mac_here, "type", "veth"),
        *("peer", "name", there, "netns", analyst.namespace, "address", mac_there),
    )
    for machine, line in ((party, _LINE), (analyst, there)):
        # one segment per frame, so that every header is counted
        _run("ip", "-n", machine.namespace, "link", "set", line, "gso_max_segs", "1", "up")
    _route(party, _LINE, ANALYST_ADDRESS, mac_there, own_address=address)
    _route(analyst, there, address, mac_here)


def _route(machine: Machine, line: str, peer: str, peer_mac: str, own_address: str | None = None) -> None:
    ip = ("ip", "-n", machine.namespace)
    if own_address is not None:
        _run(*ip, "address", "add", f"{own_address}/32", "dev", line)
    _run(*ip, "neighbour", "add", peer, "lladdr", peer_mac, "dev", line, "nud", "permanent")
    source = own_address or ANALYST_ADDRESS
    _run(*ip, "route", "add", f"{peer}/32", "dev", line, "src", source)


def _run(*words: str) -> str:
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return done.stdout
