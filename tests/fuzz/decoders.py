"""Targets of `protocol`: messages, frames, ledgers, and what people hand each other."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import tomli_w
from pydantic import ValidationError

import protocol.evidence  # noqa: F401 - so that KINDS has its messages, whatever was imported before
from protocol.anchor_matrix import open_matrix, seal_matrix
from protocol.arrays import (
    Layout,
    StreamReader,
    chunks_of,
    dequantise,
    frame,
    specify,
)
from protocol.checkpoint import Checkpoint, Note
from protocol.chunk_checks import check_values
from protocol.codec import Message, decode, encode, explain, pack_list, unpack_list, unpack_lists
from protocol.consent import plain_words
from protocol.errors import (
    InputError,
    LedgerError,
    MalformedMessageError,
    OdcError,
    ProtocolError,
    SealBrokenError,
    SignatureError,
    TrustError,
)
from protocol.invitation import Invitation, is_analyst_url
from protocol.labels import Label
from protocol.ledger import LedgerEntry, LedgerPage, check_chain, pack_pages, unpack_pages
from protocol.messages import DTYPE_BYTES, SCALE_ARRAYS
from protocol.operations import OPERATIONS, find, kind_of
from protocol.own_pki import check_name
from protocol.problems import all_errors, from_problem
from protocol.terms import Terms
from protocol.tokens import TokenRequest, TokenRow, id_of, new_token, token_digest
from tests.fuzz.target import Target, named, outcome, refused, split_name, stateless
from tests.harness.certificates import shared_member
from tests.harness.enrolments import invitation
from tests.harness.world import DRAFT
from user_client.service.content import PredictionRequest

VECTORS: Final = Path(__file__).parents[1] / "vectors"
KINDS: Final = {kind.__name__: kind for kind in Message.__subclasses__() if hasattr(kind, "signing_label")}
"""Every message that is sent or signed by itself."""
_SEED: Final = bytes(range(32))


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def _bytes_of(case: dict[str, Any]) -> bytes:
    parts = case.get("parts") or [[case["hex"], 1]]
    return b"".join(bytes.fromhex(part) * min(times, 100) for part, times in parts)


# Messages


def message(data: bytes) -> str:
    """Decode a message of the kind in the first line; a message has one form."""
    name, packed = split_name(data)
    if (kind := KINDS.get(name)) is None:
        return "no kind"

    def decoded() -> str:
        assert encode(decode(kind, packed)) == packed, "decoded from another form"
        return name

    return outcome(decoded, ProtocolError)


def message_seeds() -> Iterator[bytes]:
    for case in vectors("messages"):
        if case["kind"] in KINDS:
            yield named(case["kind"], _bytes_of(case))
    for case in vectors("signed")["messages"]:
        yield named("Signed", bytes.fromhex(case["hex"]))


def lists(data: bytes) -> str:
    """Take lists of messages apart: one in an answer, many in a file."""

    def unpacked() -> str:
        found = unpack_lists(data)
        assert unpack_list(pack_list(found[:100])) == found[:100]
        return f"{min(len(found), 3)} items"

    return f"{outcome(lambda: f'{len(unpack_list(data))} items', ProtocolError)}; " + outcome(
        unpacked, ProtocolError
    )


def list_seeds() -> list[bytes]:
    return [pack_list([]), pack_list([b"one", b"two"]), pack_list([b"one"]) * 3, b"\x92\xc4\x01a\xc0"]


# Frames


def frames(data: bytes) -> str:
    """Read a stream in pieces of any size.

    Five bytes say how many numbers a chunk has, dtype and shape, whether digests are to be right, and the
    pieces; the rest is the stream, or what it carries.
    """
    if len(data) < 5:
        return "too short"
    (units, kind, extents, is_framed, piece_bytes), rest = data[:5], data[5:]
    names = ("rep", "labels", SCALE_ARRAYS[0])
    name, shape = names[extents % 3], (extents // 3 % 9, extents // 27)
    dtype: Any = "f4" if name in SCALE_ARRAYS else sorted(DTYPE_BYTES)[kind % len(DTYPE_BYTES)]
    shape_on_wire = shape if name == "rep" else shape[:1]
    size = int(np.prod(shape_on_wire)) * DTYPE_BYTES[dtype]
    array = np.frombuffer(rest[:size].ljust(size, b"\0"), "<" + dtype).reshape(shape_on_wire)
    chunk_bytes = 8 * (1 + units % 8)
    layout = Layout([specify(name, array, dtype, chunk_bytes)], chunk_bytes)
    framed = b"".join(frame(chunks_of(memoryview(array.tobytes()), chunk_bytes))) + rest[size:]
    stream = framed if is_framed % 2 else rest
    label = Label(name="y", classes=("no", "yes")) if kind >= 128 else None

    def read(piece_bytes: int) -> str:
        reader, carried = StreamReader(layout), b""
        for start in range(0, len(stream), piece_bytes):
            for chunk in reader.feed(stream[start : start + piece_bytes]):
                check_values(layout, chunk, label)
                carried += chunk.data
        assert array.tobytes().startswith(carried) or not is_framed % 2
        if dtype == "i1" and name == "rep":
            scaled = dequantise(array, np.ones(shape[1], "<f4"))
            assert np.isfinite(scaled).all()
        return "whole" if len(carried) == layout.payload_bytes else "a part"

    found = outcome(lambda: read(1 + piece_bytes), ProtocolError)
    assert found == outcome(lambda: read(max(len(stream), 1)), ProtocolError), "it depends on the pieces"
    return f"{name} {dtype}: {found}"


def frame_seeds() -> Iterator[bytes]:
    for kind in range(len(DTYPE_BYTES)):
        for extents in (0, 3 * 2 + 27 * 2, 3 * 5 + 1, 3 * 4 + 2):
            yield bytes([kind, kind + 128 * (extents % 2), extents, 1, 6]) + bytes(64)
            yield bytes([0, kind, extents, 0, 200]) + bytes(32) + bytes(8)


# Ledgers


def ledger(data: bytes) -> str:
    """Read the pages of a file, or of an answer, and check their chain."""
    collaboration_id = "00112233445566778899aabbccddeeff"

    def checked() -> str:
        pages = unpack_pages(data)
        assert pack_pages(map(encode, pages)) == data, "read from another form"
        heads = check_chain(collaboration_id, [entry for page in pages for entry in page.entries])
        return f"{min(len(pages), 3)} pages, {min(len(heads), 3)} heads"

    return outcome(checked, ProtocolError, LedgerError)


def checkpoint(data: bytes) -> str:
    """A checkpoint that somebody hands us, and whether the analyst has signed it."""

    def checked() -> str:
        found = Note.parse(data)
        assert found.bytes == data, "read from another form"
        is_signed = found.is_signed_by(shared_member("analyst", "analyst").certificate)
        return f"signed: {is_signed}, {min(3, len(found.lines))} lines"

    return outcome(checked, ProtocolError, SignatureError)


def checkpoint_seeds() -> Iterator[bytes]:
    analyst, member = shared_member("analyst", "analyst"), shared_member("institution", "hospital-b")
    note = Note(Checkpoint("00" * 16, 3, bytes(32)), ()).signed(analyst.key, analyst.certificate)
    yield note.bytes
    yield note.signed(member.key, member.certificate).bytes
    yield Note(Checkpoint("00" * 16, 0, bytes(32)), note.lines).bytes


def ledger_seeds() -> Iterator[bytes]:
    for case in vectors("ledgers"):
        packed = [bytes.fromhex(entry) for entry in case["entries"]]
        try:
            entries = tuple(decode(LedgerEntry, one) for one in packed)
        except ProtocolError:
            continue
        yield pack_pages([encode(LedgerPage(entries=entries, head=b"head"))])
        yield pack_pages(
            [encode(LedgerPage(entries=part, head=b"h")) for part in (entries[:2], entries[2:], ())]
        )


# What people hand each other


def invited(data: bytes) -> str:
    """Read an invitation, believe its root, and answer it."""

    def answered() -> str:
        found = Invitation.from_json(data.decode("utf-8", "replace"))
        assert Invitation.from_json(found.to_json()) == found
        root = found.trust_root()
        found.answer(shared_member().key)
        return f"invited by {type(root).__name__}"

    return outcome(answered, ProtocolError, TrustError)


def token(data: bytes) -> str:
    """Read a token, its id, and the request and the row about it."""
    name, rest = split_name(data)
    text = rest.decode("utf-8", "replace")

    def of(name: str) -> str:
        match name:
            case "request":
                return TokenRequest.from_json(rest).label[:0] + "request"
            case "row":
                return TokenRow.from_answer(json.loads(rest)).scope
            case "digest":
                return f"{len(token_digest(text))} digits"
            case _:
                return f"id of {len(id_of(text))} digits"

    try:
        return outcome(lambda: of(name), ProtocolError, TrustError, InputError)
    except (ValueError, RecursionError) as error:
        if name == "row" and not isinstance(error, ValidationError):
            return "not JSON"  # which is what `AnalystConnection.ask_json` has refused before
        raise


def token_seeds() -> Iterator[bytes]:
    given = {"digest": "0" * 64, "expires_at": 2_000_000_000, "label": "a", "collaboration_id": "1" * 32}
    row = {
        "token_id": "1" * 32, "label": "a", "scope": "read", "collaboration_id": None, "created_at": 1,
        "expires_at": 2, "last_used_at": None, "revoked": False,
    }  # fmt: skip
    yield named("request", json.dumps(given).encode())
    yield named("row", json.dumps(row).encode())
    yield named("digest", new_token().encode())
    yield named("id", b"1" * 32)
    yield named("id", new_token().encode())


def sealed(data: bytes) -> str:
    """Open the matrix of a public anchor."""
    return outcome(lambda: f"{len(open_matrix(_SEED, data))} bytes", SealBrokenError)


def sealed_seeds() -> list[bytes]:
    return [b"".join(seal_matrix(_SEED, bytes(size))) for size in (0, 8, 4000)]


def names(data: bytes) -> str:
    """Read the short texts that come in addresses, paths and certificates."""
    text = data.decode("utf-8", "replace")
    called = find("GET", text)
    assert called is None or called[0] in OPERATIONS
    kind, collaboration_id = kind_of(text)
    assert collaboration_id == "" or len(collaboration_id) == 32

    def checked() -> str:
        check_name(text)
        return "a name"

    found = outcome(checked, InputError)
    return f"{called and called[0].name} {kind} {is_analyst_url(text)} {found}"


def name_seeds() -> Iterator[bytes]:
    yield from (b"dns:a.example", b"uri:x", b"subject:CN=a,O=b", b"https://analyst:8443", b"https://[::1]:1/")
    for operation in OPERATIONS:
        ids = dict.fromkeys(
            ("collaboration_id", "upload_id", "invitation_id", "token_id", "party", "slug"), "1" * 32
        )
        yield operation.url(**ids).encode()


def problem(data: bytes) -> str:
    """Rebuild the error that a problem document describes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(value, dict):
        return "no object"
    error = from_problem(value)
    assert isinstance(error, OdcError)
    assert error.hint.isprintable()
    return refused(error)


