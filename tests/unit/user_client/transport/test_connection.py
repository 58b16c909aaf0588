from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from protocol.busy import TooManyRequestsError
from protocol.errors import (
    DiskFullError,
    MalformedMessageError,
    NotFoundError,
    OdcError,
    OffsetMismatchError,
    OutOfOrderError,
    StorageBusyError,
    UnsupportedVersionError,
)
from protocol.operations import ACCEPT_TERMS, HEALTH
from protocol.version import MEDIA_TYPE
from runtime.terminal import exit_code
from tests.harness.certificates import shared_member
from tests.harness.scripted_server import NO_SUCH_NAME, InTurn, Pauses, caused_by, connect, problem
from user_client.custody.home import key_pem
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport.connection import ATTEMPTS, Identity

OK = httpx.Response(200, json={"wire_versions": [1]})
DOWN = httpx.ConnectError("[Errno 111] Connection refused")


# discovery


def test_an_analyst_of_our_version_is_found() -> None:
    assert connect(InTurn(OK)).discover() == {"wire_versions": [1]}


@pytest.mark.parametrize(("versions", "who"), [([2], "upgrade this program"), ([0], "upgrade the analyst")])
def test_an_analyst_of_another_version_is_refused_and_says_who_upgrades(
    versions: list[int], who: str
) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        connect(InTurn(httpx.Response(200, json={"wire_versions": versions}))).discover()
    assert who in caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={}),
        httpx.Response(200, json={"wire_versions": "1"}),
        httpx.Response(200, json={"wire_versions": ["1"]}),
        httpx.Response(200, json=[]),
        httpx.Response(200, text="<html>Welcome to the guest network</html>"),
        httpx.Response(200, content=b"\xff\xfe"),
    ],
)
def test_something_else_than_an_analyst_is_seen(answer: httpx.Response) -> None:
    with pytest.raises(MalformedMessageError):
        connect(InTurn(answer)).discover()


# errors translated


@pytest.mark.parametrize(
    "error",
    [
        DOWN,
        httpx.ConnectError("[Errno -2] Name or service not known"),
        httpx.ConnectTimeout("timed out"),
        httpx.ReadTimeout("The read operation timed out"),
        httpx.ReadError("[Errno 104] Connection reset by peer"),
        httpx.WriteError("[Errno 32] Broken pipe"),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
        httpx.ProxyError("403 Forbidden"),
        httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol"),
    ],
    ids=lambda error: str(error)[:30],
)
def test_a_line_that_fails_is_one_error_of_ours(error: httpx.TransportError) -> None:
    with pytest.raises(ConnectionFailedError) as caught:
        connect(InTurn(error)).request_once("GET", "/x")
    assert type(caught.value) is ConnectionFailedError
    assert "https://analyst:8443" in caught.value.detail
    assert exit_code(caught.value) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate", "of this consortium"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert", "refused this institution's certificate"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "refused this institution's certificate"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "TLS with"),
    ],
)
def test_tls_that_fails_says_which_side_did_not_believe(text: str, words: str) -> None:
    with pytest.raises(TlsFailedError, match=words):
        connect(InTurn(httpx.ConnectError(text))).request_once("GET", "/x")


