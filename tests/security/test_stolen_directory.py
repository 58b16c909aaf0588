"""Somebody has copied a state directory, and has no passphrase."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_pem_private_key,
)

from protocol.errors import OdcError
from protocol.identity import Identity
from tests.harness.attacks import colluders_basis, got, reconstruction_error
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, rows
from user_client import sdk
from user_client.custody.authority import Authority
from user_client.custody.home import Home
from user_client.custody.passphrase import unlock
from user_client.custody.protection import unprotect
from user_client.errors import PassphraseError
from user_client.sdk import Session
from user_client.sdk.anchor import open_anchor
from user_client.sdk.session import unix_now
from user_client.secret.expansion import Matrix64
from user_client.tables import encode_rows

ROWS, FEATURES, LATENT_DIM = 40, 4, 3
GUESSES = ("password", PASSPHRASE.title())


def found_consortium(path: Path) -> None:
    with Session(path) as session:
        sdk.create_consortium(
            session,
            name="Test consortium",
            party="lead-hospital",
            analyst_url="https://localhost:8443",
            passphrase=PASSPHRASE,
        )


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lead")
    found_consortium(path)
    return path


@pytest.fixture
def unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mutation: a root key that is kept as it is."""

    def as_it_is(self: Authority, _passphrase: str) -> bytes:
        return self.private_bytes()

    monkeypatch.setattr(Authority, "lock", as_it_is)
    found_consortium(tmp_path / "lead")
    return tmp_path / "lead"


def root_keys(stolen: Path) -> Iterator[ec.EllipticCurvePrivateKey]:
    """Every root key a thief gets: from each file as it lies there, and by guessing."""
    for path in stolen.rglob("*"):
        if path.is_file():
            try:
                key = load_der_private_key(path.read_bytes(), None)
            except (ValueError, TypeError):
                continue
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            yield key
    locked = (stolen / "consortium" / "root.locked").read_bytes()
    for guess in GUESSES:
        try:
            key = load_der_private_key(unlock(locked, guess), None)
        except (PassphraseError, ValueError):
            continue
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        yield key


def forged(stolen: Path) -> list[x509.Certificate]:
    """Certificates a thief issues: for an analyst of its own, under the consortium's root."""
    with Session(stolen) as session:
        root, name = session.home.root(), Identity(session.membership.consortium_id, "analyst", "analyst")
    mine, found = ec.generate_private_key(ec.SECP256R1()).public_key(), []
    for key in root_keys(stolen):
        certificate = Authority(key, root.certificate).issue(mine, name, hosts=["localhost"], now=unix_now())
        assert root.identify(certificate, at=unix_now()) == name
        found.append(certificate)
    return found


