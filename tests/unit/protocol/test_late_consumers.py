"""Terms that name late consumers: what they say, what they do not, and what a late consumer may send."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError, TermsMismatchError
from protocol.terms import Terms
from protocol.uplinks import check_uplink
from tests.harness.world import HOSPITAL, LEAD, make_terms, make_uplink

LATE = "late-hospital"


def late_terms(**changed: Any) -> Terms:
    return make_terms(**{"parties": (LEAD, HOSPITAL, LATE), "late_consumers": (LATE,), **changed})


def late_line(terms: Terms) -> str:
    (line,) = (line for line in plain_words(terms).splitlines() if line.startswith("Late consumers: "))
    return line


def test_the_round_waits_for_everybody_else() -> None:
    assert late_terms().awaited_parties == [LEAD, HOSPITAL]


def test_terms_without_a_late_consumer_have_no_such_field_on_the_wire() -> None:
    assert b"late_consumers" not in encode(make_terms())
    assert decode(Terms, encode(late_terms())) == late_terms()


def test_an_empty_list_on_the_wire_is_refused() -> None:
    written = encode(late_terms())
    named = b"\x91" + bytes([0xA0 + len(LATE)]) + LATE.encode()
    assert written.count(b"late_consumers" + named) == 1
    with pytest.raises(MalformedMessageError):
        decode(Terms, written.replace(b"late_consumers" + named, b"late_consumers\x90"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"late_consumers": (LATE, LATE)}, "late_consumers must be distinct"),
        ({"late_consumers": ("hospital-z",)}, "must be among the parties, hospital-z is not"),
        ({"late_consumers": (LEAD,)}, "the lead cannot be a late consumer"),
        ({"terms_schema": 1}, "late_consumers needs terms_schema 2"),
    ],
)
def test_what_cannot_be_a_late_consumer_is_refused_in_words(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        late_terms(**changed)


def test_everybody_reads_who_may_come_late_and_what_that_means() -> None:
    line = late_line(late_terms())
    assert line.startswith(f"Late consumers: {LATE}. They send no rows and no labels")
    for promise in ("gets the model and a change-of-basis", "nobody is asked again", "knows the anchor"):
        assert promise in line
    assert "Late consumers" not in plain_words(make_terms())


def test_where_no_model_comes_back_a_late_consumer_gets_none_either() -> None:
    line = late_line(late_terms(downlink="anchor-predictions", anchor=AnchorTerms(kind="gaussian", rows=80)))
    assert "gets what the model predicts for the anchor rows;" in line


def test_a_late_consumer_may_send_its_anchor_and_no_row() -> None:
    terms = late_terms()
    check_uplink(make_uplink(terms, LATE, rows=0).manifest, terms)
    check_uplink(make_uplink(terms, HOSPITAL, rows=3).manifest, terms)
    with pytest.raises(TermsMismatchError, match=f"with rows, though {LATE} is a late consumer"):
        check_uplink(make_uplink(terms, LATE, rows=1).manifest, terms)
