"""A server behind a balancer: whose header it believes, and whom it answers at all."""

from __future__ import annotations

import base64

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from starlette.types import ASGIApp

from analyst_server.app import create_app
from analyst_server.settings import Settings
from tests.harness.app import Api, InProcess, WithCertificate
from tests.harness.certificates import Credential, issue, make_root, shared_member, shared_root
from tests.harness.world import HOSPITAL, LEAD, World, role_of

LEADS_ALONE = "/v1/enrolments"
"""What only the lead may ask for."""
REFUSED = (403, "certificate-refused")


def member(party: str) -> Credential:
    return shared_member(role_of(party), party)


def named(credential: Credential) -> str:
    """Return the header of a certificate, as RFC 9440 has it."""
    return f":{base64.b64encode(credential.certificate.public_bytes(Encoding.DER)).decode()}:"


@pytest.fixture
def app(world: World) -> ASGIApp:
    return create_app(world.analyst, Settings(data_dir=world.directory, behind_balancer=True))


def ask(
    app: ASGIApp, shown: Credential | None, *headers: str, path: str = LEADS_ALONE
) -> tuple[int, str | None]:
    """Return the status and the problem of an answer to a connection that has shown a certificate."""
    pem = shown.pem.decode() if shown is not None else None
    with httpx.Client(
        transport=InProcess(WithCertificate(app, pem)), base_url="https://analyst"
    ) as connected:
        answer = connected.get(path, headers=[("Client-Cert", value) for value in headers])
    problem = answer.json().get("type") if not answer.is_success else None
    return answer.status_code, problem and problem.rsplit("/", 1)[-1]


BALANCER = shared_member("analyst", "analyst")


def test_the_balancer_says_who_asks(app: ASGIApp) -> None:
    assert ask(app, BALANCER, named(member(LEAD))) == (200, None)
    assert ask(app, BALANCER, named(member(HOSPITAL))) == (403, "not-permitted")
    assert ask(app, BALANCER) == (401, "certificate-required")


@pytest.mark.parametrize("headers", [[], [named(member(LEAD))]])
@pytest.mark.parametrize(
    "shown",
    [None, member(LEAD), member(HOSPITAL), issue(shared_root(), "analyst", "analyst")],
    ids=["nobody", "lead", "hospital", "another-analyst"],
)
def test_nobody_else_is_answered(app: ASGIApp, shown: Credential | None, headers: list[str]) -> None:
    for path in (LEADS_ALONE, "/.well-known/odc"):
        assert ask(app, shown, *headers, path=path) == REFUSED


def test_a_supervisor_asks_whether_it_lives_but_names_nobody(app: ASGIApp) -> None:
    assert ask(app, None, path="/healthz") == (200, None)
    assert ask(app, None, named(member(LEAD)), path="/healthz") == REFUSED


def test_what_the_balancer_names_is_checked_as_what_tls_shows(app: ASGIApp) -> None:
    stranger = issue(make_root(), "lead", LEAD)
    assert ask(app, BALANCER, named(stranger)) == REFUSED
    assert ask(app, stranger, named(member(LEAD))) == REFUSED


@pytest.mark.parametrize("value", ["", "::", ":AAAA", ":A:", ":AA*A:", "AAAA", named(member(LEAD)) + ";a=1"])
def test_a_header_that_is_no_byte_sequence_is_refused(app: ASGIApp, value: str) -> None:
    assert ask(app, BALANCER, value) == REFUSED


def test_a_header_may_come_once(app: ASGIApp) -> None:
    assert ask(app, BALANCER, *2 * [named(member(LEAD))]) == REFUSED


def test_by_default_the_header_means_nothing(api: Api) -> None:
    assert ask(api.app, member(HOSPITAL), named(member(LEAD))) == (403, "not-permitted")
    assert ask(api.app, BALANCER, named(member(LEAD))) == (403, "not-permitted")
    assert ask(api.app, None, named(member(LEAD))) == (401, "certificate-required")
    assert ask(api.app, member(LEAD)) == (200, None)