@pytest.mark.parametrize(
    ("cause", "proxy", "said", "advice"),
    [
        (NO_SUCH_NAME, "", "no machine has the name in the address of https://analyst:8443", "DNS"),
        (NO_SUCH_NAME, "http://me:secret@proxy:3128", "the proxy http://proxy:3128", "HTTPS_PROXY"),
        (ConnectionRefusedError(111, "refused"), "", "nothing listens at this port", "not running"),
        (
            ConnectionRefusedError(111, "refused"),
            "http://proxy:3128",
            "the proxy http://proxy:3128",
            "NO_PROXY",
        ),
        (TimeoutError("timed out"), "", "does not answer", "firewall"),
    ],
)
def test_what_keeps_us_from_the_analyst_is_told_apart(
    cause: OSError, proxy: str, said: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ConnectionFailedError, match=said) as caught:
        connect(InTurn(caused_by(cause))).request_once("GET", "/x")
    assert advice in caught.value.hint
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize(
    ("text", "said", "advice"),
    [
        (
            "CERTIFICATE_VERIFY_FAILED] Hostname mismatch, certificate is not valid for 'x'",
            "for that name",
            "clock",
        ),
        ("CERTIFICATE_VERIFY_FAILED] certificate has expired", "clock", "odc-analyst renew"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "does not speak TLS", "port"),
    ],
)
def test_a_handshake_that_fails_says_what_to_do(text: str, said: str, advice: str) -> None:
    with pytest.raises(TlsFailedError, match=said) as caught:
        connect(InTurn(httpx.ConnectError(text))).request_once("GET", "/x")
    assert advice in caught.value.hint


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (caused_by(NO_SUCH_NAME), 1),
        (httpx.ProxyError("407 Proxy Authentication Required"), 1),
        (httpx.ProxyError("502 Bad Gateway"), ATTEMPTS),
        (caused_by(ConnectionRefusedError(111, "refused")), ATTEMPTS),
    ],
)
def test_what_does_not_pass_is_said_at_once(failure: Exception, attempts: int) -> None:
    server = InTurn(failure)
    with pytest.raises(ConnectionFailedError):
        connect(server).request("GET", "/x")
    assert len([path for path in server.requests if "/x" in str(path)]) == attempts


def test_a_name_that_was_known_before_may_come_back() -> None:
    server, pauses = InTurn(httpx.Response(200), caused_by(NO_SUCH_NAME)), Pauses()
    connection = connect(server, pauses)
    connection.request("GET", "/x")
    with pytest.raises(ConnectionFailedError):
        connection.request("GET", "/x")
    assert len(pauses) == ATTEMPTS - 1


def test_a_problem_is_raised_as_its_error() -> None:
    answer = problem(409, OutOfOrderError("draft", "seal").to_problem())
    with pytest.raises(OutOfOrderError, match="the collaboration is draft"):
        connect(InTurn(answer)).request("GET", "/x")


def test_a_problem_keeps_what_it_carries() -> None:
    answer = problem(409, OffsetMismatchError(10, 20).to_problem())
    with pytest.raises(OffsetMismatchError) as caught:
        connect(InTurn(answer)).request("GET", "/x")
    assert caught.value.expected == 10


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_problem_that_cannot_be_read_is_still_an_error_of_ours(content: bytes) -> None:
    answer = httpx.Response(409, content=content, headers={"content-type": "application/problem+json"})
    with pytest.raises(OdcError, match="409"):
        connect(InTurn(answer)).request("GET", "/x")


def test_the_media_type_of_a_problem_is_compared_without_regard_to_case() -> None:
    problem = b'{"type": "/problems/out-of-order", "detail": "not now"}'
    answer = httpx.Response(409, content=problem, headers={"content-type": "Application/Problem+JSON"})
    with pytest.raises(OutOfOrderError, match="not now"):
        connect(InTurn(answer)).request("GET", "/x")


def test_an_upload_that_is_not_known_is_not_found_though_a_head_has_no_body() -> None:
    answer = httpx.Response(404, headers={"content-type": "application/problem+json"})
    with pytest.raises(NotFoundError):
        connect(InTurn(answer)).request("HEAD", "/v1/uploads/x")


@pytest.mark.parametrize("status", [400, 403, 407, 500])
def test_an_answer_without_a_reason_points_to_a_proxy(status: int) -> None:
    with pytest.raises(OdcError) as caught:
        connect(InTurn(httpx.Response(status, text="<html>"))).request("GET", "/x")
    assert str(status) in caught.value.detail
    assert "proxy" in caught.value.hint


# again and again


@pytest.mark.parametrize(
    "failure", [DOWN, *(httpx.Response(status) for status in (408, 502, 503, 504))], ids=str
)
def test_a_request_is_sent_again_until_it_is_answered(failure: Any) -> None:
    server, pauses = InTurn(failure, failure, OK), Pauses()
    assert connect(server, pauses).request("GET", "/x").status == 200
    assert (len(server.requests), len(pauses)) == (3, 2)


