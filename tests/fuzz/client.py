"""Targets of the client: what it makes of an analyst that answers anything."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpcore
import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from metering.client_traffic import Traffic
from metering.client_transport import MeteredTransport
from protocol.codec import encode
from protocol.envelope import SIGNING_ALGORITHM, Signed
from protocol.errors import NotFoundError, OdcError
from protocol.limits import MAX_NAME_CHARS
from protocol.messages import DownlinkManifest, Enrolment
from protocol.operations import COLLABORATION_STATUS, FETCH_DOWNLINK, FETCH_TERMS
from tests.fuzz.decoders import message_seeds
from tests.fuzz.target import LONGEST_DETAIL, Run, Target, named, outcome, shape_of, split_name
from tests.harness.certificates import revoke, shared_root
from tests.harness.in_process import Consortium, downlink_bytes, replay
from user_client.evidence_verifier import INDEX, NotVerifiedError, verify
from user_client.sdk import list_tokens, renew, update_revocations
from user_client.sdk.approval import waiting_requests
from user_client.sdk.evidence import collect, packed, sealed
from user_client.transport import Answer, Download
from user_client.transport.connection import AnalystConnection

LONGEST_WAIT_S: Final = 12 * 60
"""An analyst may send a request away for ten minutes, and let the last attempt wait for one."""


# The bytes of an answer


def set_up_answers(directory: Path, _closing: ExitStack) -> Run:
    """Let an analyst's bytes come after a request: our own connection reads them from memory."""
    (directory / "root.pem").write_bytes(shared_root().pem)
    root_pem = shared_root().pem.decode()

    def run(data: bytes) -> str:
        name, rest = split_name(data)
        waited: list[float] = []
        backend = httpcore.MockBackend([rest[start : start + 700] for start in range(0, len(rest), 700)])

        def transport(context: ssl.SSLContext, _identity: Any) -> httpx.BaseTransport:
            with patch.object(httpcore, "SyncBackend", lambda: backend):
                return MeteredTransport("http://analyst", context, Traffic(None))

        attempts = 3 if name.endswith("again") else 1
        with AnalystConnection(
            "http://analyst",
            root_pem,
            None,
            Traffic(None),
            waited.append,
            attempts=attempts,
            transport=transport,
        ) as connection:
            found = outcome(lambda: _asked(connection, name.split(" ")[0]), OdcError)
        assert sum(waited) < LONGEST_WAIT_S, f"waited for {sum(waited)} s"
        return f"{name[:20]}: {found}"

    return run


def _asked(connection: AnalystConnection, name: str) -> str:
    if name == "discover":
        return f"discovered {len(connection.discover()) > 3}"
    if name == "status":
        return f"{len(connection.ask_json(COLLABORATION_STATUS, collaboration_id='1' * 32))} fields"
    if name == "download":
        download = Download(connection, FETCH_DOWNLINK, collaboration_id="1" * 32)
        size = sum(map(len, download))
        download.acknowledge()
        return f"downloaded {size > 0} {download.tag is None}"
    return f"answer {connection.ask(FETCH_TERMS, collaboration_id='1' * 32).status}"


