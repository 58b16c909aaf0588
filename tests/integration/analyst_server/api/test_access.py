from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from analyst_server.api.access import RequireIdentity, admit, is_page, is_public
from analyst_server.services.api_tokens import Grant
from protocol.errors import CertificateRequiredError
from protocol.operations import OPERATIONS, Caller, Operation
from tests.harness.app import Api, routes, slug
from tests.harness.certificates import NOT_AFTER, NOT_BEFORE, issue, make_root, shared_root
from tests.harness.world import HOSPITAL, LEAD, Clock


@pytest.mark.parametrize("path", ["/.well-known/odc", "/healthz"])
def test_discovery_and_health_answer_anybody(api: Api, path: str) -> None:
    assert api.anonymous.get(path).status_code == 200


def test_a_server_without_a_worker_is_not_ready(api: Api) -> None:
    answer = api.anonymous.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "failing",
        **dict.fromkeys(("database", "arrays", "disk"), "ok"),
        "compute": "failing",
    }


def test_discovery_names_versions_and_limits(api: Api) -> None:
    found = api.anonymous.get("/.well-known/odc").json()
    assert found["service"] == "odc-analyst"
    assert found["wire_versions"] == [1]
    assert found["limits"]["uplink_bytes"] == 64 * 2**30


@pytest.mark.parametrize(
    ("method", "path", "public"),
    [
        ("GET", "/.well-known/odc", True),
        ("POST", "/v1/enrolments", True),
        ("GET", "/v1/enrolments/" + "0" * 32, True),
        ("GET", "/v1/enrolments", False),
        ("POST", "/v1/enrolments/" + "0" * 32, False),
        ("PUT", f"/v1/enrolments/{'0' * 32}/certificate", False),
        ("POST", "/v1/collaborations", False),
        ("GET", "/v1/enrolmentsx", False),
        ("GET", "/openapi.json", True),
        ("POST", "/openapi.json", False),
        ("GET", "/v1/enrolments/", False),
        ("GET", f"/v1/enrolments/{'0' * 32}/certificate", False),
        ("DELETE", "/healthz", False),
        ("GET", "/v1/revocations", True),
        ("PUT", "/v1/revocations", False),
    ],
)
def test_only_asking_for_a_certificate_is_public_besides(method: str, path: str, public: bool) -> None:
    assert is_public(method, path) is public


def test_every_other_route_needs_a_certificate(api: Api) -> None:
    """Walks the routes, so that a new one cannot be forgotten; those of pages lead to the sign-in."""
    answers = {}
    for route in routes(api):
        path = route.path.replace("{invitation_id}", "0" * 32).replace("{", "").replace("}", "")
        for method in (route.methods or set()) - {"HEAD"} | ({"HEAD"} if "upload" in path else set()):
            if not is_public(method, path) and not is_page(path):
                answers[method, path] = api.anonymous.request(method, path)
    assert answers
    assert {answer.status_code for answer in answers.values()} == {401}


def test_a_request_without_certificate_is_told_to_join(api: Api) -> None:
    answer = api.anonymous.get("/v1/collaborations")
    assert slug(answer) == "certificate-required"
    assert "odc join" in answer.json()["hint"]


@pytest.mark.parametrize("path", ["/v1/collaborations", "/healthz"])
def test_a_certificate_of_another_root_is_refused_everywhere(api: Api, path: str) -> None:
    foreign = issue(make_root(), name=HOSPITAL).pem.decode()
    answer = api.with_pem(foreign).get(path)
    assert (answer.status_code, slug(answer)) == (403, "certificate-refused")


@pytest.mark.parametrize("now", [NOT_BEFORE - 1, NOT_AFTER + 1])
def test_a_certificate_out_of_its_time_is_refused(api: Api, now: int) -> None:
    api.world.clock.now = now
    answer = api.as_party(HOSPITAL).get("/v1/collaborations")
    assert slug(answer) == "certificate-refused"


def test_a_certificate_that_cannot_be_read_is_refused(api: Api) -> None:
    answer = api.with_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").get("/healthz")
    assert slug(answer) == "certificate-refused"


def test_a_certificate_of_another_consortium_under_the_same_root_is_refused(api: Api) -> None:
    other = issue(shared_root(), name=HOSPITAL, consortium_id="f" * 32).pem.decode()
    assert slug(api.with_pem(other).get("/v1/collaborations")) == "certificate-refused"


@pytest.mark.parametrize("party", [LEAD, HOSPITAL])
def test_a_member_is_who_its_certificate_says(api: Api, party: str) -> None:
    api.world.publish()
    row = api.as_party(party).get(f"/v1/collaborations/{api.world.id}").json()
    assert row["you"]["party"] == party


def test_a_name_in_a_header_is_no_identity(api: Api) -> None:
    answer = api.anonymous.get("/v1/collaborations", headers={"x-client-cert": "x", "x-forwarded-user": LEAD})
    assert answer.status_code == 401


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_route_checks_its_callers_itself_besides(operation: Operation) -> None:
    """As if `RequireIdentity` had let a stranger through."""
    check: Any = admit(operation)[0].dependency
    state = {"identity": None, "certificate": None, "grant": None}
    request = Request({"type": "http", "state": state, "headers": [], "path_params": {}})
    if operation.caller is Caller.ANYBODY:
        asyncio.run(check(request))
    else:
        with pytest.raises(CertificateRequiredError):
            asyncio.run(check(request))


def test_what_is_not_http_passes() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    guarded = RequireIdentity(app, shared_root().trust_root, Clock(), lambda _: Grant(None))
    asyncio.run(guarded({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
