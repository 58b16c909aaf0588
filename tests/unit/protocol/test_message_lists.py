from __future__ import annotations

import tracemalloc

import msgpack
import pytest

from protocol.codec import pack_list, pack_lists, unpack_list, unpack_lists
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


@pytest.mark.parametrize("filling", [b"\x90", b"\x81\xa0\xc0"], ids=["arrays", "maps"])
def test_containers_inside_a_list_are_not_built(filling: bytes) -> None:
    """Each takes a byte on the way and a hundred in memory."""
    row = b"\xdc\x40\x00" + filling * 0x4000
    data = b"\xdc\x00\x20" + row * 0x20
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError):
            unpack_list(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 100_000
    finally:
        tracemalloc.stop()


def test_a_list_of_too_many_bytes_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitExceededError):
        unpack_list(bytes(MAX_MESSAGE_BYTES + 1))


def test_items_that_are_too_many_for_one_list_come_in_several() -> None:
    items = [bytes([number % 256]) * 2100 for number in range(5000)]
    lists = list(pack_lists(items))
    assert len(lists) == 3
    assert max(map(len, lists)) <= MAX_MESSAGE_BYTES
    assert [item for one in lists for item in unpack_list(one)] == items
    assert unpack_lists(b"".join(lists)) == items


def test_lists_are_as_long_as_the_limits_allow() -> None:
    items = [b""] * (MAX_PARTIES + 1)
    assert [len(unpack_list(one)) for one in pack_lists(items)] == [MAX_PARTIES, 1]
    largest = bytes(MAX_MESSAGE_BYTES - 6)  # the heads of an array and of a byte string
    assert unpack_list(next(pack_lists([largest]))) == [largest]
    with pytest.raises(LimitExceededError):
        list(pack_lists([largest + b"1"]))


def test_no_items_are_no_list() -> None:
    assert list(pack_lists([])) == unpack_lists(b"") == []


@pytest.mark.parametrize(
    "data", [b"\xc1", pack_list([b"one"]) + b"\xc0", pack_list([b"one"]) + pack_list([b"two"])[:-1]]
)
def test_a_file_of_lists_that_is_damaged_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        unpack_lists(data)
