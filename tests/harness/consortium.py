"""A consortium for tests: the analyst's server is a real process, everybody meets over mutual TLS.

Institutions are driven through the SDK in the test's own process, or by the command `odc` where the
process matters. Setting up goes past the command line, which is too slow to do for each module.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import NullPool, create_engine, text

from analyst_server import installation
from analyst_server.installation import open_analyst
from analyst_server.services import prepare
from analyst_server.services.analyst import Analyst as OpenedAnalyst
from analyst_server.settings import Settings
from odc_demo.actors import Analyst, found_consortium, join_all
from odc_demo.namespaces import ANALYST_ADDRESS, Star
from protocol.errors import OdcError
from runtime import terminal
from tests.harness import configuration
from tests.harness.balancer import Balancer, balancer
from tests.harness.forked import LoadedAnalyst, LoadedInstitution
from user_client import sdk
from user_client.custody import authority
from user_client.custody.passphrase import lock
from user_client.custody.protection import protect
from user_client.sdk import Session
from user_client.sdk.session import unix_now

PASSPHRASE = "only a test has this one"
WAIT_S = 180
_TABLES = ("enrolments", "collaborations", "members", "uplinks", "downlinks", "ledger")
_ALWAYS_MOVING = {"last_seen_at", "lease_until", "computing"}


def terms(names: Sequence[str], *, features: int = 4, latent_dim: int = 2, **changes: Any) -> dict[str, Any]:
    """A draft of terms for `rows`, as a person would hand it to the analyst."""
    columns = [{"kind": "numeric", "name": f"x{i}", "low": -10.0, "high": 10.0} for i in range(features)]
    draft = {
        "title": "Test round",
        "parties": list(names),
        "lead": names[0],
        "latent_dim": latent_dim,
        "anchor": {"kind": "haar", "rows": features},
        "model": {"kind": "logistic", "epochs": 50},
        "table_schema": {"columns": columns, "label_column": {"name": "label", "classes": ["no", "yes"]}},
    }
    return {**draft, **changes}


def rows(seed: int, count: int, *, features: int = 4) -> pa.Table:
    """Rows of both classes, with many digits; the same for the same seed."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-9, 9, (count, features))
    labels = np.where(values[:, 0] + values[:, 1] > 0, "yes", "no")
    return pa.table({**{f"x{i}": values[:, i] for i in range(features)}, "label": labels})


