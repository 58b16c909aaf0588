"""Whom a connection believes, and who it says that we are: files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import UnreadableFileError
from tests.harness.certificates import shared_member, shared_root
from tests.harness.scripted_server import InTurn, connect
from user_client.custody.home import key_pem
from user_client.transport.trust import trusting


@pytest.fixture
def identity(tmp_path: Path) -> tuple[Path, Path]:
    member, paths = shared_member(), (tmp_path / "certificate.pem", tmp_path / "key.pem")
    paths[0].write_bytes(member.certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key_pem(member.key, None))
    return paths


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_damaged_certificate_or_key_is_named(identity: tuple[Path, Path], which: int, damage: str) -> None:
    connect(InTurn(), identity=identity)
    identity[which].write_text(damage)
    with pytest.raises(
        UnreadableFileError, match=r"certificate\.pem and .*key\.pem: one of them is damaged"
    ) as e:
        connect(InTurn(), identity=identity)
    assert "backup" in e.value.hint


def test_a_missing_key_is_named(identity: tuple[Path, Path]) -> None:
    identity[1].unlink()
    with pytest.raises(UnreadableFileError, match=r"key\.pem: No such file or directory"):
        connect(InTurn(), identity=identity)


@pytest.mark.parametrize("pem", ["", "garbage", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_a_damaged_root_is_said_to_be_damaged(pem: str) -> None:
    with pytest.raises(UnreadableFileError, match="the root's certificate: it is damaged"):
        trusting(pem, None)


@pytest.mark.parametrize(("damage", "reason"), [("garbage", "it is damaged"), (None, "No such file")])
def test_a_revocation_list_that_cannot_be_used_is_named(
    damage: str | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "revocations.crl"
    if damage is not None:
        path.write_text(damage)
    with pytest.raises(UnreadableFileError, match=rf"revocations\.crl: {reason}"):
        trusting(shared_root().pem.decode(), path)
