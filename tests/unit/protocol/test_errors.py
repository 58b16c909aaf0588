from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from protocol import busy, errors, version
from protocol.busy import TooManyRequestsError
from protocol.errors import OdcError, OffsetMismatchError
from protocol.problems import all_errors, from_problem
from protocol.version import OlderServerError, UnknownAlgorithmError

EXAMPLES: list[OdcError] = [
    OdcError("something"),
    errors.ProtocolError("something"),
    errors.MalformedMessageError("Receipt", "is not msgpack"),
    errors.UnsupportedVersionError([1], [2], "this program"),
    UnknownAlgorithmError("Receipt", "ed25519", ["ecdsa-p256-sha256"]),
    errors.LimitExceededError("rows", 10, 11),
    errors.LimitExceededError("rows", 10),
    errors.ShapeMismatchError("representation", ("rows", 2), (3, 4)),
    errors.DtypeMismatchError("rep", "f4", "f8"),
    errors.NotFiniteError("rep", 3),
    errors.LabelOutOfRangeError(3, "one of 2 classes"),
    errors.DigestMismatchError("chunk 1 of rep"),
    errors.OffsetMismatchError(10, 20),
    errors.TruncatedError("uplink", 10, 9),
    errors.TrustError("no"),
    errors.SignatureError("no"),
    errors.CertificateRequiredError("no"),
    errors.CertificateRefusedError("no"),
    errors.CertificateRevokedError("no"),
    errors.NotPermittedError("no"),
    errors.InvitationError("no"),
    errors.InputError("no"),
    errors.UnreadableFileError("table.csv", "no such file"),
    errors.LedgerError("entry 3: does not continue entry 2"),
    errors.TokenRefusedError("no such token"),
    errors.SealBrokenError("no"),
    errors.RoundError("no"),
    errors.OutOfOrderError("draft", "seal"),
    errors.TermsNotAcceptedError("hospital-a"),
    errors.TermsMismatchError("uplink"),
    errors.ConsentMissingError("no"),
    errors.DifferentUplinkError("hospital-a"),
    errors.AlreadyExistsError("no"),
    errors.UploadSupersededError("no"),
    errors.NotFoundError("no"),
    errors.RoundFailedError("no"),
    TooManyRequestsError("no", retry_after_s=5),
    errors.StorageError("no"),
    errors.StorageBusyError("no"),
    errors.DiskFullError("no"),
    errors.LostDataError("no"),
    OlderServerError("terms"),
]


def ours() -> list[type[OdcError]]:
    return [
        cls for cls in all_errors() if cls.__module__ in (errors.__name__, busy.__name__, version.__name__)
    ]


def test_every_error_has_an_example_here() -> None:
    assert {type(example) for example in EXAMPLES} == set(ours())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_an_error_comes_back_from_its_problem(example: OdcError) -> None:
    problem = json.loads(json.dumps(example.to_problem()))
    again = from_problem({**problem, "status": 400, "instance": "/v1/x"})
    assert type(again) is type(example)
    assert (again.detail, again.hint, again.context) == (example.detail, example.hint, example.context)
    assert str(again) == str(example) == example.detail


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_a_problem_has_the_members_of_rfc_9457(example: OdcError) -> None:
    problem = example.to_problem()
    assert problem["type"] == "/problems/" + example.code
    assert problem["title"] == example.title
    assert not set(example.context) & {"type", "title", "detail", "hint", "status", "instance"}


@pytest.mark.parametrize("cls", ours(), ids=lambda cls: cls.__name__)
def test_every_error_has_a_slug_a_title_and_a_hint(cls: type[OdcError]) -> None:
    assert cls.code.replace("-", "").isalpha()
    assert cls.code.islower()
    assert cls.title[0].isupper()
    assert not cls.title.endswith(".")
    assert cls.hint
    assert not cls.hint.endswith(".")
    assert cls.__name__.endswith("Error")


def test_every_slug_is_used_once() -> None:
    slugs = [cls.code for cls in ours()]
    assert len(set(slugs)) == len(slugs)


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert errors.__doc__ is not None
    for cls in ours():
        assert cls.__name__ in errors.__doc__


def test_details_are_sentences_without_a_full_stop() -> None:
    for example in EXAMPLES:
        assert not example.detail.endswith(".")


def test_an_unknown_type_becomes_the_base_error() -> None:
    error = from_problem({"type": "/problems/of-the-future", "title": "New", "hint": "upgrade", "extra": 1})
    assert type(error) is OdcError
    assert (error.detail, error.hint, error.context) == ("New", "upgrade", {"extra": 1})


@pytest.mark.parametrize("problem", [{}, {"type": None}, {"type": ["x"], "detail": 3, "hint": {}}])
def test_a_poor_problem_still_becomes_an_error(problem: dict[str, Any]) -> None:
    error = from_problem(problem)
    assert type(error) is OdcError
    assert error.detail
    assert error.hint


@pytest.mark.parametrize("name", ["self", "cls", "args", "code", "__class__", ""])
def test_extension_members_of_any_name_are_kept(name: str) -> None:
    assert from_problem({"type": "/problems/not-found", name: 1}).context == {name: 1}


def test_the_hint_of_one_error_does_not_change_its_class() -> None:
    errors.UnsupportedVersionError([1], [2], "this program")
    assert errors.UnsupportedVersionError.hint == "upgrade the older side"


def test_an_offset_mismatch_says_where_to_continue() -> None:
    assert OffsetMismatchError(10, 20).expected == 10
    again = from_problem(OffsetMismatchError(10, 20).to_problem())
    assert isinstance(again, OffsetMismatchError)
    assert again.expected == 10


@pytest.mark.parametrize("context", [{}, {"expected": "10"}, {"expected": -1}, {"expected": None}])
def test_an_offset_mismatch_without_an_offset_is_malformed(context: dict[str, Any]) -> None:
    error = from_problem({"type": "/problems/offset-mismatch", **context})
    assert isinstance(error, OffsetMismatchError)
    with pytest.raises(errors.MalformedMessageError):
        error.expected  # noqa: B018  # the property raises


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: errors.LimitExceededError("rows", 10, 11), "rows: at most 10, got 11"),
        (lambda: errors.LimitExceededError("rows", 10), "rows: at most 10"),
        (lambda: errors.TruncatedError("uplink", 10, 9), "uplink: expected 10 bytes, got 9"),
        (lambda: errors.OffsetMismatchError(10, 20), "expected offset 10, got 20"),
    ],
)
def test_a_detail_says_what_was_expected_and_what_came(make: Callable[[], OdcError], words: str) -> None:
    assert make().detail == words
