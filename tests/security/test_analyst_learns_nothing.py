"""After a whole round, nothing that must stay at an institution is to be found at the analyst.

Looked for in its files and logs, and in the memory of its server and of its compute process while
they still run. The same search finds what is known to be there, so that it can fail.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.envelope import SealingKey, anchor_info, derive
from protocol.messages import SealedAnchor
from tests.e2e.consortium import PASSPHRASE, Consortium, consortium
from tests.security.needles import Needles, blocks_of_files, blocks_of_memory, of_matrix
from user_client import sdk
from user_client.custody.authority import Authority
from user_client.custody.keystream import KeyStream
from user_client.sdk import Session
from user_client.sdk.anchor import open_anchor
from user_client.sdk.terms import stored_terms
from user_client.secret.numbers import Matrix64
from user_client.tables import encode_rows

FEATURES, LATENT_DIM, ROWS = 8, 5, 24
HOLD_STILL = "this system does not let one process read the memory of another"


@dataclass
class Played:
    """A finished round whose server still runs, and what the institutions said meanwhile."""

    consortium: Consortium
    collaboration_id: str
    tables: dict[str, pa.Table]
    said: str

    @property
    def sessions(self) -> dict[str, Session]:
        return self.consortium.sessions


def distinctive(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-9, 9, (ROWS, FEATURES))
    label = np.where(values[:, 0] > 0, "yes", "no")
    return pa.table({**{f"x{i}": values[:, i] for i in range(FEATURES)}, "label": label})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Everything as talkative as it can be: the server logs at debug level, the commands with --verbose."""
    directory = tmp_path_factory.mktemp("learns")
    names = ("lead-hospital", "hospital-b")
    with consortium(directory, *names, ODC_ANALYST_LOG_LEVEL="debug") as made:
        found = made.publish(
            features=FEATURES, latent_dim=LATENT_DIM, anchor={"kind": "haar", "rows": FEATURES}
        )
        for session in made.sessions.values():
            sdk.accept_terms(session, found)
        tables, said = {}, ""
        sdk.create_anchor(made.lead, found)
        for seed, name in enumerate(names):
            tables[name] = distinctive(seed)
            path = made.sessions[name].home.path / "rows.csv"
            pyarrow.csv.write_csv(tables[name], path)
            said += talk(made, name, "contribute", str(path))
        made.wait_for(found, "released")
        for name in names:
            said += talk(made, name, "receive") + talk(made, name, "status")
        yield Played(made, found, tables, said)


def talk(made: Consortium, name: str, *words: str) -> str:
    """Run a command and return all it said, on both channels."""
    process = made.institution(name).start("--verbose", *words)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out + err


def matrices(played: Played) -> dict[str, Matrix64]:
    """A, and every F_i and X_i."""
    found: dict[str, Matrix64] = {}
    for name, session in played.sessions.items():
        terms = stored_terms(session, played.collaboration_id)
        found["A"], _ = open_anchor(session, played.collaboration_id)
        found[f"F of {name}"] = np.load(session.home.collaboration(played.collaboration_id) / "basis.npy")
        found[f"X of {name}"] = encode_rows(played.tables[name], terms.table_schema)
        features = [f"x{i}" for i in range(FEATURES)]
        found[f"table of {name}"] = np.column_stack([played.tables[name].column(c) for c in features])
    return found


def secrets_of(session: Session, collaboration_id: str) -> dict[str, bytes]:
    """Every secret of one institution, as the bytes it is made of."""
    directory = session.home.collaboration(collaboration_id)
    sealing = (directory / "sealing.key").read_bytes()
    anchor, _ = session.stored(collaboration_id, SealedAnchor, "anchor.odc", "")
    info = anchor_info(collaboration_id, anchor.terms_digest, anchor.recipient)
    seed = SealingKey.from_bytes(sealing).open(anchor.ciphertext, info)
    stream_key = derive(seed, "odc/v1/anchor/haar")
    return {
        "anchor seed": seed,
        "key of the anchor's stream": stream_key,
        "the anchor's stream": Cipher(ChaCha20(stream_key, bytes(16)), None).encryptor().update(bytes(64)),
        "identity key": scalar(session.home.key()),
        "ML-KEM sealing key": sealing[:64],
        "X25519 sealing key": sealing[64:],
    }


