"""The same uplinks to the analyst, and to servers that check and store, store, or discard them, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from analyst_server.installation import open_analyst
from analyst_server.services import end
from analyst_server.settings import Settings
from benchmarks import report, scale
from benchmarks.ingest.senders import Crew, Sender, Uplink
from benchmarks.many_parties import Crowd
from benchmarks.memory import peak_mb
from odc_demo.actors import Analyst, clean_environment, free_port
from user_client.custody.round_directory import TERMS_FILE

CLIENTS: Final = 8
LATENT_DIM: Final = 9
"""Chunks end inside a row, as they do for most widths."""
MIB: Final = 2**20
SINKS: Final[Mapping[str, Sequence[str]]] = {"checking": ("--check",), "storing": (), "discarding": ()}
"""What each of the other servers is told; all but the last store what comes."""


@dataclass(frozen=True)
class Target:
    """A server to send to; the folder is where it stores, if somebody else has to empty it."""

    url: str
    process: psutil.Process
    folder: Path | None = None


def measure(folder: Path, total_bytes: int, pairs: int) -> report.Report:
    """Let all institutions send to each server, so many times; return rows and claims."""
    found = report.Report(
        "ingest", {"clients": CLIENTS, "bytes_in_all": total_bytes, "pairs": pairs, "load": os.getloadavg()}
    )
    names = [f"clinic-{number}" for number in range(CLIENTS + 1)]
    scene = scale.Scene(Analyst(folder / "analyst"), folder, names)
    with ExitStack() as stack:
        stack.callback(scene.analyst.stop)
        scale.start(scene)
        crowd = _joined(scene)
        targets = {"analyst": Target(scene.analyst.url, scene.server)}
        for kind in SINKS:
            targets[kind] = stack.enter_context(_sink(scene, kind))
        senders = [Sender(crowd.identity(name), crowd.root_pem) for name in names[1:]]
        crew = stack.enter_context(Crew(senders))
        resting = scene.server.memory_info().rss / MIB
        for pair in range(pairs):
            collaboration_id, uplinks = _uplinks(scene, crowd, total_bytes // CLIENTS)
            order = list(targets) if pair % 2 else list(targets)[::-1]
            for server in order:
                found.rows.append({"pair": pair, "server": server, **_turn(targets[server], crew, uplinks)})
                print(", ".join(f"{name} {value}" for name, value in found.rows[-1].items()), flush=True)
            _end(scene, collaboration_id)
        peak = peak_mb(scene.server.pid)
    found.rows.append({"server_rss_mb": resting, "server_peak_mb": peak})
    add_claims(found)
    return found


def add_claims(found: report.Report) -> None:
    """Add the claims: medians over the pairs, whose turns follow one another."""
    seconds: dict[str, list[float]] = {}
    for row in found.rows:
        if "seconds" in row:
            seconds.setdefault(row["server"], []).append(row["seconds"])
    for name, one, other, bound in (
        ("ingest_vs_tls_sink", "analyst", "storing", 0.8),
        ("ingest_vs_checking_sink", "analyst", "checking", 0.0),
        ("ingest_vs_discarding_sink", "analyst", "discarding", 0.0),
        ("checking_vs_tls_sink", "checking", "storing", 0.0),
    ):
        ratio = float(np.median(np.divide(seconds[other], seconds[one])))
        found.claim(name, ratio, "of its throughput", ">=", bound)
    memory = found.rows[-1]
    growth = (memory["server_peak_mb"] - memory["server_rss_mb"]) * MIB / 1e6
    found.claim("server_rss_growth_mb", growth, "MB", "<=", 64)


def _turn(target: Target, crew: Crew, uplinks: Sequence[Uplink]) -> Mapping[str, float]:
    before = _processor_s(target.process)
    seconds = crew.send(target.url, uplinks)
    spent = _processor_s(target.process) - before
    for stored in target.folder.iterdir() if target.folder is not None else ():
        stored.unlink()
    os.sync()
    sent = sum(spec.payload_bytes for uplink in uplinks for spec in uplink.manifest.arrays)
    return {
        "seconds": seconds,
        "mb_per_s": sent / seconds / 1e6,
        "server_processor_s": spent,
        "load": os.getloadavg()[0],
    }


def _processor_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def _joined(scene: scale.Scene) -> Crowd:
    """Let all but the lead join."""
    lead, others = scene.names[:1], scene.names[1:]
    with scene.session(lead[0]) as session:
        crowd = Crowd(session, scene.analyst.url, others, scene.folder / "crowd")
    scene.step("ask to join", crowd.ask_to_join, others)
    scene.step("approve all", scale.approve, lead)
    scene.step("join", crowd.join, others)
    return crowd


def _uplinks(scene: scale.Scene, crowd: Crowd, payload_bytes: int) -> tuple[str, list[Uplink]]:
    """Open a round and return its id, and what each institution sends.

    Its lead sends nothing, so that the round is never computed. The arrays are the same in each round.
    """
    collaboration_id = scale.publish(scene, LATENT_DIM)
    lead, others = scene.names[:1], scene.names[1:]
    scene.step("accept, the lead", lambda session: session.round(collaboration_id).accept(), lead)
    with scene.session(lead[0]) as session:
        terms = crowd.read(session.round(collaboration_id).directory.read(TERMS_FILE))
    scene.step("accept", lambda session: crowd.accept(session, collaboration_id), others)
    scene.step("create anchor", lambda session: session.round(collaboration_id).create_anchor(), lead)
    payload = scene.folder / "payload"
    rows = payload_bytes // (terms.latent_dim * np.dtype(terms.rep_dtype).itemsize + 1)
    specs = crowd.write(payload, rows, seed=0)
    uplinks = []
    for party in others:
        with crowd.line(party) as line:
            manifest, signed = crowd.manifest(line, party, collaboration_id, specs)
        uplinks.append(Uplink(collaboration_id, manifest, signed, payload))
    os.sync()
    return collaboration_id, uplinks


def _end(scene: scale.Scene, collaboration_id: str) -> None:
    """Cancel a round, which erases what was sent."""
    opened = open_analyst(Settings(data_dir=scene.analyst.data_dir))
    try:
        end.cancel(opened, collaboration_id)
    finally:
        opened.records.dispose()
    os.sync()


@contextmanager
def _sink(scene: scale.Scene, kind: str) -> Iterator[Target]:
    """Yield a server of the other kinds, with the analyst's certificate, while it runs."""
    port, folder = free_port(), scene.folder / kind
    folder.mkdir()
    words = ["--identity", str(scene.analyst.data_dir / "identity"), "--port", str(port)]
    words += [*SINKS[kind], *(["--folder", str(folder)] if kind != "discarding" else [])]
    command = [sys.executable, "-m", "benchmarks.ingest.sinks", *words]
    environment = {**clean_environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError(f"the {kind} server did not start")
            yield Target(f"https://localhost:{port}", psutil.Process(process.pid), folder)
        finally:
            process.terminate()