@dataclass
class Consortium:
    """An analyst's server and the institutions, the lead first."""

    analyst: Analyst
    sessions: dict[str, Session]
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How a command gets onto the machine of an institution that has one of its own."""
    join_secrets: list[str] = field(default_factory=list, repr=False)
    second: Analyst | None = None
    """Another server of the same analyst, where it has several."""

    @property
    def names(self) -> list[str]:
        return list(self.sessions)

    @property
    def lead(self) -> Session:
        return self.sessions[self.names[0]]

    def institution(self, name: str) -> LoadedInstitution:
        """Return the same institution, to be driven by its command."""
        return LoadedInstitution(name, self.sessions[name].home.path, self.prefixes.get(name, ()))

    def go_through(self, name: str, port: int) -> None:
        """Let an institution reach the analyst by another port of this machine."""
        session = self.sessions[name]
        session.close()
        membership = replace(session.membership, analyst_url=f"https://localhost:{port}")
        session.home.write_membership(membership, session.home.certificate(), session.home.root().certificate)

    @property
    def settings(self) -> Settings:
        """Where the analyst's stores are."""
        given: dict[str, Any] = {
            name: value
            for name in ("database_url", "blob_url")
            if (value := self.analyst.settings.get(f"ODC_ANALYST_{name.upper()}"))
        }
        return Settings(data_dir=self.analyst.data_dir, **given)

    def stop_servers(self) -> None:
        """Stop the analyst's servers, which then write what they have counted."""
        for server in filter(None, (self.analyst, self.second)):
            server.stop()

    def start_servers(self) -> None:
        for server in filter(None, (self.analyst, self.second)):
            server.start()

    def arrays(self, collaboration_id: str) -> list[str]:
        """Return the names of the arrays that the analyst has of a collaboration."""
        with self.operator() as opened:
            return [key for key in opened.blobs.whole_keys() if key.startswith(f"{collaboration_id}/")]

    @contextmanager
    def operator(self) -> Iterator[OpenedAnalyst]:
        """The analyst's stores and key, opened beside the running server as its operator can."""
        opened = open_analyst(self.settings)
        try:
            yield opened
        finally:
            opened.records.dispose()

    def publish(self, **changes: Any) -> str:
        """Publish terms and return the id of the collaboration."""
        with self.operator() as opened:
            made = prepare.complete_terms(opened, terms(self.names, **changes))
            return prepare.create(opened, made).id

    def anchored(self, **changes: Any) -> str:
        """Publish terms, sign them everywhere and draw the anchor."""
        found = self.publish(**changes)
        for session in self.sessions.values():
            session.round(found).accept()
        self.lead.round(found).create_anchor()
        return found

    def contribute(self, name: str, collaboration_id: str, data: Any) -> Any:
        """Prepare and send one institution's uplink; return the receipt."""
        self.sessions[name].round(collaboration_id).prepare(data)
        return self.sessions[name].round(collaboration_id).contribute()

    def contribute_all(self, collaboration_id: str, count: int = 40, **shape: int) -> None:
        for seed, name in enumerate(self.names):
            self.contribute(name, collaboration_id, rows(seed, count, **shape))

    def receive_all(self, collaboration_id: str) -> None:
        """Wait for the release, fetch every downlink and predict with it."""
        self.wait_for(collaboration_id, "released")
        for session in self.sessions.values():
            session.round(collaboration_id).receive()
            found = session.round(collaboration_id).predict(rows(99, 60))
            right = np.array(found.labels) == rows(99, 60).column("label").to_numpy()
            assert right.mean() > 0.5

    def run_all(self, names: Sequence[str], *words: str) -> list[Any]:
        """Run the same command at several institutions, all at once; return their answers."""
        running = [(one, one.begin(*words)) for one in map(self.institution, names)]
        return [one.finish(words, process) for one, process in running]

    def play_by_command(
        self, collaboration_id: str, table: str, run: Callable[..., Any] | None = None
    ) -> None:
        """Take published terms to predictions by the commands that people type.

        Parameters
        ----------
        table : str
            The file with an institution's rows, from its own directory.
        run : callable, optional
            Runs a command at some institutions: `run_all`, or something that listens to it as well.
        """
        run = run or self.run_all
        run(self.names, "terms", "accept")
        run(self.names[:1], "anchor", "create")
        run(self.names, "contribute", "--yes", table)
        self.wait_for(collaboration_id, "released")
        run(self.names, "receive")
        run(self.names, "predict", table)
        run(self.names, "status")

    def _ask(self, question: str, **values: str) -> list[Mapping[str, Any]]:
        read_only = f"sqlite:///file:{self.analyst.data_dir}/odc.sqlite?mode=ro&uri=true"
        engine = create_engine(self.settings.database_url or read_only, poolclass=NullPool)
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(question), values).mappings()]

    def state(self, collaboration_id: str) -> str:
        """Where a collaboration stands, from the records: also while no server runs."""
        (found,) = self._ask("SELECT state FROM collaborations WHERE id = :id", id=collaboration_id)
        return str(found["state"])

    def wait_for(self, collaboration_id: str, *states: str) -> str:
        """Wait until the collaboration is in one of the states, and return it."""
        deadline = time.monotonic() + WAIT_S
        while (state := self.state(collaboration_id)) not in states:
            assert time.monotonic() < deadline, f"still {state}, not {states}\n{self.log()[-2000:]}"
            assert state != "failed", f"the round failed\n{self.log()[-2000:]}"
            time.sleep(0.02)
        return state

    def wait_for_judgement(self, collaboration_id: str) -> None:
        """Wait until the collaboration is released, and nothing is computed of it any more."""
        self.wait_for(collaboration_id, "released")
        self.wait_for_all_judgements()

    def wait_for_all_judgements(self) -> None:
        """Wait until no model is to be judged: from then on the server changes no record by itself."""
        deadline = time.monotonic() + WAIT_S
        while self._ask("SELECT id FROM collaborations WHERE unjudged IS NOT NULL"):
            assert time.monotonic() < deadline, f"a model is not judged\n{self.log()[-2000:]}"
            time.sleep(0.02)

    def close_all(self) -> None:
        """End every released round, so that no model is judged any more."""
        for row in self._ask("SELECT id FROM collaborations WHERE state = 'released'"):
            self.analyst.run("collaboration", "close", row["id"], "--yes")

    def records(self) -> dict[str, Any]:
        """Everything the analyst has: all rows of all tables, and the size of every blob.

        A server that runs is waited for until it changes none of them by itself.
        """
        if self.analyst.server is not None:
            self.wait_for_all_judgements()
        found: dict[str, Any] = {
            table: [
                {key: value for key, value in row.items() if key not in _ALWAYS_MOVING}
                # the keys come first; without an order, a row that was changed moves in PostgreSQL
                for row in self._ask(f"SELECT * FROM {table} ORDER BY 1, 2")  # noqa: S608  # names of our own
            ]
            for table in _TABLES
        }
        blobs = self.analyst.data_dir / "blobs"
        files = (path for path in blobs.rglob("*") if path.is_file()) if blobs.exists() else ()
        found["blobs"] = {str(path): path.stat().st_size for path in files}
        return found

    def log(self) -> str:
        return self.analyst.log_path.read_text()


