"""Rounds with more and more institutions: what each costs the analyst's server, and how long anybody waits.

The server is a process of its own, with mutual TLS. The institutions are threads of this process, each with
a state directory and a key of its own; each step opens a connection, as a command does. Small: 10 and 100
institutions. ``--full``: 1,000 as well, about five minutes, and the claims. ``--parties N``: in their place
one round of N simulated institutions, up to the last uplink; 10,000 make a claim.
"""

from __future__ import annotations

import argparse
import math
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server import installation
from analyst_server.installation import open_analyst, unix_now
from analyst_server.services import prepare
from analyst_server.settings import Settings
from benchmarks import report
from benchmarks.many_parties import Crowd
from odc_demo.actors import Analyst
from user_client import sdk
from user_client.custody.round_directory import TERMS_FILE
from user_client.sdk import Session

SIZES: Final = (10, 100)
LARGEST: Final = 1000
ROWS, FEATURES, LATENT_DIM = 100, 32, 16
"""Of each institution; the anchor has as many rows as there are features."""
AT_ONCE: Final = 8
"""Institutions that take a step at the same time."""
MOST_POLLS: Final = 200
LONGEST_S: Final = 5.0
MOST: Final = 10_000
"""Institutions of the round that has a claim of its own."""
_ANSWERED: Final = re.compile(r"method=(\w+) path=(\S+) .*\bms=(\d+)")
_STATUS: Final = re.compile(r"/v1/collaborations/[0-9a-f]{32}")
PASSPHRASE: Final = secrets.token_hex(16)
WAIT_S: Final = 900


@dataclass
class Scene:
    """A consortium whose analyst serves, and what each step of its members has cost."""

    analyst: Analyst
    folder: Path
    names: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _log_read: int = 0

    @property
    def server(self) -> psutil.Process:
        if self.analyst.server is None:
            raise RuntimeError("the server does not run")
        return psutil.Process(self.analyst.server.pid)

    def session(self, name: str) -> Session:
        return Session(self.folder / name, passphrase=lambda: PASSPHRASE)

    def step(self, phase: str, act: Callable[[Session], object], names: Sequence[str]) -> None:
        """Let each member act, some at a time, and note waits, the server's time, and what went wrong."""
        waits: list[float] = []

        def one(name: str) -> None:
            with self.session(name) as session:
                began = time.monotonic()
                try:
                    act(session)
                except Exception as error:  # noqa: BLE001  # counted, and told
                    self.errors.append(f"{phase}, {name}: {type(error).__name__}: {error}")
                waits.append(time.monotonic() - began)

        before, began = self.server_s(), time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as crew:
            list(crew.map(one, names))
        spent = self.server_s() - before
        self.rows.append(
            {
                "parties": len(self.names),
                "phase": phase,
                "steps": len(names),
                "seconds": time.monotonic() - began,
                "p50_ms": 1000 * float(np.percentile(waits, 50)),
                "p99_ms": 1000 * float(np.percentile(waits, 99)),
                "longest_s": max(waits),
                "longest_request_s": self.longest_request_s(),
                "server_ms_per_step": 1000 * spent / len(names),
                "server_rss_mb": self.server.memory_info().rss / 2**20,
            }
        )
        print(", ".join(f"{name} {_shown(value)}" for name, value in self.rows[-1].items()), flush=True)

    def longest_request_s(self) -> float:
        """Return what the longest request took since it was asked last, as the server logs it.

        A status is left out: its answer is held until something changes, if the member asks for that.
        """
        with self.analyst.log_path.open() as log:
            log.seek(self._log_read)
            lines = log.readlines()
            self._log_read = log.tell()
        taken = [
            int(found[3])
            for found in map(_ANSWERED.search, lines)
            if found is not None and not (found[1] == "GET" and _STATUS.fullmatch(found[2]))
        ]
        return max(taken, default=0) / 1000

    def server_s(self) -> float:
        """Return the processor time that the server has taken."""
        spent = self.server.cpu_times()
        return float(spent.user + spent.system)


