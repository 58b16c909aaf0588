"""Another system of an institution asks the analyst's REST API, with the institution's certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx
import pytest

from protocol.version import MEDIA_TYPE
from tests.harness.consortium import Consortium, consortium
from user_client.sdk import Session


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("rest"), "lead-hospital", "hospital-b") as found:
        yield found


@pytest.fixture(scope="module")
def finished(made: Consortium) -> str:
    found = made.anchored()
    made.contribute_all(found)
    made.receive_all(found)
    return found


def client_of(session: Session, *, with_certificate: bool = True) -> httpx.Client:
    context = ssl.create_default_context(cafile=session.home.root_path)
    if with_certificate:
        context.load_cert_chain(session.home.certificate_path, session.home.key_path)
    return httpx.Client(base_url=session.membership.analyst_url, verify=context, timeout=60)


@pytest.fixture(scope="module")
def rest(made: Consortium) -> Iterator[httpx.Client]:
    with client_of(made.sessions["hospital-b"]) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(made: Consortium) -> Iterator[httpx.Client]:
    with client_of(made.lead, with_certificate=False) as client:
        yield client


def test_discovery_and_health_answer_without_a_certificate(stranger: httpx.Client) -> None:
    found = stranger.get("/.well-known/odc").raise_for_status().json()
    assert found["wire_versions"] == [1]
    assert found["media_types"] == [MEDIA_TYPE]
    assert found["limits"]["message_bytes"] == 4 * 2**20
    assert stranger.get("/healthz").raise_for_status().json() == {"status": "ok"}
    assert set(stranger.get("/readyz").raise_for_status().json().values()) == {"ok"}


def test_openapi_lists_every_path_a_client_of_ours_uses(stranger: httpx.Client) -> None:
    paths = stranger.get("/openapi.json").raise_for_status().json()["paths"]
    one = "/v1/collaborations/{collaboration_id}"
    assert {one, f"{one}/report", f"{one}/uplinks", f"{one}/downlink", "/v1/uploads/{upload_id}"} <= set(
        paths
    )


def test_status_says_who_asks_and_where_the_round_stands(rest: httpx.Client, finished: str) -> None:
    found = rest.get(f"/v1/collaborations/{finished}").raise_for_status().json()
    assert found["state"] == "released"
    assert found["you"] == {"party": "hospital-b", "role": "institution"}
    assert {member["uplink"] for member in found["members"]} == {"received"}
    listed = rest.get("/v1/collaborations").raise_for_status().json()["collaborations"]
    assert [row["collaboration_id"] for row in listed] == [finished]


def test_report_puts_bytes_beside_the_formulas(rest: httpx.Client, finished: str) -> None:
    found = rest.get(f"/v1/collaborations/{finished}/report").raise_for_status().json()
    assert [party["party"] for party in found["parties"]] == ["hospital-b", "lead-hospital"]
    for party in found["parties"]:
        assert party["uplink_formula_bytes"] == (party["rows"] + 4) * 2 * 4
        assert party["uplink_payload_bytes"] == party["uplink_formula_bytes"] + party["rows"]  # the labels
    assert found["results"]["alignment"]["concordance_gap"] >= 0
    assert found["history"][-1]["state"] == "released"


def check_problem(answer: httpx.Response, status: int, slug: str) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] == (f"/problems/{slug}" if slug else "about:blank")
    assert problem["instance"] == answer.request.url.path
    assert all(problem[member] for member in ("title", "detail", "hint"))


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "slug"),
    [
        ("GET", "/nothing/here", {}, 404, ""),
        ("DELETE", "/healthz", {}, 405, ""),
        ("GET", "/v1/collaborations/ffff", {}, 404, "not-found"),
        ("GET", "/v1/uploads/ffff", {}, 405, ""),
        ("GET", "/v1/enrolments", {}, 403, "not-permitted"),
        ("GET", "/v1/enrolments/ffff", {}, 404, "not-found"),
        ("PUT", "/v1/enrolments/ffff/certificate", {}, 403, "not-permitted"),
        ("PATCH", "/v1/uploads/ffff", {}, 400, "malformed-message"),
        ("PATCH", "/v1/uploads/ffff", {"upload-offset": "0", "upload-complete": "?0"}, 404, "not-found"),
        ("POST", "/v1/enrolments", {"content-type": "text/plain"}, 400, "malformed-message"),
        ("POST", "/v1/enrolments", {"content-type": MEDIA_TYPE}, 400, "malformed-message"),
        (
            "POST",
            "/v1/enrolments",
            {"content-type": "application/vnd.odc.v2+msgpack"},
            400,
            "unsupported-version",
        ),
        (
            "PATCH",
            "/v1/uploads/ffff",
            {"upload-offset": "0", "upload-complete": "?1", "repr-digest": f"sha-256=:{'A' * 42}=A:"},
            400,
            "malformed-message",
        ),
    ],
)
def test_every_refusal_is_a_problem_document(
    rest: httpx.Client, method: str, path: str, headers: dict[str, str], status: int, slug: str
) -> None:
    check_problem(rest.request(method, path, headers=headers), status, slug)


@pytest.mark.parametrize("path", ["/v1/collaborations", "/nothing/here"])
def test_without_a_certificate_even_an_unknown_path_asks_for_one(stranger: httpx.Client, path: str) -> None:
    check_problem(stranger.get(path), 401, "certificate-required")


def test_a_member_learns_nothing_of_a_round_it_is_not_named_in(made: Consortium, rest: httpx.Client) -> None:
    other = made.publish(parties=["lead-hospital"], lead="lead-hospital")
    for what in ("", "/terms", "/report", "/downlink", "/receipt", "/anchor", "/acceptances"):
        check_problem(rest.get(f"/v1/collaborations/{other}{what}"), 404, "not-found")
    listed = rest.get("/v1/collaborations").json()["collaborations"]
    assert other not in [row["collaboration_id"] for row in listed]


def test_a_head_without_end_is_cut_off_before_it_fills_the_memory(made: Consortium) -> None:
    context = ssl.create_default_context(cafile=made.lead.home.root_path)
    address = ("localhost", made.analyst.port)
    with (
        socket.create_connection(address, timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ")
        with pytest.raises(OSError, match=r"reset|pipe|EOF|abort"):
            line.sendall(b"a" * 2**26)
    with client_of(made.lead, with_certificate=False) as client:
        assert client.get("/healthz").is_success
