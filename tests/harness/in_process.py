"""A lead, a hospital and an analyst in one process: the real application, without a socket between."""

from __future__ import annotations

import json
import ssl
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from starlette.types import Receive, Scope, Send

from analyst_server import installation
from analyst_server.app import create_app
from analyst_server.installation import open_analyst
from analyst_server.services import judging, rounds
from analyst_server.services import prepare as preparation
from analyst_server.settings import Settings
from protocol.invitation import Invitation
from protocol.operations import FETCH_DOWNLINK
from tests.harness import configuration
from tests.harness.app import InProcess, WithCertificate
from tests.harness.certificates import NOW
from tests.harness.world import Clock, new_database
from user_client.custody import authority as authority_module
from user_client.custody.passphrase import lock
from user_client.sdk import (
    Round,
    Session,
    approve_pending,
    approve_request,
    create_consortium,
    invite,
    join,
)
from user_client.transport import LongAnswer
from user_client.transport import connection as connection_module
from user_client.transport.connection import Identity

LEAD, HOSPITAL = "lead-hospital", "hospital-a"
PASSPHRASE = "correct horse battery"
URL = "https://analyst:8443"
COLUMNS = ("x0", "x1", "x2")
SVM = {"kind": "svm", "inverse_penalty": 10.0}
"""A model that contains rows: terms with it need a consent of their own."""


def draft(**changed: Any) -> dict[str, Any]:
    """Terms as the analyst's operator writes them."""
    return {
        "title": "Readmission",
        "parties": [LEAD, HOSPITAL],
        "lead": LEAD,
        "latent_dim": 3,
        "rep_dtype": "f4",
        "anchor": {"kind": "haar", "rows": 3},
        "model": {"kind": "logistic"},
        "table_schema": {
            "columns": [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS],
            "label_column": {"name": "y", "classes": ["no", "yes"]},
        },
        **changed,
    }