def scalar(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes(32, "big")


def spellings(secrets: dict[str, bytes]) -> dict[str, bytes]:
    """Each secret as it may stand in memory or in a text."""
    found: dict[str, bytes] = {}
    for name, value in secrets.items():
        found |= {
            name: value,
            f"{name}, reversed": value[::-1],  # a big number in memory has its low bytes first
            f"{name}, hex": value.hex().encode(),
            f"{name}, base64": base64.b64encode(value).rstrip(b"=")[:-1],
            f"{name}, repr": repr(value).encode()[2:-1],
        }
    return found


@pytest.fixture(scope="module")
def must_stay(played: Played) -> Needles:
    """Every pattern that must not be at the analyst."""
    patterns: dict[str, bytes] = {}
    for name, matrix in matrices(played).items():
        patterns |= of_matrix(name, matrix)
    secrets: dict[str, bytes] = {}
    for name, session in played.sessions.items():
        own = secrets_of(session, played.collaboration_id)
        secrets |= {f"{what} of {name}": value for what, value in own.items()}
        pem = session.home.key_path.read_bytes().split(b"\n")
        private_lines = pem[1:3]  # the third is the public key alone
        patterns |= {f"PEM line {i} of {name}": line for i, line in enumerate(private_lines)}
        texts = pyarrow.csv.read_csv(session.home.path / "rows.csv").column("x0").to_pylist()
        patterns |= {f"text of row {i} of {name}": repr(value).encode() for i, value in enumerate(texts)}
    for index, secret in enumerate(played.consortium.join_secrets):
        secrets[f"join secret {index}"] = bytes.fromhex(secret)
    lead = played.consortium.lead.home
    locked = (lead.consortium_path / "root.locked").read_bytes()
    root = Authority.unlock(locked, PASSPHRASE, lead.root().certificate)
    secrets["root key"] = scalar(root._key)
    secrets["locked root key"] = locked[-64:]
    patterns["passphrase"] = PASSPHRASE.encode()
    return Needles({**patterns, **spellings(secrets)})


def test_the_search_looks_for_every_kind_of_secret(must_stay: Needles) -> None:
    kinds = (
        "A row",
        "F of",
        "X of",
        "table of",
        "text of",
        "seed",
        "stream",
        "identity",
        "join secret",
        "root key",
    )
    assert all(any(kind in name for name in must_stay._patterns) for kind in kinds)
    assert len(must_stay._patterns) > 400
    for name, pattern in must_stay._patterns.items():
        assert must_stay.found_in(b"\x00odd" + pattern + b"\xff") >= {name}


def test_nothing_that_must_stay_lies_in_the_analysts_files(played: Played, must_stay: Needles) -> None:
    files = blocks_of_files(played.consortium.analyst.data_dir, must_stay.overlap)
    assert must_stay.found_in_all(files) == set()


def test_the_search_finds_what_does_lie_in_the_analysts_files(played: Played) -> None:
    session = played.sessions["hospital-b"]
    payload = session.home.collaboration(played.collaboration_id) / "uplink.payload"
    rep = np.frombuffer(payload.read_bytes(), "<f4", count=ROWS * LATENT_DIM).reshape(ROWS, LATENT_DIM)
    known = {f"X~ row {i}": row.tobytes() for i, row in enumerate(rep)}
    known["the terms"] = played.collaboration_id.encode()  # in SQLite
    known["the log"] = f"/v1/collaborations/{played.collaboration_id}/anchors".encode()
    needles = Needles(known)
    files = blocks_of_files(played.consortium.analyst.data_dir, needles.overlap)
    assert needles.found_in_all(files) == set(known)


def processes(played: Played) -> dict[str, int]:
    """The server, and its compute process."""
    server = psutil.Process(played.consortium.analyst.server.pid)  # type: ignore[union-attr]  # it runs
    (computes,) = [child for child in server.children() if "spawn_main" in " ".join(child.cmdline())]
    return {"server": server.pid, "compute": computes.pid}


def search_memory(pid: int, needles: Needles) -> set[str]:
    try:
        return needles.found_in_all(blocks_of_memory(pid, needles.overlap))
    except (PermissionError, FileNotFoundError):
        pytest.skip(HOLD_STILL)


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
@pytest.mark.parametrize("which", ["server", "compute"])
def test_nothing_that_must_stay_is_in_the_analysts_memory(
    played: Played, must_stay: Needles, which: str
) -> None:
    assert search_memory(processes(played)[which], must_stay) == set()


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
def test_the_search_finds_what_is_in_the_servers_memory(played: Played) -> None:
    identity = played.consortium.analyst.data_dir / "identity"
    with played.consortium.operator() as opened:
        known = {
            "the analyst's certificate": opened.certificate.public_bytes(Encoding.DER),
            "the analyst's key": scalar(opened.key)[::-1],
            "the directory of its data": str(identity.parent).encode(),
        }
    found = search_memory(processes(played)["server"], Needles(known))
    assert found >= {"the analyst's certificate", "the directory of its data"}
    assert found == set(known)


@pytest.mark.skipif(sys.platform != "linux", reason=HOLD_STILL)
def test_the_search_finds_what_is_in_the_compute_process(played: Played) -> None:
    known = {"its directory": str(played.consortium.analyst.data_dir).encode()}
    assert search_memory(processes(played)["compute"], Needles(known)) == set(known)


def test_no_secret_is_told_at_the_most_talkative_level(played: Played, must_stay: Needles) -> None:
    log = played.consortium.log()
    assert " DEBUG " in log
    assert must_stay.found_in(log.encode()) == set()
    assert must_stay.found_in(played.said.encode()) == set()


def test_no_repr_shows_a_secret(played: Played, must_stay: Needles) -> None:
    session = played.sessions["lead-hospital"]
    directory = session.home.collaboration(played.collaboration_id)
    locked = (session.home.consortium_path / "root.locked").read_bytes()
    with played.consortium.operator() as opened:
        shown = [
            SealingKey.from_bytes((directory / "sealing.key").read_bytes()),
            Authority.unlock(locked, PASSPHRASE, session.home.root().certificate),
            session,
            session.home,
            session.connection,
            session.membership,
            opened,
            opened.records,
            sdk.prepare(session, played.collaboration_id, session.home.path / "rows.csv"),
        ]
        texts = [f"{value!r} {value!s}" for value in shown]
        key = scalar(opened.key)
    invitation = sdk.invite(session, "hospital-z")
    seed = secrets_of(session, played.collaboration_id)["anchor seed"]
    texts += [repr(invitation), repr(KeyStream(seed, "odc/v1/anchor/haar"))]
    join_secret = bytes.fromhex(invitation.join_secret)
    own = Needles(spellings({"the analyst's key": key, "the new join secret": join_secret}))
    for text in texts:
        assert must_stay.found_in(text.encode() + b"\x00") == set()
        assert own.found_in(text.encode() + b"\x00") == set()
