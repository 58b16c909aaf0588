"""The registries in docs/protocol.md have the names that the code knows."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from protocol import version
from protocol.alignment_terms import AlignmentMethod, AutoAlignmentTerms
from protocol.anchor_terms import ANCHORS
from protocol.envelope import SIGNATURE_ALGORITHMS
from protocol.labels import AnyLabel
from protocol.messages import DTYPE_BYTES, Acceptance, Dtype, Role, SealedAnchor
from protocol.model_terms import ModelTerms
from protocol.problems import all_errors
from protocol.states import Event
from protocol.table_schema import Column
from protocol.terms import Terms
from tests.harness.document import kinds, section, text


def registry(name: str) -> list[str]:
    """Return the names in the row of a registry."""
    row = next(line for line in section("Registries").splitlines() if line.startswith(f"| {name} |"))
    return re.findall(r"`([^`]+)`", row.split("|")[2])


def members(union: Any) -> list[Any]:
    """Return the classes of a union, whatever they are annotated with."""
    if not get_args(union):
        return [union]
    inner = get_args(union)[:1] if hasattr(union, "__metadata__") else get_args(union)
    return [one for each in inner for one in members(each)]


def kinds_of(union: Any) -> list[str]:
    return [one.model_fields["kind"].default for one in members(union) if "kind" in one.model_fields]


KNOWN: dict[str, Any] = {
    "signature algorithms": SIGNATURE_ALGORITHMS,
    "sealing suites": get_args(Acceptance.model_fields["sealing_suite"].annotation),
    "anchor kinds": ANCHORS,
    "alignment methods": (
        *get_args(AlignmentMethod),
        AutoAlignmentTerms.model_fields["method"].default,
    ),
    "models": kinds_of(ModelTerms),
    "columns": kinds_of(Column),
    "labels of a table": kinds_of(AnyLabel),
    "number types": get_args(Dtype),
    "downlinks": get_args(Terms.model_fields["downlink"].annotation),
    "roles": get_args(Role),
    "message labels": {kind.signing_label for kind in kinds() if hasattr(kind, "signing_label")},
    "ledger events": Event,
    "media types": (version.MEDIA_TYPE, version.STREAM_MEDIA_TYPE, version.UPLOAD_MEDIA_TYPE),
    "optional fields": (),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_registry_has_the_names_that_the_code_knows(name: str) -> None:
    assert sorted(registry(name)) == sorted(KNOWN[name])


def test_every_registry_is_looked_at() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|.*\|.*\|.*\|$", section("Registries"), re.MULTILINE)
    assert {*rows} - {"registry"} == {*KNOWN, "error slugs"}  # whose table test_document compares


def test_both_ends_of_a_seal_know_the_same_suites_and_number_types_have_a_size() -> None:
    annotation = SealedAnchor.model_fields["sealing_suite"].annotation
    assert get_args(annotation) == get_args(Acceptance.model_fields["sealing_suite"].annotation)
    assert [*DTYPE_BYTES] == [*get_args(Dtype)]


def test_the_document_never_gives_a_private_name() -> None:
    given = [name for names in KNOWN.values() for name in names] + [cls.code for cls in all_errors()]
    assert not [name for name in given if "@" in name]


def test_open_messages_are_those_that_the_document_calls_open() -> None:
    row = next(line for line in section("Unknown fields").splitlines() if line.startswith("| open |"))
    is_open = {kind.__name__ for kind in kinds() if kind.model_config["extra"] == "allow"}
    assert {*re.findall(r"`(\w+)`", row)} == is_open


def test_no_message_has_an_optional_field_that_is_not_registered() -> None:
    fields = {name for kind in kinds() for name in kind.model_fields if name.startswith("opt_")}
    assert fields == {*registry("optional fields")}


def test_the_numbers_of_versions_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| (?:wire version \*N\*|`(terms_schema)`) \| .*? \| (\d+) \|", text(), re.M))
    assert rows == {
        "": str(max(version.WIRE_VERSIONS)),
        "terms_schema": str(Terms.model_fields["terms_schema"].default),
    }
