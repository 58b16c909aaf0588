"""Targets of the analyst's server: requests of anybody to its application, and bytes to its connections."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import uvicorn
from starlette.types import Message, Scope
from uvicorn.server import ServerState

from analyst_server.api.connection import AnalystProtocol
from analyst_server.api.doors import Doors, Places
from analyst_server.app import create_app
from analyst_server.services import certificates, prepare
from analyst_server.services.meter import Meter
from analyst_server.settings import Settings
from protocol import operations
from protocol.codec import decode, encode, pack_list
from protocol.envelope import Signed
from protocol.errors import OdcError
from protocol.identity import certificate_request
from protocol.messages import Enrolment, InvitationTicket, Renewal
from protocol.operations import OPERATIONS
from protocol.problems import from_problem
from protocol.tokens import token_digest, token_id
from protocol.version import MEDIA_TYPE, UPLOAD_MEDIA_TYPE
from tests.fuzz.decoders import KINDS
from tests.fuzz.target import Run, Target, shape_of
from tests.fuzz.tokens import TOKENS, make_tokens
from tests.fuzz.trust import newly_signed
from tests.harness.app import WithCertificate
from tests.harness.certificates import CONSORTIUM_ID, NOW, revoke, shared_member, shared_root
from tests.harness.computing import claim, finish
from tests.harness.world import (
    DRAFT,
    HOSPITAL,
    LEAD,
    World,
    make_terms,
    make_uplink,
    role_of,
    signed,
)

_STATUS: Final = re.compile(rb"^HTTP/1\.1 ([0-9]{3}) ", re.MULTILINE)
PATIENCE_S: Final = 30.0
"""After which a request that nobody goes on sending is one that waits without bound."""
OPEN: Final = "c0" * 16
"""A round that is being contributed to."""
EMPTY: Final = "d1" * 16
"""One whose terms are published, and nothing else."""
RELEASED: Final = "f3" * 16
OTHER: Final = "e2" * 16
"""One that does not exist."""
INVITATION_ID: Final = "1a" * 16
UPLOAD: Final = "UPLOAD-ID"
"""Stands in an input for the id of an upload that has begun; the analyst draws it."""
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
CALLERS: Final = ("nobody", LEAD, HOSPITAL, "hospital-z", "analyst", *TOKENS)


def terms_of(collaboration_id: str) -> Any:
    return make_terms(collaboration_id=collaboration_id, returns_scores=True)


class Stage:
    """An analyst with rounds in several states, which can be put back to how it was."""

    def __init__(self, directory: Path) -> None:
        self._kept, self._next, self._number = directory / "kept", directory, 0
        self._kept.mkdir()
        world = World(self._kept)
        world.until_sealed(terms_of(RELEASED))
        claim(world)
        finish(world)
        prepare.create(world.analyst, terms_of(EMPTY))
        world.until_anchored(terms_of(OPEN))
        uplink = make_uplink(world.terms, HOSPITAL)
        self.upload_id = world.begin(uplink).upload_id
        make_tokens(world, RELEASED)
        certificates.request(world.analyst, enrolment())
        world.records.dispose()
        self._set_up()

    def put_back(self) -> None:
        """Make everything as it was in the beginning."""
        self.close()
        shutil.rmtree(self.world.directory)
        self._set_up()

    def close(self) -> None:
        self.world.records.dispose()

    def _set_up(self) -> None:
        self._number += 1
        place = self._next / str(self._number)
        place.mkdir()
        self.world = World(place)
        shutil.copytree(self._kept, place, dirs_exist_ok=True)
        self.settings = Settings(data_dir=place, status_wait_s=0, requests_per_s=1e9)
        self.app = create_app(self.world.analyst, self.settings)


def enrolment() -> bytes:
    ticket = InvitationTicket(
        consortium_id=CONSORTIUM_ID,
        invitation_id=INVITATION_ID,
        role="institution",
        party="hospital-new",
        expires_at=NOW + 100,
    )
    csr = certificate_request(shared_member("institution", "hospital-new").key, "hospital-new")
    return encode(Enrolment(ticket=signed(LEAD, ticket), csr=csr, mac=bytes(32)))


def new_loop(closing: ExitStack) -> asyncio.AbstractEventLoop:
    """Return an event loop, to be closed with its threads."""
    loop = asyncio.new_event_loop()
    closing.callback(loop.close)
    closing.callback(lambda: loop.run_until_complete(loop.shutdown_default_executor()))
    return loop


# Requests


def set_up_requests(directory: Path, closing: ExitStack) -> Run:
    """Send a request to the application: who, method and address, headers, an empty line, and the body."""
    stage, loop = Stage(directory), new_loop(closing)
    closing.callback(stage.close)

    def run(data: bytes) -> str:
        request = parsed(data, stage.upload_id)
        if request is None:
            return "no request"
        caller, scope, body = request
        sent = loop.run_until_complete(asyncio.wait_for(_answer(stage, caller, scope, body), PATIENCE_S))
        found = _checked(scope, sent)
        if scope["method"] not in ("GET", "HEAD") and sent[0]["status"] < 300:
            stage.put_back()
        return found

    return run


def parsed(data: bytes, upload_id: str) -> tuple[str, Scope, bytes] | None:
    """Return caller, scope and body of an input; None if a server of HTTP would not have let it through."""
    head, _, body = data.partition(b"\n\n")
    first, *fields = head.decode("latin-1").replace(UPLOAD, upload_id).split("\n")
    words = first.split(" ")
    if len(words) != 4 or words[2].upper() not in METHODS or not words[3].isascii():
        return None  # the parser of HTTP refuses it, as "connection" shows
    caller, how, method, target = words
    path, _, query = target.partition("?")
    headers = [tuple(one.encode("latin-1") for one in line.split(": ", 1)) for line in fields if ": " in line]
    caller = caller if caller in CALLERS else "nobody"
    if caller in TOKENS:
        headers.append((b"authorization", f"Bearer {TOKENS[caller]}".encode()))
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.upper(),
        "scheme": "https",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "client": ("192.0.2.1", 1),
        "headers": [(name.lower(), value) for name, value in headers],
    }
    return caller, scope, body_of(how, caller, body)


def body_of(how: str, caller: str, body: bytes) -> bytes:
    """Return a body: as it is, signed by the caller as a message of a kind, or a list of one such."""
    of_list, _, name = how.rpartition("+")
    if name not in KINDS or not body:
        return body
    made = newly_signed(KINDS[name].signing_label, body, caller if caller in (LEAD, HOSPITAL) else HOSPITAL)
    return pack_list([made]) if of_list else made


async def _answer(stage: Stage, caller: str, scope: Scope, body: bytes) -> list[Message]:
    half = len(body) // 2
    events: list[Message] = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return events.pop(0) if events else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    pem = None
    if caller not in TOKENS and caller != "nobody":
        pem = shared_member(role_of(caller), caller).pem.decode()
    await WithCertificate(stage.app, pem)(scope, receive, send)
    return sent


def _checked(scope: Scope, sent: list[Message]) -> str:
    """Return an answer in a word; fail unless it is one of ours, and none of an error of ours."""
    status, fields = sent[0]["status"], dict(sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent[1:])
    found = operations.find(scope["method"], scope["path"])
    is_not_ready = status == 503 and found is not None and found[0] is operations.READINESS
    assert status < 500 or is_not_ready, f"{status}: {body[:300]!r}"
    if fields.get(b"content-type") != b"application/problem+json":
        return f"{found and found[0].name} {status}"
    problem = json.loads(body)
    assert problem["status"] == status
    error = from_problem(problem)
    assert isinstance(error, OdcError)
    assert len(problem["detail"]) < 2000 + 2 * len(scope["path"])
    return f"{found and found[0].name} {status} {error.code} {shape_of(problem['detail'])[:80]}"


def request_seeds() -> Iterator[bytes]:
    """Yield every operation, with a body that it takes, for somebody who may call it."""

    def ask(caller: str, method: str, target: str, body: bytes = b"", how: str = "-", **fields: str) -> bytes:
        given = {"content_type": MEDIA_TYPE, **fields} if body else fields
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
        return "\n".join([f"{caller} {how} {method} {target}", *lines]).encode() + b"\n\n" + body

    ids = {"upload_id": UPLOAD, "party": "hospital-a", "invitation_id": INVITATION_ID, "token_id": "1" * 32}
    ids["token_id"] = token_id(token_digest(TOKENS["reader"]))
    ids["slug"] = "not-found"
    for operation in OPERATIONS:
        for round_id in (OPEN, EMPTY, RELEASED, OTHER):
            target = operation.url(collaboration_id=round_id, **ids)
            for caller in (HOSPITAL, LEAD, "operator"):
                yield ask(caller, operation.method, target, DRAFT_BYTES if operation.body else b"")
            if "{collaboration_id}" not in operation.path:
                break
    yield from _bodies(ask)
    path = operations.FETCH_DOWNLINK.url(collaboration_id=RELEASED)
    yield ask(HOSPITAL, "GET", path, range="bytes=0-9", if_range='"x"')
    yield ask(HOSPITAL, "GET", path, range="bytes=3-", if_none_match='W/"x", "y"')
    path = operations.COLLABORATION_STATUS.url(collaboration_id=OPEN)
    yield ask(HOSPITAL, "GET", f"{path}?{operations.ONLY_OWN}", prefer="wait=3", if_none_match='"1"')
    yield ask(LEAD, "GET", operations.LIST_ACCEPTANCES.url(collaboration_id=OPEN) + "?after=hospital-a")
    yield ask("reader", "GET", operations.FETCH_LEDGER.url(collaboration_id=OPEN) + "?start=1")
    yield ask("nobody", "GET", "/openapi.json", accept_encoding="gzip")
    newer = MEDIA_TYPE.replace("v1", "v2")
    yield ask("nobody", "POST", "/v1/enrolments", b"x", content_type=newer)
    yield ask("nobody", "GET", "/v1/collaborations", authorization="Bearer " + TOKENS["reader"])


DRAFT_BYTES: Final = json.dumps(DRAFT).encode()


def _bodies(ask: Any) -> Iterator[bytes]:
    """Yield requests whose messages are signed when they are sent."""
    stage_terms = {round_id: terms_of(round_id) for round_id in (OPEN, EMPTY, RELEASED)}
    with TemporaryDirectory() as directory:
        world = World(Path(directory))
        for round_id, terms in stage_terms.items():
            world.terms = terms
            for name, operation, made in (
                ("Acceptance", operations.ACCEPT_TERMS, world.acceptance(HOSPITAL)),
                ("+SealedAnchor", operations.PUBLISH_ANCHOR, world.sealed_anchor(HOSPITAL)),
                ("UplinkManifest", operations.BEGIN_UPLINK, make_uplink(terms, HOSPITAL).body),
                ("MemberScore", operations.SEND_SCORE, world.score(HOSPITAL)),
                ("SeenLedger", operations.SEND_SEEN_LEDGER, world.seen_ledger(HOSPITAL)),
            ):
                caller = LEAD if operation is operations.PUBLISH_ANCHOR else HOSPITAL
                target = operation.url(collaboration_id=round_id)
                yield ask(caller, operation.method, target, decode(Signed, made).payload, name)
        world.records.dispose()
    csr = certificate_request(shared_member("institution", HOSPITAL).key, HOSPITAL)
    renewal = encode(Renewal(consortium_id=CONSORTIUM_ID, renewal_id="2b" * 16, csr=csr))
    yield ask(HOSPITAL, "POST", "/v1/renewals", renewal, "Renewal")
    yield ask("nobody", "POST", "/v1/enrolments", enrolment())
    issued = shared_member("institution", "hospital-new")
    yield ask(LEAD, "PUT", f"/v1/enrolments/{INVITATION_ID}/certificate", issued.pem)
    yield ask(LEAD, "PUT", f"/v1/enrolments/{INVITATION_ID}/certificate", issued.der)
    gone = shared_member("institution", "hospital-z").certificate
    yield ask(LEAD, "PUT", "/v1/revocations", revoke(shared_root(), gone, number=2))
    yield ask("operator", "PUT", f"/v1/collaborations/{OTHER}", DRAFT_BYTES)
    request = json.dumps({"digest": hashlib.sha256(b"x").hexdigest(), "expires_at": NOW + 100}).encode()
    yield ask(HOSPITAL, "POST", "/v1/tokens", request, content_type="application/json")
    uplink = make_uplink(stage_terms[OPEN], HOSPITAL)
    whole = f"sha-256=:{base64.b64encode(uplink.whole_digest).decode()}:"
    common = {"content_type": UPLOAD_MEDIA_TYPE, "upload_offset": "0"}
    yield ask(HOSPITAL, "PATCH", f"/v1/uploads/{UPLOAD}", uplink.stream, upload_complete="?0", **common)
    yield ask(
        HOSPITAL,
        "PATCH",
        f"/v1/uploads/{UPLOAD}",
        uplink.stream,
        upload_complete="?1",
        repr_digest=whole,
        **common,
    )


# Bytes


class _Line(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = bytearray(), False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Nothing more comes until the protocol has looked at this."""

    def resume_reading(self) -> None:
        """As above."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Whatever is written is taken."""


