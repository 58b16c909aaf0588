from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from protocol import operations
from protocol.operations import OPERATIONS, Operation, find, kind_of

REPOSITORY = Path(__file__).parents[3]
ADDRESSES = ("/v1", "/healthz", "/readyz", "/.well-known")
MAY_WRITE_THEM = ("protocol/operations.py", "user_client/service/app.py")  # the second has another surface
IDS = dict.fromkeys(
    ("collaboration_id", "upload_id", "invitation_id", "token_id", "party", "slug"), "0f" * 16
)


def test_every_operation_has_a_name_and_an_address_of_its_own() -> None:
    assert max(Counter(one.name for one in OPERATIONS).values()) == 1
    assert max(Counter((one.method, one.path) for one in OPERATIONS).values()) == 1


def test_every_operation_stands_in_the_table_under_the_name_of_its_constant() -> None:
    named = {name: value for name, value in vars(operations).items() if isinstance(value, Operation)}
    assert list(OPERATIONS) == list(named.values())
    assert [one.name for one in OPERATIONS] == [name.lower() for name in named]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_problem_of_an_operation_is_named_once(operation: Operation) -> None:
    assert max(Counter(operation.all_problems).values()) == 1


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_an_address_leads_back_to_its_operation_and_ids(operation: Operation) -> None:
    found = find(operation.method, operation.url(**IDS))
    assert found is not None
    assert found[0] is operation
    assert found[1] == {name: value for name, value in IDS.items() if f"{{{name}}}" in operation.path}


def test_an_unknown_address_is_no_operation() -> None:
    assert find("GET", "/v1/nothing") is None
    assert find("DELETE", "/healthz") is None
    assert find("GET", "/v1/collaborations/a/b/terms") is None
    assert find("GET", "/v1/collaborations/a/terms") is None
    assert find("GET", "/xwell-known/odc") is None
    assert find("GET", "/v1/enrolments/") is None


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS}))
def test_all_methods_of_an_address_are_metered_alike(path: str) -> None:
    assert len({one.kind for one in OPERATIONS if one.path == path}) == 1


@pytest.mark.parametrize(
    ("path", "kind", "collaboration_id"),
    [
        ("/.well-known/odc", "control", ""),
        ("/v1/enrolments", "control", ""),
        ("/v1/collaborations", "control", ""),
        (f"/v1/collaborations/{'c0' * 16}", "control", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/terms", "control", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/receipt", "control", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/acceptances", "anchor", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/anchors", "anchor", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/anchor", "anchor", "c0" * 16),
        (f"/v1/collaborations/{'c0' * 16}/uplinks", "uplink", "c0" * 16),
        ("/v1/uploads/u1", "uplink", ""),
        (f"/v1/collaborations/{'c0' * 16}/downlink", "downlink", "c0" * 16),
        ("/v1/collaborations/../uplinks", "control", ""),
    ],
)
def test_a_request_is_known_by_its_address(path: str, kind: str, collaboration_id: str) -> None:
    assert kind_of(path) == (kind, collaboration_id)


@pytest.mark.parametrize(
    "package", ["protocol", "metering", "runtime", "pages", "analyst_server", "user_client"]
)
def test_no_address_is_written_outside_the_table(package: str) -> None:
    found = [
        (str(file.relative_to(REPOSITORY)), node.value)
        for file in sorted((REPOSITORY / package).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(ADDRESSES)
    ]
    assert [(file, text) for file, text in found if file not in MAY_WRITE_THEM] == []