def measure(options: report.Options) -> report.Report:
    """Play a round of each size."""
    sizes = (*SIZES, LARGEST) if options.full else SIZES
    found = report.Report("scale", _conditions(sizes))
    errors: dict[int, list[str]] = {}
    for parties in sizes:
        with tempfile.TemporaryDirectory(prefix="odc-scale-") as folder:
            scene = play(Path(folder), parties)
        errors[parties] = scene.errors
        _tell(found, scene)
    if options.full:
        add_claims(found, errors)
    return found


def measure_crowd(parties: int) -> report.Report:
    """Let that many simulated institutions join, sign the terms and send once, and stop there."""
    found = report.Report("scale", {**_conditions((parties,)), "institutions": "simulated but the lead"})
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="odc-scale-") as folder:
        scene = play_crowd(Path(folder), parties)
    _tell(found, scene)
    print(f"parties {parties}, {time.monotonic() - began:.0f} s in all", flush=True)
    if parties == MOST:
        found.claim("parties_10000_errors", len(scene.errors), "steps", "==", 0)
    return found


def play_crowd(folder: Path, parties: int) -> Scene:
    """Play a round of simulated institutions from the invitations to the last uplink."""
    names = [f"clinic-{number:05}" for number in range(parties)]
    scene, lead, others = Scene(Analyst(folder / "analyst"), folder, names), names[:1], names[1:]
    try:
        start(scene)
        with scene.session(names[0]) as session:
            crowd = Crowd(session, scene.analyst.url, others, folder / "crowd")
        scene.step("ask to join", crowd.ask_to_join, others)
        scene.step("approve all", approve, lead)
        scene.step("join", crowd.join, others)
        collaboration_id = publish(scene)
        scene.step("accept, the lead", lambda session: session.round(collaboration_id).accept(), lead)
        with scene.session(names[0]) as session:
            crowd.read(session.round(collaboration_id).directory.read(TERMS_FILE))
        scene.step("accept", lambda session: crowd.accept(session, collaboration_id), others)
        scene.step("create anchor", lambda session: session.round(collaboration_id).create_anchor(), lead)
        scene.step("contribute", lambda session: crowd.send(session, collaboration_id, ROWS), others)
        own = table(0)
        scene.step("prepare, the lead", lambda session: session.round(collaboration_id).prepare(own), lead)
        scene.step("status", lambda session: session.round(collaboration_id).status(), lead * 10)
        scene.step("contribute, the lead", lambda session: session.round(collaboration_id).contribute(), lead)
    finally:
        scene.analyst.stop()
    return scene


def add_claims(found: report.Report, errors: dict[int, list[str]]) -> None:
    """Add the claims about the round of 1,000 and its costs beside those of 100."""
    cost = {(row["parties"], row["phase"]): row["server_ms_per_step"] for row in found.rows}
    factor = math.log(LARGEST / SIZES[-1])

    def slope(phase: str) -> float:
        return math.log(cost[LARGEST, phase] / cost[SIZES[-1], phase]) / factor

    found.claim("parties_1000_errors", len(errors[LARGEST]), "steps", "==", 0)
    # all contributions together: one more than that of each
    found.claim("cost_slope_parties_contribute", 1 + slope("contribute"), "exponent", "<=", 1.15)
    found.claim("cost_slope_parties_status", slope("status"), "exponent", "<=", 1.0)
    for claim, figure in (
        ("scale_longest_request", "longest_request_s"),
        ("scale_longest_step", "longest_s"),
    ):
        found.claim(claim, max(row[figure] for row in found.rows), "s", "<=", LONGEST_S)


def _conditions(sizes: Sequence[int]) -> dict[str, Any]:
    return {
        "parties": sizes,
        "rows": ROWS,
        "features": FEATURES,
        "latent_dim": LATENT_DIM,
        "at_once": AT_ONCE,
        "waits": "of a whole step, with the institution's own work",
    }


def _tell(found: report.Report, scene: Scene) -> None:
    found.rows += scene.rows
    for error in scene.errors:
        print("error:", error, flush=True)


