"""More cases of messages.json: characters that deceive, and the last value on each side of a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.columns import edges_of_columns
from tests.vectors.examples import (
    ACCEPTANCE,
    COLLABORATION,
    ENROLMENT,
    LEDGER,
    LEDGER_HEAD,
    NUMERIC,
    PRIVACY,
    RECEIPT,
    SIGNED,
    TERMS,
    TERMS_2,
    UPLINK,
)
from tests.vectors.packing import pack

Named = tuple[str, str, dict[str, Any]]
ENDED = COLLABORATION[:-1] + "\n"
FIRST_AND_LAST = (0x00, 0x1F, 0x7F, 0x9F, 0x200E, 0x200F, 0x2028, 0x202E, 0x2066, 0x2069)
NEIGHBOURS = (0x20, 0x7E, 0xA0, 0x200D, 0x2010, 0x2027, 0x202F, 0x2065, 0x206A)


def _column(**changes: Any) -> dict[str, Any]:
    schema = TERMS["table_schema"]
    return {**TERMS, "table_schema": {**schema, "columns": [{**NUMERIC, **changes}, schema["columns"][1]]}}


def _missing(*texts: str) -> dict[str, Any]:
    return {**TERMS, "table_schema": {**TERMS["table_schema"], "missing": [*texts]}}


def _long(columns: int) -> dict[str, Any]:
    """An uplink with the most rows that there can be, of so many doubles each."""
    rep, anchor_rep, labels = UPLINK["arrays"]
    rep = {**rep, "dtype": "f8", "shape": [2**31 - 1, columns]}
    return {**UPLINK, "arrays": [rep, anchor_rep, {**labels, "shape": [2**31 - 1]}]}


def valid() -> Iterator[Named]:
    for code in NEIGHBOURS:
        yield f"a title with U+{code:04X}", "Terms", {**TERMS, "title": f"a{chr(code)}b"}
    yield "a purpose with a line feed and a tab", "Terms", {**TERMS, "purpose": "a\n\tb"}
    yield "a title of 200 characters outside the first plane", "Terms", {**TERMS, "title": "\U0001f3e5" * 200}
    yield "a title that begins with U+FEFF", "Terms", {**TERMS, "title": "\ufeffa"}
    yield "arrays of nearly 1 TiB", "UplinkManifest", _long(64)
    yield "a purpose of 20000 characters", "Terms", {**TERMS, "purpose": "x" * 20000}
    yield "a missing text of 200 characters", "Terms", _missing("x" * 200)
    yield "a column without an impute", "Terms", _column(impute=None)
    yield "a column that imputes its low end", "Terms", _column(impute=0.0)
    yield "a column that imputes its high end", "Terms", _column(impute=120.0)
    yield "a receipt with the largest count", "Receipt", {**RECEIPT, "payload_bytes": 2**53 - 1}
    yield "a receipt at the last second", "Receipt", {**RECEIPT, "received_at": 253402300799}
    yield "a receipt at the first second", "Receipt", {**RECEIPT, "received_at": 0}
    yield "a party of 63 characters", "Receipt", {**RECEIPT, "party": "a" * 63}
    yield "a party of one digit", "Receipt", {**RECEIPT, "party": "7"}
    yield "a chain of four", "Enrolment", {**ENROLMENT, "chain": [b"x"] * 4}
    yield "a certificate of 16384 bytes in a chain", "Enrolment", {**ENROLMENT, "chain": [bytes(16384)]}
    yield "a label of 100 characters", "Signed", {**SIGNED, "kind": "x" * 100}
    yield "the smallest dither", "UplinkManifest", {**UPLINK, "privacy": {**PRIVACY, "dither": 5e-324}}
    yield "the largest dither", "UplinkManifest", {**UPLINK, "privacy": {**PRIVACY, "dither": 100.0}}
    yield "the largest chunks", "UplinkManifest", {**UPLINK, "chunk_bytes": 2**22}
    yield "every row may be left out", "UplinkManifest", {**UPLINK, "privacy": {**PRIVACY, "drop_below": 1.0}}
    yield "half of the rows are kept back", "Terms", {**TERMS_2, "hold_out": 0.5}
    yield "an empty ledger", "LedgerHead", {**LEDGER_HEAD, "length": 0}
    yield from edges_of_columns()


def broken() -> Iterator[Named]:
    for code in FIRST_AND_LAST:
        yield f"a title with the forbidden U+{code:04X}", "Terms", {**TERMS, "title": f"a{chr(code)}b"}
        yield f"a purpose with the forbidden U+{code:04X}", "Terms", {**TERMS, "purpose": f"a{chr(code)}b"}
        yield f"a missing text with the forbidden U+{code:04X}", "Terms", _missing(f"a{chr(code)}b")
    yield "a title with a line feed", "Terms", {**TERMS, "title": "a\nb"}
    yield "a title with a tab", "Terms", {**TERMS, "title": "a\tb"}
    yield "a purpose with a carriage return", "Terms", {**TERMS, "purpose": "a\rb"}
    yield "a title of 201 characters", "Terms", {**TERMS, "title": "é" * 201}
    yield "a purpose of 20001 characters", "Terms", {**TERMS, "purpose": "x" * 20001}
    yield "a missing text of 201 characters", "Terms", _missing("x" * 201)
    yield "a column that imputes below its range", "Terms", _column(impute=-1e-9)
    yield "a column that is to wrap what is out of range", "Terms", _column(out_of_range="wrap")
    yield "a party that begins with a hyphen", "Receipt", {**RECEIPT, "party": "-a"}
    yield "a party with a line feed at its end", "Receipt", {**RECEIPT, "party": "hospital-b\n"}
    yield (
        "an identifier with a line feed",
        "Receipt",
        {**RECEIPT, "collaboration_id": ENDED},
    )
    yield "a certificate of 16385 bytes in a chain", "Enrolment", {**ENROLMENT, "chain": [bytes(16385)]}
    yield "a certificate that is nil in a chain", "Enrolment", {**ENROLMENT, "chain": [None]}
    yield "a digest that is text", "Receipt", {**RECEIPT, "uplink_digest": "x" * 32}
    yield "a consent that is a number", "Acceptance", {**ACCEPTANCE, "accept_row_revealing_model": 1}
    yield "a negative length", "LedgerHead", {**LEDGER_HEAD, "length": -1}
    yield "a number of columns that is a float", "Terms", {**TERMS, "latent_dim": 2.0}
    yield "an event that there is not", "LedgerEntry", {**LEDGER[0], "event": "unseal"}
    yield "a state that there is not", "LedgerEntry", {**LEDGER[0], "state": "published"}
    yield "an array a little over 1 TiB", "UplinkManifest", _long(65)
    yield "chunks of 68 KiB", "UplinkManifest", {**UPLINK, "chunk_bytes": 69632}
    yield "a third schema", "Terms", {**TERMS_2, "terms_schema": 3}
    yield "more than half of the rows kept back", "Terms", {**TERMS_2, "hold_out": 0.5000001}
    yield "delta without epsilon", "UplinkManifest", {**UPLINK, "privacy": {**PRIVACY, "delta": 1e-6}}


def refused() -> Iterator[tuple[str, str, bytes]]:
    """The broken ones as bytes, and heads that promise more than there is: nobody makes room for it."""
    yield from ((name, kind, pack(value)) for name, kind, value in broken())
    yield "more of an array than there are bytes", "Receipt", b"\xdd\xff\xff\xff\xff"
    yield "more of a text than there are bytes", "Receipt", b"\xdb\xff\xff\xff\xff"
