"""Rounds with more and more institutions: what each costs the analyst's server, and how long anybody waits.

The server is a process of its own, with mutual TLS. The institutions are threads of this process, each with
a state directory and a key of its own; each step opens a connection, as a command does. Small: 10 and 100
institutions. ``--full``: 1,000 as well, about five minutes, and the claims.
"""

from __future__ import annotations

import math
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
from odc_demo.actors import Analyst
from user_client import sdk
from user_client.sdk import Session

SIZES: Final = (10, 100)
LARGEST: Final = 1000
ROWS, FEATURES, LATENT_DIM = 100, 32, 16
"""Of each institution; the anchor has as many rows as there are features."""
AT_ONCE: Final = 8
"""Institutions that take a step at the same time."""
MOST_POLLS: Final = 200
LONGEST_S: Final = 5.0
_PASSPHRASE: Final = secrets.token_hex(16)
WAIT_S: Final = 900


@dataclass
class Scene:
    """A consortium whose analyst serves, and what each step of its members has cost."""

    analyst: Analyst
    folder: Path
    names: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def server(self) -> psutil.Process:
        if self.analyst.server is None:
            raise RuntimeError("the server does not run")
        return psutil.Process(self.analyst.server.pid)

    def session(self, name: str) -> Session:
        return Session(self.folder / name, passphrase=lambda: _PASSPHRASE)

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

        before, began = self._server_s(), time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as crew:
            list(crew.map(one, names))
        spent = self._server_s() - before
        self.rows.append(
            {
                "parties": len(self.names),
                "phase": phase,
                "steps": len(names),
                "seconds": time.monotonic() - began,
                "p50_ms": 1000 * float(np.percentile(waits, 50)),
                "p99_ms": 1000 * float(np.percentile(waits, 99)),
                "longest_s": max(waits),
                "server_ms_per_step": 1000 * spent / len(names),
                "server_rss_mb": self.server.memory_info().rss / 2**20,
            }
        )

    def _server_s(self) -> float:
        spent = self.server.cpu_times()
        return float(spent.user + spent.system)


def measure(options: report.Options) -> report.Report:
    """Play a round of each size."""
    sizes = (*SIZES, LARGEST) if options.full else SIZES
    found = report.Report(
        "scale",
        {
            "parties": sizes,
            "rows": ROWS,
            "features": FEATURES,
            "latent_dim": LATENT_DIM,
            "at_once": AT_ONCE,
            "waits": "of a whole step, with the institution's own work",
        },
    )
    errors: dict[int, list[str]] = {}
    for parties in sizes:
        with tempfile.TemporaryDirectory(prefix="odc-scale-") as folder:
            scene = play(Path(folder), parties)
        errors[parties] = scene.errors
        for row in scene.rows:
            found.rows.append(row)
            print(", ".join(f"{name} {_shown(value)}" for name, value in row.items()), flush=True)
        for error in scene.errors:
            print("error:", error, flush=True)
    if options.full:
        add_claims(found, errors)
    return found


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
    longest = max(row["longest_s"] for row in found.rows)
    found.claim("scale_longest_step", longest, "s", "<=", LONGEST_S)


def play(folder: Path, parties: int) -> Scene:
    """Play a round from the invitations to the downlinks."""
    names = [f"clinic-{number:05}" for number in range(parties)]
    scene = Scene(Analyst(folder / "analyst"), folder, names)
    try:
        _found(scene)
        _join(scene)
        collaboration_id = publish(scene)
        scene.step("accept", lambda session: session.round(collaboration_id).accept(), names)
        with scene.session(names[0]) as lead:
            lead.round(collaboration_id).create_anchor()
        tables = {name: table(seed) for seed, name in enumerate(names)}
        scene.step(
            "prepare",
            lambda session: session.round(collaboration_id).prepare(tables[session.membership.party]),
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
        _found(scene)
        _join(scene)
    except BaseException:
        scene.analyst.stop()
        raise
    return scene


def _found(scene: Scene) -> None:
    with scene.session(scene.names[0]) as lead:
        sdk.create_consortium(
            lead,
            name="Benchmark",
            party=scene.names[0],
            analyst_url=scene.analyst.url,
            passphrase=_PASSPHRASE,
        )
        identity = scene.analyst.data_dir / "identity"
        request = installation.join(identity, sdk.invite(lead, "analyst", role="analyst"), now=unix_now())
        certificate = sdk.approve_request(lead, request, _PASSPHRASE).certificate
    installation.install(identity, certificate.public_bytes(Encoding.PEM), now=unix_now())
    scene.analyst.start()


def _join(scene: Scene) -> None:
    others = scene.names[1:]
    with scene.session(scene.names[0]) as lead:
        invitations = {one.party: one for one in sdk.invite_all(lead, others)}
        scene.step(
            "ask to join", lambda session: sdk.join(session, invitations[session.home.path.name]), others
        )
        began = time.monotonic()
        sdk.approve_pending(lead, _PASSPHRASE)
        print(f"parties {len(scene.names)}, approved in {time.monotonic() - began:.1f} s", flush=True)
    scene.step("join", lambda session: sdk.join(session, None), others)


def publish(scene: Scene) -> str:
    """Publish the terms of a round; return the id of its collaboration."""
    columns = [
        {"kind": "numeric", "name": f"x{index}", "low": -10.0, "high": 10.0} for index in range(FEATURES)
    ]
    draft = {
        "title": "Benchmark",
        "parties": scene.names,
        "lead": scene.names[0],
        "latent_dim": LATENT_DIM,
        "anchor": {"kind": "haar", "rows": FEATURES},
        "model": {"kind": "logistic", "epochs": 50},
        "table_schema": {"columns": columns, "label_column": {"name": "label", "classes": ["no", "yes"]}},
    }
    opened = open_analyst(Settings(data_dir=scene.analyst.data_dir))
    try:
        return prepare.create(opened, prepare.complete_terms(opened, draft)).id
    finally:
        opened.records.dispose()


def table(seed: int) -> pa.Table:
    """Return an institution's rows; the same for the same seed."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-9, 9, (ROWS, FEATURES))
    labels = np.where(values[:, 0] + values[:, 1] > 0, "yes", "no")
    return pa.table({**{f"x{index}": values[:, index] for index in range(FEATURES)}, "label": labels})


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(report.main(measure))
