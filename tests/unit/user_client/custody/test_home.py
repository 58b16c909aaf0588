from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from protocol.errors import CertificateRefusedError, InputError, UnreadableFileError
from runtime.files import write_whole
from tests.harness.certificates import CONSORTIUM_ID, shared_member, shared_root
from user_client.custody import home as home_module
from user_client.custody.home import Home, Membership
from user_client.errors import NotJoinedError

MEMBERSHIP = Membership("Heart", CONSORTIUM_ID, "https://analyst:8443", "institution", "hospital-a")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def join(home: Home) -> None:
    home.write_membership(MEMBERSHIP, shared_member().certificate, shared_root().certificate)


def test_a_membership_is_read_as_it_was_written(home: Home) -> None:
    join(home)
    assert home.membership() == MEMBERSHIP
    assert home.certificate() == shared_member().certificate
    assert home.root().certificate == shared_root().certificate


def test_a_membership_knows_its_identity(home: Home) -> None:
    assert MEMBERSHIP.identity.urn == f"urn:odc:{CONSORTIUM_ID}:institution:hospital-a"


def test_an_institution_has_joined_once_its_membership_is_written(home: Home) -> None:
    assert not home.is_joined()
    join(home)
    assert home.is_joined()


def test_a_join_that_broke_off_is_no_join(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_whole

    def break_off(path: Path, *data: bytes) -> None:
        if path.name == "membership.json":
            raise OSError("disk full")
        written(path, *data)

    monkeypatch.setattr(home_module, "write_whole", break_off)
    with pytest.raises(OSError, match="disk full"):
        join(home)
    assert not home.is_joined()


@pytest.mark.parametrize("what", ["membership", "certificate", "root", "key"])
def test_what_is_not_there_asks_to_join(home: Home, what: str) -> None:
    with pytest.raises(NotJoinedError, match="there is no"):
        getattr(home, what)()


def test_a_key_is_drawn_once(home: Home) -> None:
    first, again = home.make_key(), home.make_key()
    assert first.private_numbers() == again.private_numbers() == home.key().private_numbers()


def test_only_the_owner_can_read_the_key(home: Home) -> None:
    home.make_key()
    assert stat.S_IMODE(home.key_path.stat().st_mode) == 0o600


def test_a_key_of_another_kind_is_refused(home: Home) -> None:
    home.path.mkdir()
    other = rsa.generate_private_key(65537, 2048)
    home.key_path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CertificateRefusedError, match="not an ECDSA key"):
        home.key()


@pytest.mark.parametrize("damage", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_key_is_said_to_be_damaged(home: Home, damage: bytes) -> None:
    home.make_key()
    home.key_path.write_bytes(damage)
    with pytest.raises(UnreadableFileError, match=r"key\.pem: it is damaged") as caught:
        home.key()
    assert "backup" in caught.value.hint


def test_a_secret_that_is_missing_is_named(home: Home) -> None:
    with pytest.raises(UnreadableFileError, match=r"cannot read .*root\.locked: No such file") as caught:
        home.read_secret(home.root_key_path)
    assert "backup" in caught.value.hint


def test_a_membership_without_a_role_is_none(home: Home) -> None:
    join(home)
    path = home.path / "membership.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "role": "king"}))
    with pytest.raises(NotJoinedError, match="is damaged"):
        home.membership()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"role": 1}', "null"])
def test_a_damaged_membership_is_said_to_be_damaged(home: Home, text: str) -> None:
    join(home)
    (home.path / "membership.json").write_text(text)
    with pytest.raises(NotJoinedError, match="is damaged"):
        home.membership()


def test_the_rounds_lie_apart(home: Home) -> None:
    assert home.collaboration("a" * 32) != home.collaboration("b" * 32)
    assert repr(home) == f"<Home {home.path}>"


@pytest.mark.parametrize("name", ["", "..", "../../elsewhere", "/etc", "typo", "A" * 32, "a" * 31])
def test_what_is_no_id_names_no_place(home: Home, name: str) -> None:
    with pytest.raises(InputError, match="32 hexadecimal digits"):
        home.collaboration(name)
