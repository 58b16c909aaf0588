from __future__ import annotations

import json

import pytest

from analyst_server.api.problems import STATUS, problem_response
from protocol import errors
from protocol.errors import OdcError
from protocol.problems import all_errors, from_problem
from tests.harness.app import Api, slug
from tests.harness.world import HOSPITAL, LEAD

SHARED = [cls for cls in all_errors() if cls.__module__.startswith("protocol.")]
"""The client's own errors never reach the server."""


@pytest.mark.parametrize("cls", SHARED, ids=lambda cls: cls.__name__)
def test_every_error_has_a_status(cls: type[OdcError]) -> None:
    assert 400 <= STATUS[cls] < 600


@pytest.mark.parametrize("cls", SHARED, ids=lambda cls: cls.__name__)
def test_every_error_has_a_title_and_a_hint(cls: type[OdcError]) -> None:
    assert cls.title
    assert cls.hint


def test_the_table_has_no_other_class() -> None:
    assert set(STATUS) == set(SHARED)


def test_the_server_has_no_errors_of_its_own() -> None:
    assert not [cls for cls in all_errors() if cls.__module__.startswith("analyst_server")]


@pytest.mark.parametrize("cls", SHARED, ids=lambda cls: cls.__name__)
def test_a_problem_comes_back_as_its_error(cls: type[OdcError]) -> None:
    sent = cls.rebuilt("what happened", "what to do", {"row": 3})
    answer = problem_response(sent, "/v1/x")
    assert answer.status_code == STATUS[cls]
    body = json.loads(bytes(answer.body))
    assert (body["status"], body["instance"]) == (STATUS[cls], "/v1/x")
    again = from_problem(body)
    assert (type(again), again.detail, again.hint, again.context) == (
        cls,
        "what happened",
        "what to do",
        {"row": 3},
    )


@pytest.mark.parametrize(
    ("cls", "status"),
    [
        (errors.MalformedMessageError, 400),
        (errors.CertificateRequiredError, 401),
        (errors.NotPermittedError, 403),
        (errors.NotFoundError, 404),
        (errors.OutOfOrderError, 409),
        (errors.OffsetMismatchError, 409),
        (errors.LimitExceededError, 413),
        (errors.NotFiniteError, 422),
    ],
)
def test_errors_have_the_status_docs_promise(cls: type[OdcError], status: int) -> None:
    assert STATUS[cls] == status


def test_an_unknown_path_is_a_problem_too(api: Api) -> None:
    answer = api.as_party(HOSPITAL).get("/v1/nothing")
    assert (answer.status_code, slug(answer)) == (404, "about:blank")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/uploads/%00",
        "/v1/enrolments/%00",
        "/v1/collaborations/%00/seen-ledgers",
    ],
)
def test_an_address_with_a_nul_is_nobodys(api: Api, path: str) -> None:
    """PostgreSQL takes no such text, and what it refuses would be an incident."""
    answer = api.as_party(HOSPITAL).get(path)
    assert (answer.status_code, slug(answer)) == (404, "not-found")


@pytest.mark.parametrize("page", ["acceptances", "manifests", "seen"])
@pytest.mark.parametrize("after", ["%00", "No Party", "x" * 64])
def test_a_page_begins_after_the_name_of_a_party_alone(api: Api, page: str, after: str) -> None:
    """PostgreSQL takes no text with a NUL, and what it refuses would be an incident."""
    api.world.publish()
    answer = api.as_party(LEAD).get(f"/v1/collaborations/{api.world.id}/{page}?after={after}")
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")


def test_a_wrong_method_is_a_problem_that_names_the_right_ones(api: Api) -> None:
    answer = api.as_party(HOSPITAL).delete("/v1/collaborations")
    assert (answer.status_code, slug(answer)) == (405, "about:blank")
    assert answer.headers["allow"] == "GET"


def test_the_unexpected_is_told_by_a_number_and_nothing_else(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret value")

    monkeypatch.setattr("analyst_server.services.views.listing", fail)
    answer = api.as_party(HOSPITAL).get("/v1/collaborations")
    assert (answer.status_code, slug(answer)) == (500, "unexpected")
    assert "secret" not in answer.text
    incident = answer.json()["detail"].removeprefix("incident ")
    assert incident in caplog.text
