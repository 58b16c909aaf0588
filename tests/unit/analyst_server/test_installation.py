from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from analyst_server import installation
from protocol.codec import decode
from protocol.errors import CertificateRefusedError, InvitationError
from protocol.identity import Identity, requested_key
from protocol.messages import Enrolment
from tests.harness.certificates import CONSORTIUM_ID, NOW, issue, make_root, shared_root
from tests.harness.enrolments import invitation
from user_client.custody.authority import Authority


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "identity"


def issued(directory: Path, **changed: Any) -> bytes:
    """Return the certificate the lead issues for the request of this directory."""
    root = Authority(shared_root().key, shared_root().certificate)
    request = decode(Enrolment, installation.join(directory, invitation(), now=NOW))
    identity = Identity(**{"consortium_id": CONSORTIUM_ID, "role": "analyst", "name": "analyst", **changed})
    return root.issue(requested_key(request.csr), identity, now=NOW).public_bytes(Encoding.PEM)


def test_the_key_is_made_where_it_is_used_and_only_its_owner_can_read_it(directory: Path) -> None:
    installation.join(directory, invitation(), now=NOW)
    assert stat.S_IMODE((directory / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_key_is_not_in_the_request(directory: Path) -> None:
    request = installation.join(directory, invitation(), now=NOW)
    key = load_pem_private_key((directory / "key.pem").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    private = key.private_numbers().private_value.to_bytes(32, "big")
    assert private not in request


def test_joining_again_keeps_the_key(directory: Path) -> None:
    installation.join(directory, invitation(), now=NOW)
    before = (directory / "key.pem").read_bytes()
    installation.join(directory, invitation(), now=NOW)
    assert (directory / "key.pem").read_bytes() == before


@pytest.mark.parametrize("role", ["institution", "lead"])
def test_an_invitation_for_somebody_else_is_refused(directory: Path, role: str) -> None:
    with pytest.raises(InvitationError, match="not for an analyst"):
        installation.join(directory, invitation(role=role), now=NOW)
    assert not directory.exists()


def test_an_expired_invitation_is_refused(directory: Path) -> None:
    with pytest.raises(InvitationError, match="expired"):
        installation.join(directory, invitation(expires_at=NOW), now=NOW)


def test_an_issued_certificate_is_installed(directory: Path) -> None:
    pem = issued(directory)
    assert installation.install(directory, pem, now=NOW).role == "analyst"
    assert (directory / "certificate.pem").read_bytes() == pem


def test_nothing_is_installed_before_joining(directory: Path) -> None:
    with pytest.raises(InvitationError, match="join first"):
        installation.install(directory, b"", now=NOW)


def test_a_certificate_for_another_role_is_refused(directory: Path) -> None:
    with pytest.raises(CertificateRefusedError, match="for institution hospital-a"):
        installation.install(directory, issued(directory, role="institution", name="hospital-a"), now=NOW)


@pytest.mark.parametrize("root", [shared_root(), make_root()], ids=["another key", "another root"])
def test_a_certificate_for_another_key_or_root_is_refused(directory: Path, root: Any) -> None:
    installation.join(directory, invitation(), now=NOW)
    with pytest.raises(CertificateRefusedError):
        installation.install(directory, issue(root, "analyst", "analyst").pem, now=NOW)
    assert not (directory / "certificate.pem").exists()


def test_a_key_of_another_kind_is_refused(directory: Path) -> None:
    directory.mkdir()
    other = rsa.generate_private_key(65537, 2048)
    (directory / "key.pem").write_bytes(
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(CertificateRefusedError, match="not an ECDSA key"):
        installation.join(directory, invitation(), now=NOW)


def test_a_key_that_is_not_there_yet_is_said_with_what_to_run(directory: Path) -> None:
    with pytest.raises(CertificateRefusedError, match="there is no key in") as raised:
        installation.own_key_fingerprint(directory)
    assert "odc-analyst join" in raised.value.hint


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n", b"\xff\xfe"])
def test_a_damaged_key_is_refused(directory: Path, content: bytes) -> None:
    directory.mkdir()
    (directory / "key.pem").write_bytes(content)
    with pytest.raises(CertificateRefusedError, match="not an ECDSA key") as raised:
        installation.own_key_fingerprint(directory)
    assert "backup" in raised.value.hint


def test_a_key_under_a_passphrase_is_refused(directory: Path) -> None:
    directory.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    closed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (directory / "key.pem").write_bytes(closed)
    with pytest.raises(CertificateRefusedError, match="not an ECDSA key"):
        installation.own_key_fingerprint(directory)


def test_a_root_that_a_power_cut_has_emptied_is_written_again(directory: Path) -> None:
    installation.join(directory, invitation(), now=NOW)
    root = (directory / "root.pem").read_bytes()
    (directory / "root.pem").write_bytes(b"")
    installation.join(directory, invitation(), now=NOW)
    assert (directory / "root.pem").read_bytes() == root != b""


def test_the_root_is_on_the_disk_before_it_has_its_name(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.join(directory, invitation(), now=NOW)
    (directory / "root.pem").unlink()
    seen: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda _descriptor: seen.append((directory / "root.pem").exists()))
    installation.join(directory, invitation(), now=NOW)
    assert seen[:1] == [False]
    assert stat.S_IMODE((directory / "root.pem").stat().st_mode) == 0o644
