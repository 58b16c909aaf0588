from __future__ import annotations

import hashlib
import hmac

import pytest

from protocol.limits import MAX_KEY_STREAM_BYTES
from user_client.custody.keystream import KeyStream

SEED = bytes(range(32))


def chacha20(key: bytes, count: int) -> bytes:
    """RFC 8439, section 2.4, with a zero nonce and the counter from zero: slow and plain."""
    stream = b""
    counter = 0
    while len(stream) < count:
        words = [int.from_bytes(part, "little") for part in pieces(b"expand 32-byte k" + key)]
        start = [*words, counter, 0, 0, 0]
        state = list(start)
        for _ in range(10):
            for column in range(4):
                quarter(state, column, column + 4, column + 8, column + 12)
            for column in range(4):
                quarter(state, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
        stream += b"".join(
            ((one + other) % 2**32).to_bytes(4, "little") for one, other in zip(state, start, strict=True)
        )
        counter += 1
    return stream[:count]


def pieces(data: bytes) -> list[bytes]:
    return [data[start : start + 4] for start in range(0, len(data), 4)]


def quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for first, second, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[first] = (state[first] + state[second]) % 2**32
        mixed = state[third] ^ state[first]
        state[third] = (mixed << bits | mixed >> 32 - bits) % 2**32


def derived(purpose: str) -> bytes:
    """RFC 5869 without salt, one block."""
    secret = hmac.digest(bytes(32), SEED, "sha256")
    return hmac.digest(secret, purpose.encode() + b"\x01", hashlib.sha256)


def test_the_plain_definition_is_that_of_the_rfc() -> None:
    """RFC 8439, appendix A.1, test vector 1: key, nonce and counter zero."""
    assert chacha20(bytes(32), 16).hex() == "76b8e0ada0f13d90405d6ae55386bd28"


@pytest.mark.parametrize("purpose", ["odc/v1/anchor/haar", "odc/v1/secret-basis", ""])
def test_the_stream_is_chacha20_under_a_key_for_its_purpose(purpose: str) -> None:
    assert KeyStream(SEED, purpose).read(200) == chacha20(derived(purpose), 200)


@pytest.mark.parametrize("sizes", [[200], [1] * 200, [63, 1, 64, 72], [0, 200]])
def test_the_stream_is_the_same_in_pieces_of_any_size(sizes: list[int]) -> None:
    stream = KeyStream(SEED, "purpose")
    assert b"".join(map(stream.read, sizes)) == KeyStream(SEED, "purpose").read(200)


def test_two_purposes_share_nothing() -> None:
    assert KeyStream(SEED, "one").read(32) != KeyStream(SEED, "other").read(32)


def test_a_fresh_stream_cannot_be_repeated() -> None:
    assert KeyStream.fresh("purpose").read(32) != KeyStream.fresh("purpose").read(32)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_seed_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        KeyStream(bytes(length), "purpose")


def test_the_stream_ends_before_its_counter_does() -> None:
    stream = KeyStream(SEED, "purpose")
    with pytest.raises(ValueError, match="ends after"):
        stream.read(MAX_KEY_STREAM_BYTES + 1)


def test_a_stream_shows_nothing_of_itself() -> None:
    assert repr(KeyStream(SEED, "purpose")) == "<KeyStream>"
