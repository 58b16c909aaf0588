from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.coding import Coding
from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import MAX_ANSWER_BYTES
from protocol.operations import ACCEPT_TERMS, BEGIN_UPLINK, FETCH_TERMS
from tests.harness.certificates import Credential, shared_member
from tests.harness.scripted_server import InTurn, connect, problem
from user_client.custody.home import key_pem
from user_client.transport import AnalystConnection

ID = f"{1:032x}"
ANALYST = shared_member("analyst", "analyst")
OURS = shared_member()


def der(credential: Credential) -> bytes:
    return credential.certificate.public_bytes(Encoding.DER)


THEIRS = Coding.of(der(ANALYST))
OWN = Coding.of(der(OURS))
TEXT = b'{"collaborations":[]}' * 20


@dataclass
class Line:
    """What httpcore has below an answer."""

    certificate: bytes

    def get_extra_info(self, info: str) -> Any:
        return self if info == "ssl_object" else None

    def getpeercert(self, _binary: bool) -> bytes:
        return self.certificate


def answer(
    content: bytes = TEXT, *, by: Credential = ANALYST, coding: Coding | None = None
) -> httpx.Response:
    headers = {"content-encoding": coding.name} if coding else {}
    body = coding.pack(content) if coding else content
    return httpx.Response(200, content=body, headers=headers, extensions={"network_stream": Line(der(by))})


@pytest.fixture
def identity(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(OURS.pem)
    key.write_bytes(key_pem(OURS.key, None))
    return certificate, key


def fetch(line: AnalystConnection) -> bytes:
    return line.ask(FETCH_TERMS, collaboration_id=ID).content


def asked(server: InTurn) -> list[str]:
    return [request.headers["accept-encoding"] for request in server.requests]


def test_the_analysts_coding_is_asked_for_once_its_certificate_is_known() -> None:
    server = InTurn(answer(), answer(coding=THEIRS), answer(coding=THEIRS))
    line = connect(server)
    assert [fetch(line) for _ in range(3)] == [TEXT] * 3
    assert asked(server) == ["gzip", f"gzip, {THEIRS.name}", THEIRS.name]


def test_without_tls_of_its_own_nothing_is_asked_for() -> None:
    server = InTurn(httpx.Response(200, content=TEXT))
    line = connect(server)
    assert [fetch(line), fetch(line)] == [TEXT, TEXT]
    assert asked(server) == ["gzip", "gzip"]


def test_a_renewed_certificate_of_the_analyst_is_another_coding() -> None:
    other = shared_member("analyst", "analyst-renewed")
    server = InTurn(answer(), answer(by=other), answer(by=other, coding=Coding.of(der(other))))
    line = connect(server)
    assert [fetch(line) for _ in range(3)] == [TEXT] * 3
    assert asked(server)[-1] == f"gzip, {Coding.of(der(other)).name}"


def test_a_body_that_cannot_be_unpacked_is_refused() -> None:
    broken = answer(coding=THEIRS)
    broken = httpx.Response(200, content=b"\xff", headers=broken.headers, extensions=broken.extensions)
    line = connect(InTurn(answer(), broken))
    fetch(line)
    with pytest.raises(MalformedMessageError):
        fetch(line)


def test_a_body_that_unpacks_to_too_much_is_refused() -> None:
    line = connect(InTurn(answer(), answer(bytes(MAX_ANSWER_BYTES + 1), coding=THEIRS)))
    fetch(line)
    with pytest.raises(LimitExceededError):
        fetch(line)


def test_requests_are_packed_once_the_analyst_has_packed_an_answer(identity: tuple[Path, Path]) -> None:
    server = InTurn(answer(), answer(), answer(coding=THEIRS), answer())
    line = connect(server, identity=identity)
    for step in (ACCEPT_TERMS, ACCEPT_TERMS, FETCH_TERMS, ACCEPT_TERMS):
        line.ask(step, TEXT if step.body else None, collaboration_id=ID)
    first, second, _, last = server.requests
    assert (first.content, second.content) == (TEXT, TEXT)
    assert "content-encoding" not in second.headers
    assert last.headers["content-encoding"] == OWN.name
    assert OWN.unpack(last.content, 1000) == TEXT


def test_what_is_compared_with_the_formulas_is_sent_as_it_is(identity: tuple[Path, Path]) -> None:
    server = InTurn(answer(), answer(coding=THEIRS), answer())
    line = connect(server, identity=identity)
    for _ in range(2):
        fetch(line)
    line.ask(BEGIN_UPLINK, TEXT, collaboration_id=ID)
    assert server.requests[-1].content == TEXT


def test_an_answer_without_a_body_has_nothing_to_unpack(identity: tuple[Path, Path]) -> None:
    bare = httpx.Response(200, headers={"content-encoding": THEIRS.name})
    line = connect(InTurn(answer(), bare), identity=identity)
    fetch(line)
    assert line.ask(FETCH_TERMS, collaboration_id=ID).content == b""


def test_what_would_grow_is_sent_as_it_is(identity: tuple[Path, Path]) -> None:
    server = InTurn(answer(), answer(coding=THEIRS), answer())
    line = connect(server, identity=identity)
    for _ in range(2):
        fetch(line)
    line.ask(ACCEPT_TERMS, b"\x00" * 8, collaboration_id=ID)
    assert server.requests[-1].content == b"\x00" * 8
    assert "content-encoding" not in server.requests[-1].headers


def test_an_analyst_that_has_gone_back_to_an_earlier_version_gets_it_unpacked(
    identity: tuple[Path, Path],
) -> None:
    refusal = problem(400, {"type": "/problems/malformed-message", "detail": "x", "hint": "y"})
    server = InTurn(answer(), answer(coding=THEIRS), refusal, answer(), answer())
    line = connect(server, identity=identity)
    for _ in range(2):
        fetch(line)
    for _ in range(2):
        line.ask(ACCEPT_TERMS, TEXT, collaboration_id=ID)
    assert [request.content == TEXT for request in server.requests[2:]] == [False, True, True]


def test_what_is_malformed_in_itself_is_sent_once(identity: tuple[Path, Path]) -> None:
    refusal = problem(400, {"type": "/problems/malformed-message", "detail": "x", "hint": "y"})
    server = InTurn(refusal)
    with pytest.raises(MalformedMessageError):
        connect(server, identity=identity).ask(ACCEPT_TERMS, TEXT, collaboration_id=ID)
    assert len(server.requests) == 1