@pytest.mark.parametrize("defence", ["on", "off"])
def test_who_steals_the_leads_directory_issues_no_certificate(
    defence: str, locked: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stolen = tmp_path / "stolen"
    shutil.copytree(locked if defence == "on" else request.getfixturevalue("unlocked"), stolen)
    certificates = forged(stolen)
    got(f"thief, root key locked: {defence}", certificates=len(certificates), guesses=len(GUESSES))
    assert (len(certificates) > 0) == (defence == "off")


def test_the_passphrase_itself_opens_the_stolen_directory(locked: Path) -> None:
    """So the guesses above fail because they are wrong."""
    root = Session(locked).home.root()
    key_file = (locked / "consortium" / "root.locked").read_bytes()
    assert Authority.unlock(key_file, PASSPHRASE, root.certificate).certificate == root.certificate


def test_a_cheaper_lock_cannot_be_written_over_the_real_one(locked: Path) -> None:
    """The work factor is authenticated: a thief cannot ask for the same key at a lower price."""
    key_file = bytearray((locked / "consortium" / "root.locked").read_bytes())
    at = key_file.index(b"\n") + 1
    for log2_n in (1, 10, 16):
        key_file[at] = log2_n
        with pytest.raises(PassphraseError):
            Authority.unlock(bytes(key_file), PASSPHRASE, Session(locked).home.root().certificate)


# a member's directory, after a round


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    directory = tmp_path_factory.mktemp("protected")
    with consortium(directory, "lead-hospital", "hospital-b", passphrase=PASSPHRASE) as found:
        yield found


@pytest.fixture(scope="module")
def round_id(made: Consortium) -> str:
    found = made.anchored(latent_dim=LATENT_DIM)
    made.contribute("hospital-b", found, rows(1, ROWS))
    return found


@pytest.fixture
def stolen(made: Consortium, round_id: str, defence: str, tmp_path: Path) -> Path:
    """A copy of the directory of hospital-b; off: as it lies there without a passphrase."""
    copy = tmp_path / "stolen"
    shutil.copytree(made.sessions["hospital-b"].home.path, copy)
    if defence == "off":
        unprotect(Home(copy), PASSPHRASE)
    return copy


def sent(made: Consortium, round_id: str, directory: Path) -> tuple[Matrix64, Matrix64, Matrix64]:
    """X~_i and A_i, which lie open after they were sent, and the rows they came from."""
    payload = (directory / "collaborations" / round_id / "uplink.payload").read_bytes()
    numbers = np.frombuffer(payload, "<f4", count=(ROWS + FEATURES) * LATENT_DIM).astype(np.float64)
    rep, anchor_rep = np.split(numbers.reshape(-1, LATENT_DIM), [ROWS])
    schema = made.sessions["hospital-b"].round(round_id).terms.table_schema
    return rep, anchor_rep, encode_rows(rows(1, ROWS), schema)


def read_basis(directory: Path, round_id: str) -> Matrix64:
    """F_i if it can be read; a guess of nothing otherwise."""
    raw = (directory / "collaborations" / round_id / "basis.npy").read_bytes()
    try:
        return np.asarray(np.load(io.BytesIO(raw)), dtype=np.float64)
    except (ValueError, EOFError):
        return np.zeros((FEATURES, LATENT_DIM))


@pytest.mark.parametrize("defence", ["on", "off"])
def test_a_thief_rebuilds_no_row_from_a_protected_directory(
    made: Consortium, round_id: str, stolen: Path, defence: str
) -> None:
    rep, _, truth = sent(made, round_id, stolen)
    error = reconstruction_error(truth, rep @ read_basis(stolen, round_id).T)
    got(f"thief, directory protected: {defence}", error=error)
    assert error == 1 if defence == "on" else error < 0.6


@pytest.mark.parametrize("defence", ["on", "off"])
def test_a_thief_cannot_speak_for_the_institution(
    made: Consortium, round_id: str, stolen: Path, defence: str
) -> None:
    """The key in the file, and the session a thief would open with it."""
    try:
        load_pem_private_key((stolen / "key.pem").read_bytes(), None)
        is_open = True
    except TypeError:  # it is encrypted
        is_open = False
    asked = 0
    for guess in GUESSES:
        with Session(stolen, passphrase=lambda guess=guess: guess) as thief:  # type: ignore[misc]  # bound at once
            try:
                thief.round(round_id).status()
            except OdcError:
                continue
            asked += 1
    got(f"thief, directory protected: {defence}", key=int(is_open), answers_of_the_analyst=asked)
    assert (is_open, asked > 0) == (defence == "off",) * 2


@pytest.mark.parametrize("defence", ["on"])
def test_a_thief_who_has_the_anchor_needs_no_passphrase(
    made: Consortium, round_id: str, stolen: Path, defence: str
) -> None:
    """No defence: what was sent lies open, so thief and member together are analyst and member together."""
    rep, anchor_rep, truth = sent(made, round_id, stolen)
    anchor, _ = open_anchor(made.lead, made.lead.round(round_id).directory)
    guess = rep @ np.linalg.pinv(colluders_basis(anchor, anchor_rep))
    error = reconstruction_error(truth, guess)
    got("thief and member, directory protected", error=error)
    assert error < 0.6
