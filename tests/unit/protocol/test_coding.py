from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from protocol.coding import WORDS, Coding
from protocol.errors import LimitExceededError, MalformedMessageError
from tests.harness.document import section
from tests.vectors import generate

CASES: list[dict[str, Any]] = json.loads((Path(generate.__file__).parent / "codings.json").read_text())
CODING = Coding.of(b"a certificate")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_vector_unpacks_to_what_it_says(case: dict[str, Any]) -> None:
    coding = Coding.of(bytes.fromhex(case["certificate"]))
    packed = bytes.fromhex(case["packed"])
    assert coding.name == case["coding"]
    if case["valid"]:
        data = coding.unpack(packed, 1000)
        assert data.hex() == case["data"]
        assert coding.unpack(coding.pack(data), 1000) == data
    else:
        with pytest.raises(MalformedMessageError):
            coding.unpack(packed, 1000)


def test_the_words_stand_in_the_document() -> None:
    assert f"```none\n{WORDS.decode()}```\n" in section("Content coding")


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 300_000])
def test_long_data_is_packed_as_well(size: int) -> None:
    data = (WORDS * (size // len(WORDS) + 1))[:size]
    packed = CODING.pack(data)
    assert len(packed) < size / 20
    assert CODING.unpack(packed, size) == data


def test_another_certificate_is_another_coding() -> None:
    other = Coding.of(b"another certificate")
    assert other.name != CODING.name
    assert other.unpack(CODING.pack(b"a certificate"), 1000) != b"a certificate"


@pytest.mark.parametrize("length", [0, 1, 999, 1000])
def test_as_much_is_unpacked_as_the_limit_allows(length: int) -> None:
    assert CODING.unpack(CODING.pack(bytes(length)), 1000) == bytes(length)


def test_a_body_that_grows_beyond_its_limit_takes_no_memory() -> None:
    packed = CODING.pack(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceededError):
            CODING.unpack(packed, 1000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_it_does_not_show_its_dictionary() -> None:
    assert "odc/v1" not in repr(CODING)
