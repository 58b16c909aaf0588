from __future__ import annotations

import hashlib
import subprocess
import sys

import msgpack
import pytest

from protocol.codec import decode, digest, encode
from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import Enrolment, Receipt
from protocol.table_schema import NumericColumn, Schema
from protocol.terms import Terms
from tests.vectors.examples import TERMS, changed
from tests.vectors.packing import pack

RECEIPT = Receipt(
    collaboration_id="0" * 32,
    party="hospital-a",
    uplink_digest=bytes(32),
    payload_bytes=1,
    received_at=2,
    ledger_index=3,
    ledger_digest=bytes(32),
)


def test_keys_are_sorted_at_every_level() -> None:
    terms = decode(Terms, pack(TERMS))
    unpacked = msgpack.unpackb(encode(terms))
    assert list(unpacked) == sorted(unpacked)
    column = unpacked["table_schema"]["columns"][0]
    assert list(column) == sorted(column)


def test_the_order_of_a_list_is_kept() -> None:
    terms = decode(Terms, pack({**TERMS, "parties": ["z", "hospital-a"]}))
    assert msgpack.unpackb(encode(terms))["parties"] == ["z", "hospital-a"]


def test_the_digest_is_of_the_canonical_bytes() -> None:
    assert digest(RECEIPT).hex() == hashlib.sha256(encode(RECEIPT)).hexdigest()


def test_a_changed_copy_has_a_digest_of_its_own() -> None:
    before = digest(RECEIPT)
    copied = RECEIPT.model_copy(update={"payload_bytes": 2})
    assert digest(copied).hex() == hashlib.sha256(encode(copied)).hexdigest()
    assert digest(copied) != before == digest(RECEIPT)


def test_a_message_in_the_place_of_another_has_a_digest_of_its_own() -> None:
    for number in range(100):  # each likely where the one before was in memory
        message = RECEIPT.model_copy(update={"payload_bytes": number})
        assert digest(message) == hashlib.sha256(encode(message)).digest()


def test_a_message_too_large_to_send_is_not_encoded() -> None:
    levels = tuple(f"{number:0>200}" for number in range(2**15))
    column = {"kind": "categorical", "name": "x", "levels": levels, "impute": None}
    schema = Schema.model_validate(
        {"columns": (column,), "label_column": {"name": "y", "classes": ("a", "b")}}
    )
    with pytest.raises(LimitExceededError) as caught:
        encode(schema)
    assert caught.value.context == {"limit": MAX_MESSAGE_BYTES}


def test_a_message_is_refused_by_its_size_before_it_is_read() -> None:
    with pytest.raises(LimitExceededError, match="got 4194305"):
        decode(Receipt, bytes(MAX_MESSAGE_BYTES + 1))


def test_a_message_of_exactly_the_limit_is_read() -> None:
    with pytest.raises(MalformedMessageError):
        decode(Receipt, bytes(MAX_MESSAGE_BYTES))


def test_what_is_wrong_is_named_without_the_value() -> None:
    fields = {**RECEIPT.model_dump(), "party": "SECRET VALUE"}
    with pytest.raises(
        MalformedMessageError, match=r"^Receipt: party: a name has 1 to 63 lower case letters"
    ) as caught:
        decode(Receipt, msgpack.packb(dict(sorted(fields.items()))))
    assert "SECRET" not in caught.value.detail


def test_an_unknown_kind_of_column_is_not_quoted() -> None:
    fields = changed(TERMS, "table_schema", "columns", 0, "kind", to="SECRET")
    with pytest.raises(MalformedMessageError, match="is of no known kind") as caught:
        decode(Terms, pack(fields))
    assert "SECRET" not in caught.value.detail


def test_a_field_that_should_not_be_there_is_quoted_short_and_on_one_line() -> None:
    fields = {**RECEIPT.model_dump(), "a\nline" + "x" * 5000: 1}
    with pytest.raises(MalformedMessageError) as caught:
        decode(Receipt, pack(fields))
    assert "a\\nline" in caught.value.detail
    assert len(caught.value.detail) < 200


def test_at_most_five_wrong_fields_are_named() -> None:
    with pytest.raises(MalformedMessageError) as caught:
        decode(Receipt, pack({f"field{number}": 1 for number in range(20)}))
    assert caught.value.detail.count(";") == 4


def test_a_message_that_is_no_map_is_named_as_a_whole() -> None:
    with pytest.raises(MalformedMessageError, match="Receipt: message: "):
        decode(Receipt, b"\x90")


def test_an_array_with_a_bad_item_is_not_called_too_short() -> None:
    fields = changed(TERMS, "parties", to=["NO", "NO"])
    with pytest.raises(MalformedMessageError) as caught:
        decode(Terms, pack(fields))
    assert caught.value.detail.startswith("Terms: parties.0: ")
    assert "at least" not in caught.value.detail


def test_an_array_stops_at_its_first_bad_item() -> None:
    fields = changed(TERMS, "parties", to=["NO"] * 10_000)
    with pytest.raises(MalformedMessageError) as caught:
        decode(Terms, pack(fields))
    assert "parties.1" not in caught.value.detail


def test_maps_are_counted_while_they_are_unpacked() -> None:
    rows = b"\xdc\xff\xff" + b"\x80" * 65535
    with pytest.raises(LimitExceededError, match="maps and arrays"):
        decode(Receipt, b"\x93" + rows * 3)


def test_nesting_is_refused_in_words() -> None:
    with pytest.raises(MalformedMessageError, match="nested deeper than 16"):
        decode(Enrolment, b"\x81\xa3csr" + b"\x91" * 16 + b"\xc0")


def test_nesting_up_to_the_limit_is_looked_into() -> None:
    with pytest.raises(MalformedMessageError, match="csr: input should be"):
        decode(Enrolment, b"\x81\xa3csr" + b"\x91" * 15 + b"\xc0")


def test_a_default_left_out_is_not_the_canonical_form() -> None:
    fields = NumericColumn(name="x", low=0.0, high=1.0).model_dump()
    del fields["out_of_range"]
    with pytest.raises(MalformedMessageError, match="not in canonical form"):
        decode(NumericColumn, pack(fields))


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RECEIPT.party = "hospital-b"  # type: ignore[misc]


@pytest.mark.parametrize(("keys", "words"), [(64, "extra inputs are not permitted"), (65, "is not msgpack")])
def test_a_map_of_more_keys_than_any_message_has_is_not_looked_into(keys: int, words: str) -> None:
    with pytest.raises(MalformedMessageError, match=words):
        decode(Receipt, pack({**RECEIPT.model_dump(), **{f"x{n:02}": 1 for n in range(keys - 7)}}))


FIRST_MESSAGES = """
import sys
import threading

sys.setswitchinterval(1e-6)
from protocol.codec import decode
from protocol.terms import Terms
from tests.vectors.examples import TERMS
from tests.vectors.packing import pack

data, together, found = pack(TERMS), threading.Barrier(8), []


def first() -> None:
    together.wait()
    found.append(decode(Terms, data))


threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 8 and all(terms == found[0] for terms in found), len(found)
"""


def test_the_first_messages_of_a_process_may_come_to_several_threads_at_once() -> None:
    """What checks a kind of message is built when the first one comes."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_MESSAGES], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