def rows(seed: int, count: int = 40) -> dict[str, list[Any]]:
    """A table whose classes a line can tell apart."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    data = np.clip(rng.standard_normal((count, 3)) * 0.5 + (2 * labels - 1)[:, None], -4, 4)
    return {
        **{name: list(data[:, i]) for i, name in enumerate(COLUMNS)},
        "y": [["no", "yes"][k] for k in labels],
    }


def csv(path: Path, table: dict[str, list[Any]]) -> Path:
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


class Consortium:
    """Founded, with its analyst; the hospital joins when it is told to."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.clock = directory, Clock(NOW)
        monkeypatch.setattr(
            authority_module, "lock", lambda data, passphrase: lock(data, passphrase, log2_n=4)
        )
        self.lead = self.session(LEAD)
        create_consortium(self.lead, name="Heart", party=LEAD, analyst_url=URL, passphrase=PASSPHRASE)
        # each request has an event loop of its own here, so that none can wait for another
        self._stack = ExitStack()
        self.settings = Settings(data_dir=directory / "analyst", status_wait_s=0, **self._stores())
        invitation = invite(self.lead, "analyst", role="analyst")
        request = installation.join(self.settings.identity_dir, invitation, now=self.clock())
        issued = approve_request(self.lead, request, PASSPHRASE).certificate
        installation.install(self.settings.identity_dir, issued.public_bytes(Encoding.PEM), now=self.clock())
        if not self.settings.database_url:
            new_database(self.settings.data_dir / "odc.sqlite")
        self.analyst = open_analyst(self.settings, self.clock)
        self.app = create_app(self.analyst, self.settings)
        self.hospital = self.session(HOSPITAL)
        self._wire(monkeypatch)
        self.id = ""

    def _stores(self) -> dict[str, Any]:
        """Return where the analyst has its records and arrays, if not in its directory."""
        if not configuration.MANY:
            return {}
        found = self._stack.enter_context(configuration.stores())
        return {name: found[f"ODC_ANALYST_{name.upper()}"] for name in ("database_url", "blob_url")}

    def close(self) -> None:
        self.analyst.records.dispose()
        self._stack.close()

    def session(self, name: str) -> Session:
        return Session(self.directory / name, self.clock)

    def restart_analyst(self) -> None:
        """Let the analyst forget what it keeps in memory."""
        self.analyst.records.dispose()
        self.analyst = open_analyst(self.settings, self.clock)
        self.app = create_app(self.analyst, self.settings)

    async def _analysts_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def _wire(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let every connection end in the application instead of a socket."""

        def in_process(_trust: ssl.SSLContext, identity: Identity | None) -> httpx.BaseTransport:
            return InProcess(
                WithCertificate(self._analysts_app, identity[0].read_text() if identity else None)
            )

        monkeypatch.setattr(connection_module, "metered", lambda _url, _traffic: in_process)

    def invitation(self, party: str = HOSPITAL) -> Invitation:
        return invite(self.lead, party, replace_earlier=True)

    def until_joined(self) -> Consortium:
        join(self.hospital, self.invitation())
        approve_pending(self.lead, PASSPHRASE)
        join(self.hospital, None)
        return self

    def publish(self, **changed: Any) -> str:
        terms = preparation.complete_terms(self.analyst, draft(**changed))
        self.id = preparation.create(self.analyst, terms).id
        self._reveals_rows = terms.is_row_revealing
        return self.id

    @property
    def lead_round(self) -> Round:
        return self.lead.round(self.id)

    @property
    def hospital_round(self) -> Round:
        return self.hospital.round(self.id)

    @property
    def sessions(self) -> list[Session]:
        return [self.lead, self.hospital]

    def until_accepted(self, **changed: Any) -> Consortium:
        self.until_joined().publish(**changed)
        for session in self.sessions:
            session.round(self.id).accept(accept_row_revealing_model=self._reveals_rows)
        return self

    def until_anchored(self, **changed: Any) -> Consortium:
        self.until_accepted(**changed)
        self.lead.round(self.id).create_anchor()
        return self

    def table(self, seed: int, **changed: Any) -> Path:
        return csv(self.directory / f"rows-{seed}.csv", {**rows(seed), **changed})

    def until_contributed(self, **changed: Any) -> Consortium:
        self.until_joined().publish(**changed)
        return self.contribute_all()

    def contribute_all(self) -> Consortium:
        """Take the terms that were published last to where all have contributed."""
        for session in self.sessions:
            session.round(self.id).accept(accept_row_revealing_model=self._reveals_rows)
        self.lead_round.create_anchor()
        for seed, session in enumerate(self.sessions):
            session.round(self.id).prepare(self.table(seed))
            session.round(self.id).contribute()
        return self

    def release_without(self, late_consumer: str) -> None:
        """Take a round to its release before its late consumer has signed."""
        self.publish(late_consumers=[late_consumer])
        self.lead_round.accept()
        self.lead_round.create_anchor()
        self.lead_round.prepare(self.table(0))
        self.lead_round.contribute()
        self.compute()

    def compute(self) -> None:
        """Do what the analyst's worker does."""
        assert rounds.claim(self.analyst, "worker", 10) == self.id
        rounds.compute(self.analyst, self.id, "worker")
        if judging.claim(self.analyst, "worker", 10) is not None:
            judging.compute(self.analyst, self.id, "worker")

    def until_released(self, **changed: Any) -> Consortium:
        self.until_contributed(**changed).compute()
        return self

    def directory_of(self, session: Session) -> Path:
        return session.home.collaboration(self.id)

    def json_of(self, session: Session, name: str) -> Any:
        return json.loads((self.directory_of(session) / name).read_text())


def answer_instead(monkeypatch: pytest.MonkeyPatch, session: Session, data: bytes) -> None:
    """Let the analyst relay other bytes than it should."""
    monkeypatch.setattr(session.connection, "ask", lambda *_, **__: httpx.Response(200, content=data))


def downlink_bytes(consortium: Consortium) -> bytes:
    """Return what the analyst sends to the hospital when the round is released."""
    with consortium.hospital.connection.stream(FETCH_DOWNLINK, collaboration_id=consortium.id) as answer:
        return b"".join(answer.pieces)


def replay(monkeypatch: pytest.MonkeyPatch, consortium: Consortium, data: bytes, size: int = 997) -> None:
    """Let the analyst answer with these bytes, in pieces."""
    pieces = iter([data[start : start + size] for start in range(0, len(data), size)])
    answer = LongAnswer(200, {}, pieces)
    monkeypatch.setattr(consortium.hospital.connection, "stream", lambda *_, **__: nullcontext(answer))