BUSY = httpx.Response(503)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ((DOWN, OK), None),  # it came up between the two
        ((DOWN,), TlsFailedError),
        ((BUSY,), ConnectionFailedError),  # whoever answers has believed our certificate
    ],
)
def test_a_server_that_answers_strangers_alone_refuses_our_certificate(
    answers: tuple[Any, ...], error: type[OdcError] | None, tmp_path: Path
) -> None:
    ours, strangers = InTurn(*answers), InTurn(OK)

    def transport(_trust: ssl.SSLContext, identity: Identity | None) -> httpx.BaseTransport:
        return httpx.MockTransport(strangers if identity is None else ours)

    line = connect(ours, identity=written(tmp_path), attempts=1, transport=transport)
    if error is None:
        assert line.request("GET", "/x").status == 200
        return
    with pytest.raises(error) as caught:
        line.request("GET", "/x")
    assert caught.type is error
    assert len(strangers.requests) == (error is TlsFailedError)  # a busy server needs no such question


def written(directory: Path) -> Identity:
    """Write a member's certificate and key where a connection looks for them."""
    member = shared_member()
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(member.pem)
    key.write_bytes(key_pem(member.key, None))
    return certificate, key


def test_one_attempt_is_made_where_the_caller_comes_back_anyway() -> None:
    server, pauses = InTurn(DOWN), Pauses()
    with pytest.raises(ConnectionFailedError):
        connect(server, pauses, attempts=1).request("GET", "/x")
    assert (len(server.requests), pauses) == (1, [])


def test_the_pauses_grow() -> None:
    pauses = Pauses()
    with pytest.raises(ConnectionFailedError):
        connect(InTurn(DOWN), pauses).request("GET", "/x")
    assert len(pauses) == ATTEMPTS - 1
    assert pauses == sorted(pauses)


def test_trying_ends_in_about_a_minute() -> None:
    pauses = Pauses()
    with pytest.raises(ConnectionFailedError):
        connect(InTurn(DOWN), pauses).request("GET", "/x")
    assert 15 <= sum(pauses) <= 60