@contextmanager
def consortium(directory: Path, *names: str, passphrase: str = "", **settings: str) -> Iterator[Consortium]:
    """Found a consortium, start its server, let everybody join; take it all down afterwards.

    With a passphrase, which has to be `PASSPHRASE`, every state directory is protected by it.
    """
    with ExitStack() as stack:
        has_many = configuration.is_many(settings)
        if has_many:
            settings = {**stack.enter_context(configuration.stores_and_workers(directory)), **settings}
        made = _unfounded(directory, names, settings)
        for session in made.sessions.values() if passphrase else ():
            protect(session.home, passphrase)
        stack.enter_context(_taken_down(made))
        with quick_passphrases():
            _found(made)
        if has_many:
            stack.enter_context(beside_a_second(made))
        yield made


@contextmanager
def beside_a_second(made: Consortium) -> Iterator[tuple[Analyst, Balancer]]:
    """Start a second analyst on the same stores, and let institutions reach both through a balancer."""
    other = LoadedAnalyst(made.analyst.data_dir.with_name("second-analyst"), settings=made.analyst.settings)
    shutil.copytree(made.analyst.data_dir / "identity", other.data_dir / "identity")
    made.second = other
    try:
        other.start()
        with balancer([made.analyst.port, other.port]) as between:
            for each in made.names:
                made.go_through(each, between.port)
            yield other, between
    finally:
        other.stop()


@contextmanager
def consortium_on_machines(directory: Path, net: Star) -> Iterator[Consortium]:
    """Do the same with everybody on a machine of their own, where only commands reach the analyst."""
    made = _unfounded(directory, list(net.parties), {})
    made.analyst.host, made.analyst.port, made.analyst.prefix = ANALYST_ADDRESS, 8443, net.analyst.prefix
    made.prefixes = {name: machine.prefix for name, machine in net.parties.items()}
    passphrase = directory / "passphrase"
    passphrase.write_text(PASSPHRASE)
    lead, *others = map(made.institution, made.names)
    with _taken_down(made):
        found_consortium(made.analyst, lead, passphrase)
        join_all(lead, others, passphrase)
        yield made


def _unfounded(directory: Path, names: Sequence[str], settings: Mapping[str, str]) -> Consortium:
    quick = {"ODC_ANALYST_POLL_S": "0.1", "ODC_ANALYST_LEASE_S": "2"}
    analyst = LoadedAnalyst(directory / "analyst", settings={**quick, **settings})
    return Consortium(
        analyst, {name: Session(directory / name, passphrase=lambda: PASSPHRASE) for name in names}
    )


@contextmanager
def _taken_down(made: Consortium) -> Iterator[None]:
    try:
        yield
    finally:
        for session in made.sessions.values():
            session.close()
        made.analyst.stop()


@contextmanager
def quick_passphrases() -> Iterator[None]:
    """Let root keys be locked with little work; each says how much, so anybody unlocks them as quickly.

    The work that protects a person's root key takes half a second, three times for each consortium.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority, "lock", partial(lock, log2_n=4))
        yield


def _found(made: Consortium) -> None:
    analyst, lead, others = made.analyst, made.lead, made.names[1:]
    sdk.create_consortium(
        lead, name="Test consortium", party=made.names[0], analyst_url=analyst.url, passphrase=PASSPHRASE
    )
    identity = analyst.data_dir / "identity"
    request = installation.join(identity, sdk.invite(lead, "analyst", role="analyst"), now=unix_now())
    certificate = sdk.approve_request(lead, request, PASSPHRASE).certificate
    installation.install(identity, certificate.public_bytes(Encoding.PEM), now=unix_now())
    analyst.start()
    for name in others:
        invitation = sdk.invite(lead, name)
        made.join_secrets.append(invitation.join_secret)
        assert sdk.join(made.sessions[name], invitation) is None  # not approved yet
    sdk.approve_pending(lead, PASSPHRASE)
    for name in others:
        assert sdk.join(made.sessions[name], None) is not None


@contextmanager
def refused(
    made: Consortium, error: type[OdcError], *, exit_code: int, says: str | None = None
) -> Iterator[pytest.ExceptionInfo[OdcError]]:
    """Expect an error with its hint, and the analyst's records to be afterwards what they were before."""
    before = made.records()
    with pytest.raises(error, match=says) as caught:
        yield caught
    assert type(caught.value) is error
    assert terminal.exit_code(caught.value) == exit_code
    assert caught.value.hint == error.hint
    assert made.records() == before