def problem_seeds() -> Iterator[bytes]:
    for cls in all_errors():
        about = {
            "type": f"/problems/{cls.code}",
            "title": cls.title,
            "detail": "x",
            "hint": "y",
            "status": 400,
        }
        yield json.dumps({**about, "retry_after_s": 3, "instance": "/"}).encode()


def draft(data: bytes) -> str:
    """Read terms as an operator sends them, in TOML or JSON, and say them in words."""
    name, rest = split_name(data)
    try:
        value = tomllib.loads(rest.decode("utf-8", "replace")) if name == "toml" else json.loads(rest)
    except (ValueError, RecursionError):
        return f"not {name[:4]}"
    if not isinstance(value, dict):
        return "no table"

    def read() -> str:
        ids = {"consortium_id": "1" * 32, "collaboration_id": "2" * 32}
        try:
            terms = Terms.model_validate({**value, **ids}, strict=False)
        except ValidationError as error:
            raise MalformedMessageError("terms", explain(error)) from None
        assert decode(Terms, encode(terms)) == terms
        return f"terms in {len(plain_words(terms)) > 100}"

    return outcome(read, ProtocolError)


def content(data: bytes) -> str:
    """Read rows that another system of the institution sends to the local service."""
    schema = decode(Terms, _valid_terms()).table_schema
    try:
        found = PredictionRequest.model_validate_json(data)
    except ValidationError as error:
        return error.errors(include_input=False, include_url=False)[0]["type"]
    return outcome(lambda: f"{len(found.table(schema).columns)} columns", OdcError)


