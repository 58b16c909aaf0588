"""A consortium that plays rounds while its analyst is watched, strangers, and one bad member."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyst_server.installation import open_analyst
from analyst_server.services import exclusion
from analyst_server.settings import Settings
from benchmarks import report, scale
from benchmarks.abuse.members import BadMember, again_and_again, renews
from benchmarks.abuse.watch import HEALTH, PATIENCE_S, POLL_S, Watch, health_of

PARTIES: Final = 3
"""Honest ones. The bad member is one more."""
MIB: Final = 2**20
QUIET_S: Final = 5.0
"""How long the server is watched before the strangers come."""
IDLE: Final = 200
"""Idle connections whose memory is measured, from addresses of their own."""
WARM_UP_ROUNDS: Final = 2


def measure(folder: Path, seconds: float) -> report.Report:
    """Play rounds for a time, with strangers about; return rows and claims."""
    scene = scale.found(folder, [f"clinic-{number}" for number in range(PARTIES + 1)])
    bad = BadMember(scene, scene.names[-1])
    try:
        quiet = _watch(scene)
        for _ in range(WARM_UP_ROUNDS):
            _play(scene, bad, [])
        quiet.for_seconds(QUIET_S)
        idle_kib = _idle_connection_kib(scene)
        bad.tried.clear()
        abused, rounds, tried = _abuse(scene, bad, seconds)
        _play(scene, bad, rounds)  # afterwards, without anybody's help
    finally:
        scene.analyst.stop()
    found = report.Report("abuse", {"seconds": seconds, "parties": PARTIES, "poll_s": POLL_S})
    for name, count in sorted({**tried, **bad.tried}.items()):
        found.rows.append({"attack": name, "tried": count})
    for name, watch in (("quiet", quiet), ("abused", abused)):
        found.rows.append({"server": name, **_summary(watch)})
    failed = [told for told in rounds if told]
    found.rows.append({"rounds": len(rounds), "failed": len(failed), "why": failed})
    found.rows.append({"idle_connection_kib": idle_kib})
    found.claim("abuse_health_p99_s", float(np.percentile(abused.waits_s, 99)), "s", "<=", 0.5)
    if quiet.peak_mib and abused.peak_mib:  # Linux alone tells the peak of another process
        growth = (abused.peak_mib - quiet.peak_mib) * MIB / 1e6
        found.claim("abuse_rss_growth_mb", growth, "MB", "<=", 64)
    found.claim("abuse_rounds_failed", len(failed), "rounds", "==", 0)
    return found


def _summary(watch: Watch) -> dict[str, Any]:
    return {
        "questions": len(watch.waits_s),
        "p50_ms": 1000 * float(np.percentile(watch.waits_s, 50)),
        "p99_ms": 1000 * float(np.percentile(watch.waits_s, 99)),
        "longest_ms": 1000 * max(watch.waits_s),
        "peak_mib": watch.peak_mib,
    }


def _abuse(scene: scale.Scene, bad: BadMember, seconds: float) -> tuple[Watch, list[str], dict[str, int]]:
    """Let strangers in for a time, while rounds are played; return what was seen meanwhile."""
    watch, rounds, is_over = _watch(scene), list[str](), threading.Event()
    root = scene.analyst.data_dir / "identity" / "root.pem"
    words = ["--port", str(scene.analyst.port), "--root", str(root), "--seconds", str(seconds)]
    strangers = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.abuse.attacks", *words], stdout=subprocess.PIPE, text=True
    )
    asking = again_and_again(bad)
    threads = [
        threading.Thread(target=_until(is_over, lambda: _play(scene, bad, rounds))),
        threading.Thread(target=watch.until, args=(is_over,)),
        threading.Thread(target=_until(is_over, lambda: next(asking))),
    ]
    for thread in threads:
        thread.start()
    out, _ = strangers.communicate()
    is_over.set()
    for thread in threads:
        thread.join()
    asking.close()
    return watch, rounds, json.loads(out)


def _watch(scene: scale.Scene) -> Watch:
    root = scene.analyst.data_dir / "identity" / "root.pem"
    return Watch(health_of(scene.analyst.port, root), scene.server.pid)


def _until(is_over: threading.Event, act: Callable[[], object]) -> Callable[[], None]:
    def again_and_again() -> None:
        while not is_over.is_set():
            act()

    return again_and_again


def _play(scene: scale.Scene, bad: BadMember, rounds: list[str]) -> None:
    """Play one round, in which a member renews, and add to ``rounds`` what went wrong, or nothing.

    The bad member sends wild rows, and the operator excludes it.
    """
    honest = scene.names[:PARTIES]
    try:
        found = scale.publish(scene)
        for name in scene.names:
            with scene.session(name) as session:
                session.round(found).accept()
        with scene.session(scene.names[0]) as lead:
            lead.round(found).create_anchor()
        renews(scene, honest[-1])
        bad.send_wild_rows(found)
        _exclude(scene, found, bad.name)
        for seed, name in enumerate(honest):
            with scene.session(name) as session:
                session.round(found).prepare(scale.table(seed))
                session.round(found).contribute()
        for name in honest:
            with scene.session(name) as session:
                session.round(found).receive(wait_s=scale.WAIT_S)
    except Exception as error:  # noqa: BLE001  # counted, and told
        rounds.append(f"{type(error).__name__}: {error}")
    else:
        rounds.append("")


def _exclude(scene: scale.Scene, collaboration_id: str, party: str) -> None:
    opened = open_analyst(Settings(data_dir=scene.analyst.data_dir))
    try:
        exclusion.exclude(opened, collaboration_id, party)
    finally:
        opened.records.dispose()


def _idle_connection_kib(scene: scale.Scene) -> float:
    """Return what one idle connection with TLS takes of the server's memory."""
    root = scene.analyst.data_dir / "identity" / "root.pem"
    trust = ssl.create_default_context(cafile=root)
    with ExitStack() as held:
        before = scene.server.memory_info().rss
        for index in range(IDLE):
            source = f"127.0.2.{1 + index % 8}" if sys.platform == "linux" else "127.0.0.1"
            plain = socket.create_connection(("127.0.0.1", scene.analyst.port), PATIENCE_S, (source, 0))
            line = held.enter_context(trust.wrap_socket(plain, server_hostname="localhost"))
            line.sendall(HEALTH.replace(b"connection: close\r\n", b""))
            line.recv(4096)
        return float(scene.server.memory_info().rss - before) / IDLE / 1024
