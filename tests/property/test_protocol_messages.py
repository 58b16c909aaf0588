"""Any bytes give a message or a `ProtocolError`, and a message has one form."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from protocol.codec import Message, decode, digest, encode
from protocol.errors import MalformedMessageError, ProtocolError
from protocol.ledger import LedgerPage, pack_pages, unpack_pages
from tests.harness.strategies import any_message, messages
from tests.vectors.packing import pack

KINDS = sorted(messages, key=lambda kind: kind.__name__)


def values(leaf: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    """Anything msgpack can say, our own field names included."""
    fields = sorted({name for kind in KINDS for name in kind.model_fields})
    keys = st.sampled_from(fields) | st.text(max_size=5)
    plain = (
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
    )
    return st.recursive(
        leaf or plain,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=8),
        max_leaves=20,
    )


def decoded_or_refused(kind: type[Message], data: bytes) -> None:
    """Fail unless ``data`` gives a message in its one form, or a `ProtocolError`."""
    outcome: Message | ProtocolError
    try:
        outcome = decode(kind, data)
    except ProtocolError as error:
        outcome = error
    if isinstance(outcome, Message):
        assert encode(outcome) == data
    else:
        assert outcome.detail.isprintable()  # it may end in a log, one line each
        assert len(outcome.detail) < 2000


def test_the_strategies_know_every_kind_of_message() -> None:
    assert set(messages) == {kind for kind in Message.__subclasses__() if hasattr(kind, "signing_label")}


@given(any_message)
def test_a_message_comes_back_from_its_bytes(message: Message) -> None:
    assert decode(type(message), encode(message)) == message


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
optional_fields = st.dictionaries(
    st.from_regex(r"opt_[a-z0-9][a-z0-9._@-]{0,20}", fullmatch=True), plain_values, min_size=1, max_size=4
)


@given(any_message, optional_fields)
def test_an_unknown_optional_field_is_kept_by_open_messages_alone(
    message: Message, unknown: dict[str, Any]
) -> None:
    kind, data = type(message), pack({**msgpack.unpackb(encode(message)), **unknown})
    if kind.model_config["extra"] != "allow":
        with pytest.raises(MalformedMessageError):
            decode(kind, data)
        return
    kept = decode(kind, data)
    assert encode(kept) == data
    assert digest(kept) == hashlib.sha256(data).digest()
    assert repr(kept) == repr(message)


@given(any_message, st.text(max_size=20), plain_values)
def test_an_unknown_critical_field_is_refused_by_every_message(
    message: Message, name: str, value: Any
) -> None:
    assume(not name.startswith("opt_") and name not in type(message).model_fields)
    with pytest.raises(MalformedMessageError, match="extra inputs are not permitted"):
        decode(type(message), pack({**msgpack.unpackb(encode(message)), name: value}))


@given(st.lists(st.binary(max_size=40) | messages[LedgerPage].map(encode), max_size=3), st.binary(max_size=8))
def test_any_file_is_a_ledger_or_refused(pages: list[bytes], rest: bytes) -> None:
    data = pack_pages(pages) + rest
    try:
        found = unpack_pages(data)
    except ProtocolError:
        return
    assert pack_pages(map(encode, found)) == data


@given(any_message, any_message)
def test_other_messages_have_other_bytes(one: Message, other: Message) -> None:
    same = type(one) is type(other) and one == other
    assert (digest(one) == digest(other)) is same


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_a_message_or_a_protocol_error(kind: type[Message], data: bytes) -> None:
    decoded_or_refused(kind, data)


@pytest.mark.parametrize("kind", KINDS)
@given(value=values())
def test_any_msgpack_gives_a_message_or_a_protocol_error(kind: type[Message], value: Any) -> None:
    decoded_or_refused(kind, msgpack.packb(value))


@given(message=any_message, data=st.data())
def test_a_message_with_one_value_exchanged_is_read_or_refused(message: Message, data: st.DataObject) -> None:
    fields = message.model_dump()
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(values())
    decoded_or_refused(type(message), msgpack.packb({key: fields[key] for key in sorted(fields)}))


@given(message=any_message, data=st.data())
def test_a_message_with_bytes_exchanged_is_read_or_refused(message: Message, data: st.DataObject) -> None:
    spoilt = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    decoded_or_refused(type(message), bytes(spoilt))


@given(message=any_message, data=st.data())
def test_a_message_cut_off_anywhere_is_refused(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    with pytest.raises(ProtocolError):
        decode(type(message), whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(any_message)
def test_a_message_is_no_message_of_another_kind(message: Message) -> None:
    for kind in KINDS:
        if kind is not type(message):
            with pytest.raises(ProtocolError):
                decode(kind, encode(message))