class _Complaints(logging.Handler):
    """Keeps what uvicorn says of an application that has failed it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage() + repr(record.exc_info))


def set_up_connection(directory: Path, closing: ExitStack) -> Run:
    """Send bytes to a connection: the first says how long the pieces are that they come in."""
    stage, loop, complaints = Stage(directory), new_loop(closing), _Complaints()
    closing.callback(stage.close)
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(complaints)
    closing.callback(logger.removeHandler, complaints)
    loop.set_exception_handler(lambda _, context: complaints.said.append(str(context)))
    config = uvicorn.Config(stage.app, http=AnalystProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = {
        "meter": Meter(stage.world.records, "transport", stage.world.clock),
        "doors": Doors(Places()),
        "connection_timeout_s": PATIENCE_S,
    }

    def run(data: bytes) -> str:
        complaints.said.clear()
        written = loop.run_until_complete(_talk(config, state, data[1:], 1 + (data[:1] or b"\0")[0] * 9))
        assert not complaints.said, complaints.said[0]
        return _understood(bytes(written))

    return run


async def _talk(config: uvicorn.Config, state: dict[str, Any], data: bytes, piece_bytes: int) -> bytearray:
    """Return what is answered to bytes after which the peer hangs up."""
    line, server = _Line(), ServerState()
    protocol = AnalystProtocol(config, server, state, asyncio.get_running_loop())
    protocol.connection_made(line)
    for start in range(0, len(data), piece_bytes):
        if line.is_closed:
            break
        protocol.data_received(data[start : start + piece_bytes])
        await asyncio.sleep(0)
    for _ in range(8):  # an answer to one request may begin that to the next
        if server.tasks:
            await asyncio.wait(server.tasks, timeout=0.003)
    protocol.eof_received()
    protocol.connection_lost(None)
    if server.tasks:
        _, waiting = await asyncio.wait(server.tasks, timeout=PATIENCE_S)
        assert not waiting, f"{len(waiting)} requests wait although nobody is there"
    return line.written


def _understood(written: bytes) -> str:
    """Return the statuses of answers; fail if one is for an error of ours."""
    if not written:
        return "cut off"
    statuses = [int(found) for found in _STATUS.findall(written)]
    assert statuses, written[:500]
    assert all(status < 500 or status == 503 for status in statuses), written[:500]
    return str(statuses[:20])


def connection_seeds() -> Iterator[bytes]:
    def ask(line: str, body: bytes = b"", *fields: str) -> bytes:
        head = "".join(f"{field}\r\n" for field in ("host: analyst", *fields))
        return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body

    health = ask("GET /healthz")
    yield b"\xff" + health
    yield b"\x00" + health
    yield b"\x04" + health * 3
    yield b"\xff" + ask("GET /v1/collaborations", b"", "authorization: Bearer " + TOKENS["reader"])
    yield b"\xff" + ask("POST /v1/enrolments", b"x" * 30, "content-length: 30", f"content-type: {MEDIA_TYPE}")
    chunked = b"5\r\nabcde\r\n0\r\ntrailer: x\r\n\r\n"
    yield b"\x02" + ask(
        "POST /v1/enrolments", chunked, "transfer-encoding: chunked", f"content-type: {MEDIA_TYPE}"
    )
    yield b"\xff" + ask("POST /v1/tokens", b"", "content-length: 9999", "expect: 100-continue")
    yield b"\xff" + ask("GET /healthz", health, "connection: upgrade", "upgrade: websocket")
    yield b"\xff" + ask("OPTIONS *") + ask("HEAD /readyz", b"", "connection: close")
    yield b"\xff" + health.replace(b"HTTP/1.1", b"HTTP/1.0")
    yield b"\xff" + ask("GET /v1/collaborations/%ff%00/status?a=%zz")


TARGETS: Final = (
    Target("requests", set_up_requests, request_seeds, 8),
    Target("connection", set_up_connection, connection_seeds, 4),
)
