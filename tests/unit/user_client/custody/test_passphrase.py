from __future__ import annotations

import pytest

from user_client.custody.passphrase import LOG2_N, lock, unlock
from user_client.errors import PassphraseError

FAST = 4
"""log2(N) for tests; what the product uses takes half a second."""
LOCKED = lock(b"key", "correct horse", log2_n=FAST)


def test_the_right_passphrase_opens() -> None:
    assert unlock(LOCKED, "correct horse") == b"key"


def test_nothing_at_all_can_be_locked() -> None:
    assert unlock(lock(b"", "x", log2_n=FAST), "x") == b""


@pytest.mark.parametrize("passphrase", ["", "correct hors", "correct horse ", "Correct horse"])
def test_another_passphrase_does_not_open(passphrase: str) -> None:
    with pytest.raises(PassphraseError):
        unlock(LOCKED, passphrase)


@pytest.mark.parametrize("place", range(len(LOCKED)))
def test_a_file_with_a_changed_byte_does_not_open(place: int) -> None:
    changed = bytearray(LOCKED)
    changed[place] ^= 1
    with pytest.raises(PassphraseError):
        unlock(bytes(changed), "correct horse")


@pytest.mark.parametrize("length", range(len(LOCKED)))
def test_a_file_cut_anywhere_does_not_open(length: int) -> None:
    with pytest.raises(PassphraseError):
        unlock(LOCKED[:length], "correct horse")


@pytest.mark.parametrize("log2_n", [0, 21, 255])
def test_a_file_that_asks_for_too_much_or_too_little_work_is_refused(log2_n: int) -> None:
    with pytest.raises(PassphraseError, match="not encrypted under a passphrase"):
        unlock(LOCKED[:14] + bytes([log2_n]) + LOCKED[15:], "correct horse")


def test_locking_again_gives_other_bytes() -> None:
    assert lock(b"key", "correct horse", log2_n=FAST) != LOCKED


def test_the_product_asks_for_the_work_owasp_advises() -> None:
    assert LOG2_N >= 17


def test_a_locked_file_does_not_hold_the_key() -> None:
    assert b"key" not in LOCKED