def answer_seeds() -> Iterator[bytes]:
    def http(status: str, body: bytes, **headers: str) -> bytes:
        fields = {"content-length": str(len(body)), **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body

    about = {"service": "odc-analyst", "wire_versions": [1], "limits": {}}
    busy = json.dumps(
        {"type": "/problems/storage-busy", "detail": "x", "hint": "y", "retry_after_s": 2}
    ).encode()
    yield named("discover", http("200 OK", json.dumps(about).encode(), content_type="application/json"))
    yield named("discover", http("200 OK", b'{"wire_versions": [2, 3]}'))
    for name in ("status", "status again", "terms", "download", "download again"):
        yield named(name, http("503 Busy", busy, content_type="application/problem+json", retry_after="2"))
        yield named(name, http("429 Too many", b"", retry_after="3"))
        yield named(name, http("302 Found", b"", location="https://elsewhere/"))
        yield named(name, http("200 OK", b'{"a": 1}', etag='"1"'))
        yield named(name, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    part = http("206 Part", b"abc", content_range="bytes 0-2/3", etag='"1"')
    yield named("download", part)
    yield named("download again", http("206 Part", b"abc", content_range="bytes 0-9/10", etag='"1"'))
    packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00C\xbf\xa6\xa3\x02\x00\x00\x00"
    yield named("status", http("200 OK", packed, content_encoding="gzip"))


# What a member makes of the content of answers


class _Member:
    """A hospital whose round is released, and that can be put back to before it has received."""

    def __init__(self, directory: Path, closing: ExitStack) -> None:
        patched = closing.enter_context(pytest.MonkeyPatch.context())
        made = directory / "made"
        made.mkdir()
        self.consortium = Consortium(made, patched)
        closing.callback(self.consortium.close)
        self.consortium.until_released()
        self.downlink = downlink_bytes(self.consortium)
        self.kept = directory / "kept"
        self.own = self.consortium.directory_of(self.consortium.hospital)
        shutil.copytree(self.own, self.kept)

    def put_back(self) -> None:
        shutil.rmtree(self.own)
        shutil.copytree(self.kept, self.own)


def set_up_downlink(directory: Path, closing: ExitStack) -> Run:
    """Let the analyst send any downlink, in pieces."""
    member = _Member(directory, closing)
    genuine = member.downlink
    size = int.from_bytes(genuine[:4], "little") + 4

    def run(data: bytes) -> str:
        name, rest = split_name(data)
        piece_bytes = 1 + (rest[0] if rest else 0) * 8
        body = rest[1:]
        if name == "arrays":  # after the genuine manifest
            body = genuine[:size] + body
        elif name == "manifest":  # signed by the analyst, and not what we have asked for
            body = _signed_downlink(member, body) + genuine[size:]
        elif name == "changed":  # genuine except for some bytes
            body = _with_changes(genuine, body)
        with pytest.MonkeyPatch.context() as patched:
            replay(patched, member.consortium, body, piece_bytes)
            found = outcome(lambda: str(member.consortium.hospital_round.receive().party), OdcError)
        if ": " not in found:
            member.put_back()
        return f"{name[:10]}: {found}"

    return run


def _with_changes(genuine: bytes, changes: bytes) -> bytes:
    body = bytearray(genuine)
    for start in range(0, len(changes) - 2, 3):
        body[int.from_bytes(changes[start : start + 2], "big") % len(body)] ^= changes[start + 2]
    return bytes(body)


def _signed_downlink(member: _Member, payload: bytes) -> bytes:
    analyst, label = member.consortium.analyst, DownlinkManifest.signing_label
    signature = analyst.key.sign(label.encode() + b"\x00" + payload, SIGNING_ALGORITHM)
    der = analyst.certificate.public_bytes(Encoding.DER)
    sent = encode(Signed(kind=label, payload=payload, certificate=der, signature=signature))
    return len(sent).to_bytes(4, "little") + sent


def downlink_seeds() -> Iterator[bytes]:
    yield named("changed", b"\x40")
    yield named("changed", b"\x40\x10\x00\x01")
    yield named("arrays", b"\x40" + bytes(100))
    yield named("raw", b"\x00" + (8).to_bytes(4, "little") + bytes(20))
    for seed in message_seeds():
        if seed.startswith(b"DownlinkManifest\n"):
            yield named("manifest", b"\x20" + seed.partition(b"\n")[2])


ASKED: Final[dict[str, Callable[[Consortium], object]]] = {
    "status": lambda made: made.hospital_round.status(),
    "wait": lambda made: made.hospital_round.receive(wait_s=0.01, pause=lambda _: None),
    "report": lambda made: made.hospital_round.report(wait_s=0.01, pause=lambda _: None),
    "terms": lambda made: made.hospital_round.fetch_terms(keep=False),
    "ledger": lambda made: made.hospital_round.fetch_ledger(),
    "collaborations": lambda made: made.hospital.collaborations(),
    "requests": lambda made: waiting_requests(made.lead),
    "tokens": lambda made: list_tokens(made.hospital),
    "renewal": lambda made: renew(made.hospital),
    "revocations": lambda made: update_revocations(made.hospital),
    "file": lambda _made: None,
}
"""What a member asks, and reads in an answer of any content."""


def set_up_content(directory: Path, closing: ExitStack) -> Run:
    """Let the analyst answer with any content; "file" is a ledger that somebody hands us."""
    member = _Member(directory, closing)

    def run(data: bytes) -> str:
        name, rest = split_name(data)
        if (ask := ASKED.get(name)) is None:
            return "no question"
        made = member.consortium
        if name == "file":
            found = outcome(lambda: str(len(made.hospital_round.verify_ledger(rest).entries)), OdcError)
            return f"{name}: {found}"
        answer = Answer(200, httpx.Headers(), rest)
        with pytest.MonkeyPatch.context() as patched:
            for session in made.sessions:
                connection = session.connection
                patched.setattr(connection, "request", lambda *_, **__: answer)
                patched.setattr(connection, "stream", _no_stream)
            found = outcome(lambda: str(type(ask(made)).__name__), OdcError)
        return f"{name}: {found}"

    return run


def _no_stream(*_: object, **__: object) -> None:
    raise NotFoundError("nothing here")


def content_seeds() -> Iterator[bytes]:
    status: dict[str, Any] = {
        "collaboration_id": "1" * 32,
        "title": "t",
        "state": "released",
        "members": [],
        "failure": None,
        "you": {"party": "hospital-a", "role": "institution"},
        "judging": False,
    }
    yield named("status", json.dumps(status).encode())
    yield named("wait", json.dumps(status).encode())
    yield named("wait", json.dumps({**status, "state": "training"}).encode())
    report = {"state": "released", "results": {"judgement": {"is_pending": False}}, "member_scores": []}
    yield named("report", json.dumps(report).encode())
    yield named("collaborations", json.dumps({"collaborations": [status]}).encode())
    yield named("collaborations", json.dumps({"collaborations": [status, status]}).encode())
    enrolment = base64.b64encode(encode(Enrolment(ticket=b"t", csr=b"c", mac=bytes(32)))).decode()
    yield named("requests", json.dumps({"enrolments": [{"request": enrolment, "requested_at": 1}]}).encode())
    yield named("tokens", b'{"tokens": []}')
    yield named("renewal", b'{"certificate": "-----BEGIN CERTIFICATE-----"}')
    yield named("revocations", revoke(shared_root()))
    for seed in message_seeds():
        name, _, packed = seed.partition(b"\n")
        if name == b"Signed":
            yield named("terms", packed)
        if name == b"LedgerPage":
            yield named("ledger", packed)
            yield named("file", len(packed).to_bytes(4, "little") + packed)


# Evidence


def set_up_evidence(directory: Path, closing: ExitStack) -> Run:
    """Verify an archive of evidence, of which one file may be another, and the index be signed again."""
    member = _Member(directory, closing)
    made = member.consortium
    made.hospital_round.receive()
    made.hospital_round.fetch_ledger()
    genuine = made.hospital_round.evidence()
    files = collect(made.hospital, made.hospital_round.directory)

    def run(data: bytes) -> str:
        name, rest = split_name(data)
        how, _, name = name.partition(" ")
        if how == "changed":
            archive = _with_changes(genuine.archive, rest)
        elif how == "resigned" and _is_file_name(name):
            others = {**files, name: rest} if rest else {one: files[one] for one in files if one != name}
            archive = sealed(made.hospital, made.hospital_round.directory, others)
        else:
            archive = rest
        try:
            found = verify(archive, genuine.root_fingerprint)
        except NotVerifiedError as error:
            why = str(error)
        else:
            return f"{how}: verified, {len(found.doubts)} doubts"
        assert len(why) < LONGEST_DETAIL
        return shape_of(f"{how}: {why}")

    return run


def _is_file_name(name: str) -> bool:
    return name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_CHARS


def evidence_seeds() -> Iterator[bytes]:
    yield named("raw", packed({INDEX: b"x", "root.pem": b"y"}))
    yield named("changed", b"")
    yield named("changed", b"\x00\x10\x01")
    for name in (
        "terms.odc",
        "acceptance.odc",
        "ledger.odc",
        "desk.json",
        "root.pem",
        "revocations.crl",
        "other",
    ):
        yield named(f"resigned {name}", b"")
        yield named(f"resigned {name}", b"{}")
    yield named("resigned revocations.crl", revoke(shared_root()))
    for seed in message_seeds():
        if seed.startswith(b"Signed\n"):
            yield named("resigned uplink.odc", seed.partition(b"\n")[2])


TARGETS: Final = (
    Target("answers", set_up_answers, answer_seeds, 6),
    Target("downlink", set_up_downlink, downlink_seeds, 2),
    Target("content", set_up_content, content_seeds, 3),
    Target("evidence", set_up_evidence, evidence_seeds, 2),
)