def play(folder: Path, parties: int) -> Scene:
    """Play a round from the invitations to the downlinks."""
    names = [f"clinic-{number:05}" for number in range(parties)]
    scene = Scene(Analyst(folder / "analyst"), folder, names)
    try:
        start(scene)
        _join(scene)
        collaboration_id = publish(scene)
        scene.step("accept", lambda session: session.round(collaboration_id).accept(), names)
        scene.step(
            "create anchor", lambda session: session.round(collaboration_id).create_anchor(), names[:1]
        )
        scene.step(
            "prepare",
            lambda session: session.round(collaboration_id).prepare(table(_number(session))),
            names,
        )
        scene.step("contribute", lambda session: session.round(collaboration_id).contribute(), names)
        polls = (names * MOST_POLLS)[: max(MOST_POLLS, parties)]
        scene.step("status", lambda session: session.round(collaboration_id).status(), polls)
        scene.step(
            "receive", lambda session: session.round(collaboration_id).receive(wait_s=WAIT_S), names[:1]
        )
        scene.step("receive all", lambda session: session.round(collaboration_id).receive(), names[1:])
    finally:
        scene.analyst.stop()
    return scene


def found(folder: Path, names: list[str]) -> Scene:
    """Return a consortium in which everybody has joined, and whose server runs."""
    scene = Scene(Analyst(folder / "analyst"), folder, names)
    try:
        start(scene)
        _join(scene)
    except BaseException:
        scene.analyst.stop()
        raise
    return scene


def start(scene: Scene) -> None:
    """Let the lead found a consortium, and start its analyst's server."""
    with scene.session(scene.names[0]) as lead:
        sdk.create_consortium(
            lead,
            name="Benchmark",
            party=scene.names[0],
            analyst_url=scene.analyst.url,
            passphrase=PASSPHRASE,
        )
        identity = scene.analyst.data_dir / "identity"
        request = installation.join(identity, sdk.invite(lead, "analyst", role="analyst"), now=unix_now())
        certificate = sdk.approve_request(lead, request, PASSPHRASE).certificate
    installation.install(identity, certificate.public_bytes(Encoding.PEM), now=unix_now())
    scene.analyst.start()


def _join(scene: Scene) -> None:
    others = scene.names[1:]
    with scene.session(scene.names[0]) as lead:
        invitations = {one.party: one for one in sdk.invite_all(lead, others)}
        scene.step(
            "ask to join", lambda session: sdk.join(session, invitations[session.home.path.name]), others
        )
    scene.step("approve all", approve, scene.names[:1])
    scene.step("join", lambda session: sdk.join(session, None), others)


def approve(lead: Session) -> None:
    """Give everybody who has asked a certificate."""
    sdk.approve_pending(lead, PASSPHRASE)


def publish(scene: Scene, latent_dim: int = LATENT_DIM) -> str:
    """Publish the terms of a round; return the id of its collaboration."""
    columns = [
        {"kind": "numeric", "name": f"x{index}", "low": -10.0, "high": 10.0} for index in range(FEATURES)
    ]
    draft = {
        "title": "Benchmark",
        "parties": scene.names,
        "lead": scene.names[0],
        "latent_dim": latent_dim,
        "anchor": {"kind": "haar", "rows": FEATURES},
        "model": {"kind": "logistic", "epochs": 50},
        "table_schema": {"columns": columns, "label_column": {"name": "label", "classes": ["no", "yes"]}},
    }
    opened = open_analyst(Settings(data_dir=scene.analyst.data_dir))
    try:
        return prepare.create(opened, prepare.complete_terms(opened, draft)).id
    finally:
        opened.records.dispose()


def _number(session: Session) -> int:
    return int(session.membership.party.rpartition("-")[2])


def table(seed: int) -> pa.Table:
    """Return an institution's rows; the same for the same seed."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-9, 9, (ROWS, FEATURES))
    labels = np.where(values[:, 0] + values[:, 1] > 0, "yes", "no")
    return pa.table({**{f"x{index}": values[:, index] for index in range(FEATURES)}, "label": labels})


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark as a command; return its exit code."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--parties", type=int)
    given, others = own.parse_known_args(arguments)

    def measure_these(options: report.Options) -> report.Report:
        return measure(options) if given.parties is None else measure_crowd(given.parties)

    return report.main(measure_these, others)


if __name__ == "__main__":
    raise SystemExit(main())
