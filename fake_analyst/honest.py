"""What is honest about a fake analyst: a consortium, a real server on the loopback, and its lead."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server import installation
from analyst_server.app import create_app
from analyst_server.services import prepare
from analyst_server.services.analyst import Analyst
from analyst_server.serving import web_config
from analyst_server.settings import Settings
from fake_analyst.between import Between
from fake_analyst.signers import Signer, Signers
from protocol.envelope import anchor_info, decode_stored, seal, seed_commitment
from protocol.identity import Identity, key_digest
from protocol.messages import Acceptance, Role, SealedAnchor
from protocol.states import State
from protocol.terms import Terms
from user_client.custody.authority import Authority
from user_client.sdk import Session, approve_pending, approve_request, create_consortium, invite
from user_client.sdk.consortium import unlock_root
from user_client.sdk.session import unix_now

LEAD, CLIENT, OUTSIDER = "lead-hospital", "client-hospital", "other-hospital"
FEATURES, LATENT_DIM, ROWS = 4, 2, 60
RELEASE_S: Final = 120
STARTED_S: Final = 60


def table(seed: int, *, rows: int = ROWS) -> pa.Table:
    """Rows of two classes that a line tells apart, the same for the same seed."""
    values = np.random.default_rng(seed).uniform(-9, 9, (rows, FEATURES))
    labels = np.where(values[:, 0] + values[:, 1] > 0, "yes", "no")
    return pa.table({**{f"x{i}": values[:, i] for i in range(FEATURES)}, "label": labels})


def _draft(analyst_key: str) -> dict[str, Any]:
    columns = [{"kind": "numeric", "name": f"x{i}", "low": -10.0, "high": 10.0} for i in range(FEATURES)]
    return {
        "title": "Conformance",
        "parties": [LEAD, CLIENT],
        "lead": LEAD,
        "latent_dim": LATENT_DIM,
        "anchor": {"kind": "haar", "rows": FEATURES},
        "alignment": {"method": "isotropic"},
        "model": {"kind": "logistic", "epochs": 50},
        "analyst_key": analyst_key,
        "table_schema": {"columns": columns, "label_column": {"name": "label", "classes": ["no", "yes"]}},
    }


class Honest:
    """A consortium whose root, lead and analyst are in our hands, so that every lie can be well signed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._passphrase = secrets.token_hex(16)
        port = _free_port()
        self.url = f"https://localhost:{port}"
        self.lead = Session(directory / "lead")
        create_consortium(
            self.lead, name="Conformance", party=LEAD, analyst_url=self.url, passphrase=self._passphrase
        )
        self._settings = Settings(
            data_dir=directory / "analyst",
            host="localhost",
            port=port,
            poll_s=0.05,
            drain_s=1,
            status_wait_s=1,
        )
        identity = self._settings.identity_dir
        request = installation.join(identity, invite(self.lead, "analyst", role="analyst"), now=unix_now())
        issued = approve_request(self.lead, request, self._passphrase).certificate
        installation.install(identity, issued.public_bytes(Encoding.PEM), now=unix_now())
        self.analyst: Analyst = installation.open_analyst(self._settings)
        self.approved = False
        """Whether the client has been certified."""
        self.between = Between(create_app(self.analyst, self._settings), CLIENT)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Answer at the address, until the block is left."""
        server = uvicorn.Server(web_config(self.between, self._settings))
        thread = threading.Thread(target=server.run, name="fake-analyst")
        thread.start()
        try:
            _wait(lambda: server.started or not thread.is_alive(), STARTED_S, "the server to start")
            yield
        finally:
            self.lead.close()
            server.should_exit = True
            thread.join()

    @cached_property
    def signers(self) -> Signers:
        """Everybody in whose name a lie can be signed."""
        root: Authority = unlock_root(self.lead, self._passphrase)
        consortium_id = self.lead.membership.consortium_id

        def certified(role: Role, name: str, by: Authority) -> Signer:
            key = ec.generate_private_key(ec.SECP256R1())
            return Signer(
                key, by.issue(key.public_key(), Identity(consortium_id, role, name), now=unix_now())
            )

        stranger = Authority.create("Conformance", now=unix_now())
        return Signers(
            root=root,
            stranger_root=stranger,
            analyst=Signer(self.analyst.key, self.analyst.certificate),
            lead=Signer(self.lead.home.key(), self.lead.home.certificate()),
            other_analyst=certified("analyst", "analyst", root),
            outsider=certified("institution", OUTSIDER, root),
            other_root=certified("analyst", "analyst", stranger),
        )

    def invitation(self, path: Path) -> Path:
        """Write a new invitation for the client, in the place of an earlier one."""
        path.write_text(invite(self.lead, CLIENT, replace_earlier=True).to_json())
        return path

    def approve(self) -> None:
        """Issue the certificates that are asked for."""
        self.approved = self.approved or bool(approve_pending(self.lead, self._passphrase))

    def publish(self) -> str:
        """Publish terms, let the lead accept them, and return the id of the round."""
        terms = prepare.complete_terms(self.analyst, _draft(key_digest(self.analyst.key.public_key())))
        found = prepare.create(self.analyst, terms).id
        self.lead.round(found).accept()
        return found

    def anchor(self, collaboration_id: str) -> None:
        """Let the lead seal the anchor and send its own rows."""
        own = self.lead.round(collaboration_id)
        own.create_anchor()
        own.prepare(table(0))
        own.contribute()

    def steps(self, collaboration_id: str) -> int:
        """Return how many entries the ledger has."""
        with self.analyst.records.begin() as unit:
            return len(unit.ledger(collaboration_id))

    def wait_for_release(self, collaboration_id: str) -> None:
        """Wait until the round is released; raises `RuntimeError` if it is not."""

        def state() -> str:
            with self.analyst.records.begin() as unit:
                found = unit.collaboration(collaboration_id)
                return found.state if found is not None else ""

        _wait(lambda: state() == State.RELEASED, RELEASE_S, "the release of the round")

    def terms(self, collaboration_id: str) -> Terms:
        with self.analyst.records.begin() as unit:
            found = unit.collaboration(collaboration_id)
            if found is None:
                raise RuntimeError("the round is not in the records")
            return decode_stored(Terms, found.terms)

    def sealed_for_client(self, honest: SealedAnchor, seed: bytes, recipient: str = CLIENT) -> SealedAnchor:
        """Return what the lead would have sent had it drawn another seed: it opens with the client's key."""
        with self.analyst.records.begin() as unit:
            member = unit.member(honest.collaboration_id, CLIENT)
        if member is None or member.acceptance is None:
            raise RuntimeError("the client has not accepted")
        acceptance = decode_stored(Acceptance, member.acceptance)
        info = anchor_info(honest.collaboration_id, honest.terms_digest, recipient)
        sealed = seal(seed, acceptance.sealing_suite, acceptance.sealing_key, info)
        return honest.model_copy(update={"ciphertext": sealed, "commitment": seed_commitment(seed)})


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(until: Callable[[], bool], most_s: float, what: str) -> None:
    ends_at = time.monotonic() + most_s
    while not until():
        if time.monotonic() > ends_at:
            raise RuntimeError(f"waited {most_s:g} s for {what}, in vain")
        time.sleep(0.02)