def _valid_terms() -> bytes:
    return next(
        _bytes_of(case)
        for case in vectors("messages")
        if (case["kind"], case["verdict"]) == ("Terms", "valid")
    )


def content_seeds() -> Iterator[bytes]:
    schema = decode(Terms, _valid_terms()).table_schema
    row = {column.name: 1 for column in schema.columns}
    yield json.dumps({"rows": [row]}).encode()
    yield json.dumps(
        {"rows": [dict.fromkeys(row, "a"), row], "interval": 0.5, "thresholds": {"yes": 0.1}}
    ).encode()


def draft_seeds() -> Iterator[bytes]:
    yield named("json", json.dumps(DRAFT).encode())
    for case in vectors("messages"):
        if (case["kind"], case["verdict"]) == ("Terms", "valid"):
            value = decode(Terms, _bytes_of(case)).model_dump(mode="json")
            del value["consortium_id"], value["collaboration_id"]
            yield named("json", json.dumps(value).encode())
            yield named("toml", tomli_w.dumps(_without_none(value)).encode())


def _without_none(value: Any) -> Any:
    """Return a value as TOML can say it."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


TARGETS: Final = (
    Target("message", stateless(message), message_seeds, 30),
    Target("frames", stateless(frames), frame_seeds, 12),
    Target("lists", stateless(lists), list_seeds, 4),
    Target("ledger", stateless(ledger), ledger_seeds, 6),
    Target("checkpoint", stateless(checkpoint), checkpoint_seeds, 4),
    Target("invitation", stateless(invited), lambda: [invitation().to_json().encode()], 2),
    Target("token", stateless(token), token_seeds, 3),
    Target("sealed", stateless(sealed), sealed_seeds, 1),
    Target("names", stateless(names), name_seeds, 3),
    Target("problem", stateless(problem), problem_seeds, 3),
    Target("draft", stateless(draft), draft_seeds, 4),
    Target("service", stateless(content), content_seeds, 2),
)
