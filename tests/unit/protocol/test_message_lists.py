from __future__ import annotations

import msgpack
import pytest

from protocol.codec import pack_list, unpack_list
from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import MAX_MESSAGE_BYTES, MAX_PARTIES


@pytest.mark.parametrize("items", [[], [b"one"], [b"", b"x" * 300, b"y" * 70_000]])
def test_a_list_comes_back_from_its_bytes(items: list[bytes]) -> None:
    assert unpack_list(pack_list(items)) == items


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        pack_list([b"one"])[:-1],
        pack_list([b"one"]) + b"\xc0",
        msgpack.packb({"one": b"two"}),
        msgpack.packb(["text"]),
        msgpack.packb([[b"nested"]]),
        msgpack.packb(b"bytes"),
        b"\x91\xa1\xff",
        b"\x91\xd6\xff\x00\x00\x00\x00",
        b"\x91" * 3000 + b"\xc0",
        pack_list([b""] * (MAX_PARTIES + 1)),
    ],
)
def test_anything_but_an_array_of_byte_strings_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        unpack_list(data)


def test_a_list_of_too_many_bytes_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitExceededError):
        unpack_list(bytes(MAX_MESSAGE_BYTES + 1))
