"""Somebody has copied a state directory, and has no passphrase."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from protocol.identity import Identity
from tests.security.printing import got
from user_client import sdk
from user_client.custody.authority import Authority
from user_client.errors import PassphraseError
from user_client.sdk import Session
from user_client.sdk.session import unix_now

PASSPHRASE = "four words of dice"
GUESSES = ("", "password", PASSPHRASE.title())


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
        return self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

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
    root = Session(stolen).home.root().certificate
    for guess in GUESSES:
        try:
            yield Authority.unlock(locked, guess, root)._key
        except (PassphraseError, ValueError):
            continue


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
