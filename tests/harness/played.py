"""One whole round, by real processes that say all they can, and everything in it that must stay secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.serialization import load_der_private_key

from protocol.envelope import SealingKey, anchor_info, derive
from protocol.messages import SealedAnchor
from tests.harness.consortium import PASSPHRASE, Consortium, consortium
from tests.harness.needles import Needles, of_matrix
from user_client.custody.passphrase import unlock
from user_client.sdk import Session
from user_client.sdk.anchor import open_anchor
from user_client.secret.expansion import Matrix64
from user_client.tables import encode_rows

FEATURES, LATENT_DIM, ROWS = 8, 5, 24


TALKATIVE = """
import logging
logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
logging.Logger.setLevel = lambda _self, _level: None  # whatever a program thinks of its own logs
"""
"""A module that Python loads before a program: every logger of every library is at DEBUG."""


@dataclass
class Played:
    """A finished round whose server still runs, and what the institutions said meanwhile."""

    consortium: Consortium
    collaboration_id: str
    tables: dict[str, pa.Table]
    said: list[str] = field(default_factory=list)
    """All that each command wrote, on both channels, in its turn."""

    @property
    def sessions(self) -> dict[str, Session]:
        return self.consortium.sessions


def distinctive(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-9, 9, (ROWS, FEATURES))
    label = np.where(values[:, 0] > 0, "yes", "no")
    return pa.table({**{f"x{i}": values[:, i] for i in range(FEATURES)}, "label": label})


def talk(made: Consortium, *commands: tuple[str, ...], fails: bool = False) -> list[str]:
    """Run commands beside each other, each an institution's name and words; return all that they said."""
    started = [made.institution(name).start("--verbose", *words) for name, *words in commands]
    said = []
    for process, (name, *words) in zip(started, commands, strict=True):
        out, err = process.communicate(timeout=300)
        assert (process.returncode != 0) == fails, f"{name}: {' '.join(words)}\n{err[-2000:]}"
        said.append(out + err)
    return said


@contextmanager
def talkative(directory: Path, also: str = "") -> Iterator[dict[str, str]]:
    """Let every process that is started now log all it can; yield the settings that make it so."""
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(TALKATIVE + also)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(directory))
        yield {"PYTHONPATH": str(directory)}


@contextmanager
def whole_round(directory: Path) -> Iterator[Played]:
    """Play one round by the command `odc`, everything as talkative as it can be."""
    names = ("lead-hospital", "hospital-b")
    with (
        talkative(directory / "talkative"),
        consortium(directory, *names, ODC_ANALYST_LOG_LEVEL="debug") as made,
    ):
        found = made.publish(
            features=FEATURES, latent_dim=LATENT_DIM, anchor={"kind": "haar", "rows": FEATURES}
        )
        played = Played(made, found, {})
        for seed, name in enumerate(names):
            played.tables[name] = distinctive(seed)
            pyarrow.csv.write_csv(played.tables[name], made.sessions[name].home.path / "rows.csv")

        def listen(names: Sequence[str], *words: str) -> None:
            played.said += talk(made, *((name, *words) for name in names))

        made.play_by_command(found, "rows.csv", listen)
        yield played


def matrices(played: Played) -> dict[str, Matrix64]:
    """A, and every F_i and X_i."""
    found: dict[str, Matrix64] = {}
    for name, session in played.sessions.items():
        terms = session.round(played.collaboration_id).terms
        found["A"], _ = open_anchor(session, session.round(played.collaboration_id).directory)
        found[f"F of {name}"] = np.load(session.home.collaboration(played.collaboration_id) / "basis.npy")
        found[f"X of {name}"] = encode_rows(played.tables[name], terms.table_schema)
        features = [f"x{i}" for i in range(FEATURES)]
        found[f"table of {name}"] = np.column_stack([played.tables[name].column(c) for c in features])
    return found


def secrets_of(session: Session, collaboration_id: str) -> dict[str, bytes]:
    """Every secret of one institution, as the bytes it is made of."""
    directory = session.home.collaboration(collaboration_id)
    sealing = (directory / "sealing.key").read_bytes()
    anchor = session.round(collaboration_id).directory.load(SealedAnchor)
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
            f"{name}, decimal": str(int.from_bytes(value, "big")).encode(),
            f"{name}, list": str(list(value))[1:-1].encode(),
        }
    return found


def needles_of(played: Played) -> Needles:
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
    root_key = load_der_private_key(unlock(locked, PASSPHRASE), None)
    assert isinstance(root_key, ec.EllipticCurvePrivateKey)
    secrets["root key"] = scalar(root_key)
    secrets["locked root key"] = locked[-64:]
    patterns["passphrase"] = PASSPHRASE.encode()
    return Needles({**patterns, **spellings(secrets)})


def decimals_of(matrix: Matrix64) -> set[str]:
    """Return how each entry begins when it is written out: one digit, the point and seven more.

    So it stands in a JSON file, in a traceback, and in what numpy prints of an array.
    """
    return {f"{abs(value):.17f}"[:9] for value in matrix.ravel() if 1e-3 < abs(value) < 10}


def decimals_in(text: str) -> set[str]:
    """Return every number of a text as `decimals_of` writes it.

    numpy prints an array with an exponent where one of its entries is small.
    """
    found = re.findall(r"(?<![\d.])\d\.\d{7,}(?:e-0[12]|e\+00)?", text)
    return {(f"{float(each):.17f}" if "e" in each else each)[:9] for each in found}
