from __future__ import annotations

import pytest

from protocol.errors import UnreadableFileError
from user_client.custody.vault import Vault, is_sealed

NAME = "collaborations/1/basis.npy"
MIB = 2**20
VAULT = Vault.create()


def sealed(*parts: bytes | memoryview) -> bytes:
    return b"".join(VAULT.seal(NAME, parts))


@pytest.mark.parametrize("length", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_what_was_sealed_opens_again(length: int) -> None:
    data = bytes(range(256)) * (length // 256) + bytes(length % 256)
    found = sealed(data)
    assert is_sealed(found)
    assert len(found) == 30 + length + 16 * max(1, -(-length // MIB))
    assert VAULT.open(NAME, found) == data


def test_parts_are_sealed_as_one() -> None:
    parts: list[bytes | memoryview] = [b"a" * 700_000, memoryview(b"b" * 700_000), b"", b"c"]
    assert VAULT.open(NAME, sealed(*parts)) == b"".join(parts)


def test_the_same_is_sealed_differently_each_time() -> None:
    assert sealed(b"key")[14:] != sealed(b"key")[14:]


@pytest.mark.parametrize("place", range(14, 30 + 3 + 16))
def test_a_changed_byte_is_found(place: int) -> None:
    changed = bytearray(sealed(b"key"))
    changed[place] ^= 1
    with pytest.raises(UnreadableFileError):
        VAULT.open(NAME, bytes(changed))


@pytest.mark.parametrize("keep", [0, 14, 29, 30, 31, 46, 48])
def test_a_cut_file_is_found(keep: int) -> None:
    with pytest.raises(UnreadableFileError):
        VAULT.open(NAME, sealed(b"key")[:keep])


def test_a_file_cut_between_its_pieces_is_found() -> None:
    with pytest.raises(UnreadableFileError):
        VAULT.open(NAME, sealed(bytes(2 * MIB))[: 30 + MIB + 16])


def test_pieces_in_another_order_are_found() -> None:
    found, step = sealed(bytes(3 * MIB)), MIB + 16
    swapped = found[:30] + found[30 + step : 30 + 2 * step] + found[30 : 30 + step] + found[30 + 2 * step :]
    with pytest.raises(UnreadableFileError):
        VAULT.open(NAME, swapped)


def test_a_file_under_another_name_does_not_open() -> None:
    with pytest.raises(UnreadableFileError):
        VAULT.open("collaborations/2/basis.npy", sealed(b"key"))


def test_another_storage_key_does_not_open() -> None:
    with pytest.raises(UnreadableFileError):
        Vault.create().open(NAME, sealed(b"key"))


def test_the_key_is_not_in_the_repr() -> None:
    assert repr(Vault(b"k" * 32)) == "<Vault, unlocked>"
