"""The OpenAPI document says what the table of operations says, in words that lead somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from analyst_server.api.description import as_json, document
from analyst_server.api.problems import PROBLEM_MEDIA_TYPE, STATUS
from protocol.operations import OPERATIONS, Caller, Operation
from tests.harness.app import Api, slug
from tests.harness.tree import REPOSITORY

EVERY = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)


def said(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = document()["paths"][operation.path][operation.method.lower()]
    return found


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of the document."""
    if isinstance(node, dict):
        yield node
    if isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from walk(inner)


def test_anybody_may_read_it(api: Api) -> None:
    answer = api.anonymous.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == json.loads(as_json()) == api.app.openapi()


def test_what_it_refers_to_is_there() -> None:
    schemas = document()["components"]["schemas"]
    targets = {node["$ref"] for node in walk(document()) if isinstance(node.get("$ref"), str)}
    assert {target.removeprefix("#/components/schemas/") for target in targets} <= set(schemas)
    assert len(targets) > 20


def test_its_schemes_have_names_that_openapi_allows() -> None:
    schemes = document()["components"]["securitySchemes"]
    assert {one["type"] for one in schemes.values()} == {"mutualTLS", "http"}
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]+", name) for name in schemes)


def test_its_patterns_are_those_of_every_dialect() -> None:
    patterns = [node["pattern"] for node in walk(document()) if isinstance(node.get("pattern"), str)]
    assert len(patterns) > 20
    for pattern in patterns:
        re.compile(pattern)  # Python has no \u{200e}, which only some dialects have


@EVERY
def test_an_operation_is_described_in_words(operation: Operation) -> None:
    found = said(operation)
    assert (found["operationId"], found["tags"]) == (operation.name, [operation.tag])
    assert found["description"].endswith(".")
    assert found["summary"]


@EVERY
def test_an_operation_says_who_may_call_it(operation: Operation) -> None:
    shown = {name for one in said(operation)["security"] for name in one}
    by_both = operation.caller in (Caller.LISTER, Caller.READER)
    by_token = by_both or operation.caller is Caller.OPERATOR
    by_certificate = by_both or operation.caller not in (Caller.ANYBODY, Caller.OPERATOR)
    assert ("apiToken" in shown, "clientCertificate" in shown) == (by_token, by_certificate)


@EVERY
def test_an_operation_takes_what_the_table_says(operation: Operation) -> None:
    taken = said(operation).get("requestBody", {}).get("content", {})
    if operation.body is None:
        assert taken == {}
    else:
        assert list(taken) == [operation.body.media_type or "application/octet-stream"]


@EVERY
def test_an_operation_answers_what_the_table_says(operation: Operation) -> None:
    answers = said(operation)["responses"]
    for status in {201, 200} if operation.creates else {200} if operation.answer else {204}:
        assert list(answers[str(status)].get("content", {})) == (
            [operation.answer] if operation.answer else []
        )
    for problem in operation.all_problems:
        content = answers[str(STATUS[problem])]["content"][PROBLEM_MEDIA_TYPE]
        kinds = content["schema"]["allOf"][1]["properties"]["type"]["enum"]
        assert f"/problems/{problem.code}" in kinds


def test_what_is_not_json_is_specified_where_it_says() -> None:
    headings = set(re.findall(r"^#+ (.+)$", (REPOSITORY / "docs" / "protocol.md").read_text(), re.MULTILINE))
    about = [node["description"] for node in walk(document()) if node.get("format") == "binary"]
    assert len(about) > 20
    for text in about:
        found = re.fullmatch(r".+: docs/protocol\.md, under “(.+)”\.", text)
        assert found is not None
        assert found[1] in headings, text


# what HTTP itself refuses


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/healthz", "GET"),
        ("DELETE", "/v1/enrolments", "GET, POST"),
        ("GET", "/v1/uploads/" + "0" * 32, "HEAD, PATCH"),
        ("OPTIONS", "/v1/collaborations/" + "0" * 32, "GET, PUT"),
        ("POST", "/openapi.json", "GET"),
    ],
)
def test_a_wrong_method_is_told_all_right_ones_whoever_asks(
    api: Api, method: str, path: str, allowed: str
) -> None:
    for client in (api.anonymous, api.as_party("hospital-a")):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert slug(answer) == "about:blank"


def test_an_address_that_is_none_is_not_told_to_strangers(api: Api) -> None:
    assert slug(api.anonymous.get("/v1/nothing")) == "certificate-required"