def test_a_certificate_that_is_not_believed_is_not_tried_again() -> None:
    server, pauses = InTurn(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")), Pauses()
    with pytest.raises(TlsFailedError):
        connect(server, pauses).request("GET", "/x")
    assert (len(server.requests), pauses) == (1, [])


def test_a_refusal_is_not_tried_again() -> None:
    server = InTurn(problem(409, OutOfOrderError("draft", "seal").to_problem()))
    with pytest.raises(OutOfOrderError):
        connect(server).request("GET", "/x")
    assert len(server.requests) == 1


def test_a_request_that_must_not_be_repeated_is_sent_once() -> None:
    server, pauses = InTurn(DOWN), Pauses()
    with pytest.raises(ConnectionFailedError):
        connect(server, pauses).request_once("PATCH", "/x")
    assert (len(server.requests), pauses) == (1, [])


def busy(asked: object) -> httpx.Response:
    return problem(
        503, StorageBusyError("the analyst's database is locked", retry_after_s=asked).to_problem()
    )


def test_a_database_that_is_busy_is_waited_for_as_long_as_the_analyst_asks() -> None:
    server, pauses = InTurn(busy(5), busy(5), OK), Pauses()
    assert connect(server, pauses).request("GET", "/x").status == 200
    assert all(5 <= pause_s <= 6.25 for pause_s in pauses)
    assert len(pauses) == 2


@pytest.mark.parametrize("asked", [10_000, -1, "soon", None])
def test_no_analyst_makes_us_wait_for_hours(asked: object) -> None:
    pauses = Pauses()
    with pytest.raises(StorageBusyError) as caught:
        connect(InTurn(busy(asked)), pauses).request("GET", "/x")
    assert sum(pauses) <= 60
    assert exit_code(caught.value) == 8


def turned_away(asked: object = 5) -> httpx.Response:
    return problem(
        429, TooManyRequestsError("more than 1 requests a second", retry_after_s=asked).to_problem()
    )


def test_an_analyst_that_asks_to_come_back_is_obeyed_as_often_as_it_asks() -> None:
    many = 3 * ATTEMPTS
    server, pauses = InTurn(*[turned_away()] * many, DOWN, turned_away(), OK), Pauses()
    assert connect(server, pauses).request("GET", "/x").status == 200
    assert len(pauses) == many + 2
    waits = [pause_s for pause_s in pauses if pause_s >= 5]
    assert len(waits) == many + 1  # and one for the line that failed
    assert max(waits) <= 6.25
    assert len(set(waits)) > many / 2  # not everybody at the same moment


@pytest.mark.parametrize("asked", [10_000, 0, -1, "soon", None])
def test_no_analyst_asks_us_to_come_back_for_hours(asked: object) -> None:
    pauses = Pauses()
    with pytest.raises(TooManyRequestsError) as caught:
        connect(InTurn(turned_away(asked)), pauses).request("GET", "/x")
    assert 600 <= sum(pauses) <= 700
    assert exit_code(caught.value) == 7


def test_a_caller_that_comes_back_anyway_does_not_wait() -> None:
    pauses = Pauses()
    with pytest.raises(TooManyRequestsError):
        connect(InTurn(turned_away()), pauses, attempts=1).request("GET", "/x")
    assert pauses == []


def test_the_answer_to_a_head_asks_by_its_header_alone() -> None:
    refusal, pauses = httpx.Response(429, headers={"retry-after": "3"}), Pauses()
    assert connect(InTurn(refusal, OK), pauses).request("HEAD", "/x").status == 200
    assert 3 <= pauses[0] <= 3.75


def full() -> httpx.Response:
    return problem(507, DiskFullError("the analyst's disk is full", retry_after_s=10).to_problem())


def test_a_full_disk_is_asked_again_when_the_analyst_says_so() -> None:
    server, pauses = InTurn(full(), full(), full(), full(), OK), Pauses()
    assert connect(server, pauses).request("POST", "/x").status == 200
    assert all(10 <= pause_s <= 12.5 for pause_s in pauses)
    assert len(set(pauses)) > 1  # not everybody at the same moment; there are 256 of them


def test_a_disk_that_stays_full_is_told_in_the_end() -> None:
    pauses = Pauses()
    with pytest.raises(DiskFullError):
        connect(InTurn(full()), pauses).request("POST", "/x")
    assert len(pauses) == ATTEMPTS - 1


def test_a_full_disk_waits_for_a_person_and_is_not_tried_again() -> None:
    server = InTurn(problem(507, DiskFullError("the analyst's disk is full").to_problem()))
    with pytest.raises(DiskFullError):
        connect(server).request("GET", "/x")
    assert len(server.requests) == 1


# what is sent and what comes


def test_a_message_goes_out_in_our_media_type() -> None:
    server = InTurn(OK)
    connect(server).ask(ACCEPT_TERMS, b"message", collaboration_id="c0" * 16)
    (sent,) = server.requests
    assert (sent.method, sent.content, sent.headers["content-type"]) == ("PUT", b"message", MEDIA_TYPE)


def test_a_message_comes_back_as_bytes() -> None:
    assert connect(InTurn(httpx.Response(200, content=b"message"))).ask(HEALTH).content == b"message"


def test_a_long_answer_comes_in_pieces() -> None:
    class Pieces(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield from (b"one", b"two")

    with connect(InTurn(httpx.Response(200, stream=Pieces()))).stream(HEALTH) as answer:
        assert list(answer.pieces) == [b"one", b"two"]


def test_a_long_answer_that_is_refused_is_raised_as_its_error() -> None:
    server = InTurn(problem(409, OutOfOrderError("draft", "fetch").to_problem()))
    with pytest.raises(OutOfOrderError), connect(server).stream(HEALTH):
        pass


def test_a_long_answer_that_breaks_off_is_a_failed_connection() -> None:
    class Cut(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield b"one"
            raise httpx.ReadError("[Errno 104] Connection reset by peer")

    connection = connect(InTurn(httpx.Response(200, stream=Cut())))
    with pytest.raises(ConnectionFailedError), connection.stream(HEALTH) as answer:
        list(answer.pieces)


def test_a_connection_says_where_it_leads() -> None:
    assert repr(connect(InTurn(OK))) == "<AnalystConnection https://analyst:8443>"
