"""Every HTTP operation of wire version 1, in one table (docs/protocol.md, "HTTP").

The analyst builds its routes, access checks, body limits and OpenAPI document from the table; the client
takes its addresses from it; both sides take the metering kind of a request from it. What is not in the
table is not served: a new operation begins with its entry here. `Status` and `ReportHead` are the JSON
answers that both sides read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from protocol import errors
from protocol.busy import TooManyRequestsError
from protocol.errors import OdcError
from protocol.limits import (
    MAX_CERTIFICATE_BYTES,
    MAX_ENROLMENT_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_REJECTION_BYTES,
    MAX_REVOCATION_LIST_BYTES,
    MAX_TOKEN_REQUEST_BYTES,
)
from protocol.row_bounds import RowTooLongError
from protocol.texts import is_id
from protocol.version import (
    MEDIA_TYPE,
    STREAM_MEDIA_TYPE,
    UPLOAD_MEDIA_TYPE,
    OlderServerError,
    UnknownAlgorithmError,
)

JSON: Final = "application/json"
CRL_MEDIA_TYPE: Final = "application/pkix-crl"
"""A revocation list (RFC 2585)."""

NOTE_MEDIA_TYPE: Final = "text/plain; charset=utf-8"
"""A signed note (C2SP)."""

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Kind = Literal["control", "anchor", "uplink", "downlink"]
"""What a request is for. Directions are seen from the institution: it sends up, it receives down."""
Tag = Literal["discovery", "enrolment", "trust", "collaborations", "uplink", "results", "tokens", "operator"]
"""The heading in the OpenAPI document under which an operation is listed."""


class Caller(Enum):
    """Who may call an operation, and how the caller proves it."""

    ANYBODY = "anybody, without a certificate"
    CERTIFIED = "any holder of a certificate of the consortium"
    INSTITUTION = "an institution, by its certificate"
    LEAD = "the lead institution, by its certificate"
    MEMBER = "a member of the collaboration, by its certificate"
    OWNER = "the institution that created the upload or token, by its certificate"
    LISTER = "any holder of a certificate or an API token"
    READER = "a member of the collaboration, by its certificate or an API token; the operator, by a token"
    OPERATOR = "the analyst's operator, by an API token with the scope manage"


@dataclass(frozen=True)
class Body:
    """What a request carries."""

    media_type: str | None
    """None if the content needs no declaration: a certificate in DER or PEM."""
    max_bytes: int | None
    """None for a stream, whose length its manifest or the terms give."""


MESSAGE: Final = Body(MEDIA_TYPE, MAX_MESSAGE_BYTES)


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    name: str
    method: Method
    path: str
    """With the names of its ids in braces."""
    caller: Caller
    tag: Tag
    kind: Kind = "control"
    body: Body | None = None
    answer: str | None = JSON
    """Media type of a successful answer; None if it has no body."""
    creates: bool = False
    """Whether the first request is answered 201, and the same request again 200."""
    problems: tuple[type[OdcError], ...] = ()
    """What the use case may refuse a request with; `all_problems` adds what caller and body may cause."""

    def url(self, **ids: str) -> str:
        """Return the path with its ids filled in."""
        return self.path.format(**ids)

    def match(self, path: str) -> dict[str, str] | None:
        """Return the ids in a path of this operation, or None for another path."""
        given, wanted = path.split("/"), self.path.split("/")
        if len(given) != len(wanted):
            return None
        ids = {}
        for part, name in zip(given, wanted, strict=True):
            if name.startswith("{"):
                ids[name.strip("{}")] = part
            elif part != name:
                return None
        return ids if all(_is_id(name, value) for name, value in ids.items()) else None

    @property
    def all_problems(self) -> tuple[type[OdcError], ...]:
        """Return every problem that a request may be answered with."""
        # a certificate that is shown is checked, even where none is needed
        found: list[type[OdcError]] = [errors.CertificateRefusedError, errors.CertificateRevokedError]
        found += [TooManyRequestsError]
        found += [errors.StorageError, errors.StorageBusyError, errors.DiskFullError]
        if self.path.startswith((_ROUND, _UPLOAD)):
            found += [OlderServerError]
        if self.caller is not Caller.ANYBODY:
            found += [errors.CertificateRequiredError, errors.TokenRefusedError, errors.NotPermittedError]
        if self.body is not None:
            found += [errors.MalformedMessageError, errors.LimitExceededError]
            if self.body.media_type == MEDIA_TYPE:
                found += [errors.UnsupportedVersionError]
        if errors.SignatureError in self.problems:
            found += [UnknownAlgorithmError]
        return (*found, *self.problems)


def _is_id(name: str, value: str) -> bool:
    """Return whether a part of a path can be an id.

    The meter counts by collaboration, so nothing but the id of one is taken for one.
    """
    return is_id(value) if name == "collaboration_id" else value != ""


_table: list[Operation] = []


def _add(operation: Operation) -> Operation:
    _table.append(operation)
    return operation


_ENROLMENTS: Final = "/v1/enrolments"
_REQUEST: Final = "/v1/enrolments/{invitation_id}"
_COLLABORATIONS: Final = "/v1/collaborations"
_ROUND: Final = "/v1/collaborations/{collaboration_id}"
_UPLOAD: Final = "/v1/uploads/{upload_id}"

# A table: one line for what identifies an operation, one for what it carries, one for its problems.
# fmt: off

# Discovery

DISCOVER: Final = _add(Operation("discover", "GET", "/.well-known/odc", Caller.ANYBODY, "discovery"))
DESCRIBE: Final = _add(Operation("describe", "GET", "/openapi.json", Caller.ANYBODY, "discovery"))
HEALTH: Final = _add(Operation("health", "GET", "/healthz", Caller.ANYBODY, "discovery"))
READINESS: Final = _add(Operation("readiness", "GET", "/readyz", Caller.ANYBODY, "discovery"))
DESCRIBE_PROBLEM: Final = _add(Operation(
    "describe_problem", "GET", "/problems/{slug}", Caller.ANYBODY, "discovery",
    problems=(errors.NotFoundError,),
))

# Enrolment, renewal, revocation

REQUEST_CERTIFICATE: Final = _add(Operation(
    "request_certificate", "POST", _ENROLMENTS, Caller.ANYBODY, "enrolment",
    body=Body(MEDIA_TYPE, MAX_ENROLMENT_BYTES), creates=True,
    problems=(errors.InvitationError, errors.SignatureError, errors.AlreadyExistsError),
))
LIST_CERTIFICATE_REQUESTS: Final = _add(Operation(
    "list_certificate_requests", "GET", _ENROLMENTS, Caller.LEAD, "enrolment",
    problems=(errors.MalformedMessageError,),
))
CERTIFICATE_REQUEST_STATUS: Final = _add(Operation(
    "certificate_request_status", "GET", _REQUEST, Caller.ANYBODY, "enrolment",
    problems=(errors.NotFoundError,),
))
ISSUE_CERTIFICATE: Final = _add(Operation(
    "issue_certificate", "PUT", f"{_REQUEST}/certificate", Caller.LEAD, "enrolment",
    body=Body(None, MAX_CERTIFICATE_BYTES), answer=None,
    problems=(errors.NotFoundError,),
))
REJECT_CERTIFICATE_REQUEST: Final = _add(Operation(
    "reject_certificate_request", "PUT", f"{_REQUEST}/rejection", Caller.LEAD, "enrolment",
    body=Body(JSON, MAX_REJECTION_BYTES), answer=None,
    problems=(errors.NotFoundError, errors.AlreadyExistsError),
))
REQUEST_RENEWAL: Final = _add(Operation(
    "request_renewal", "POST", "/v1/renewals", Caller.CERTIFIED, "trust",
    body=MESSAGE, creates=True,
    problems=(errors.SignatureError, errors.AlreadyExistsError),
))
PUBLISH_REVOCATIONS: Final = _add(Operation(
    "publish_revocations", "PUT", "/v1/revocations", Caller.LEAD, "trust",
    body=Body(None, MAX_REVOCATION_LIST_BYTES), answer=None,
))
FETCH_REVOCATIONS: Final = _add(Operation(
    "fetch_revocations", "GET", "/v1/revocations", Caller.ANYBODY, "trust",
    answer=CRL_MEDIA_TYPE,
    problems=(errors.NotFoundError,),
))
LIST_CERTIFICATES: Final = _add(Operation(
    "list_certificates", "GET", "/v1/certificates", Caller.CERTIFIED, "trust",
    answer=MEDIA_TYPE,
    problems=(errors.MalformedMessageError,),
))

# Before the uplinks

LIST_COLLABORATIONS: Final = _add(Operation(
    "list_collaborations", "GET", _COLLABORATIONS, Caller.LISTER, "collaborations",
    problems=(errors.MalformedMessageError,),
))
ONLY_OWN: Final = "members=own"
"""The query for a status with the caller alone."""
UNTIL_RELEASED: Final = "until=released"
"""The query for a status that is held while the round is computed, as if these states were no news."""
WHILE: Final = "while"
"""The query for a status that is held while the state is the one named, as if the caller had seen it."""
COLLABORATION_STATUS: Final = _add(Operation(
    "collaboration_status", "GET", _ROUND, Caller.READER, "collaborations",
    problems=(errors.NotFoundError,),
))
FETCH_TERMS: Final = _add(Operation(
    "fetch_terms", "GET", f"{_ROUND}/terms", Caller.MEMBER, "collaborations",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
))
TERMS_IN_WORDS: Final = _add(Operation(
    "terms_in_words", "GET", f"{_ROUND}/terms/words", Caller.READER, "collaborations",
    problems=(errors.NotFoundError,),
))
ACCEPT_TERMS: Final = _add(Operation(
    "accept_terms", "PUT", f"{_ROUND}/acceptance", Caller.MEMBER, "collaborations",
    body=MESSAGE, answer=None,
    problems=(
        errors.NotFoundError, errors.SignatureError, errors.TermsMismatchError, errors.ConsentMissingError,
        errors.OutOfOrderError, errors.LedgerError,
    ),
))
REJECT_TERMS: Final = _add(Operation(
    "reject_terms", "PUT", f"{_ROUND}/rejection", Caller.MEMBER, "collaborations",
    body=Body(JSON, MAX_REJECTION_BYTES), answer=None,
    problems=(errors.NotFoundError, errors.OutOfOrderError),
))
LIST_ACCEPTANCES: Final = _add(Operation(
    "list_acceptances", "GET", f"{_ROUND}/acceptances", Caller.LEAD, "collaborations",
    kind="anchor", answer=MEDIA_TYPE,  # anchor, because the lead seals it to the keys in the acceptances
    problems=(errors.NotFoundError, errors.MalformedMessageError),
))
LIST_MANIFESTS: Final = _add(Operation(
    "list_manifests", "GET", f"{_ROUND}/manifests", Caller.MEMBER, "collaborations",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.MalformedMessageError),
))
SEND_SEEN_LEDGER: Final = _add(Operation(
    "send_seen_ledger", "PUT", f"{_ROUND}/seen", Caller.MEMBER, "results",
    body=MESSAGE, answer=None,
    problems=(errors.NotFoundError, errors.SignatureError, errors.LedgerError),
))
LIST_SEEN_LEDGERS: Final = _add(Operation(
    "list_seen_ledgers", "GET", f"{_ROUND}/seen", Caller.MEMBER, "results",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.MalformedMessageError),
))
PUBLISH_ANCHOR: Final = _add(Operation(
    "publish_anchor", "PUT", f"{_ROUND}/anchors", Caller.LEAD, "collaborations",
    kind="anchor", body=MESSAGE, answer=None,
    problems=(
        errors.NotFoundError, errors.SignatureError, errors.TermsNotAcceptedError,
        errors.TermsMismatchError, errors.AlreadyExistsError, errors.OutOfOrderError,
    ),
))
PUBLISH_ANCHOR_MATRIX: Final = _add(Operation(
    "publish_anchor_matrix", "PUT", f"{_ROUND}/matrix", Caller.LEAD, "uplink",
    kind="anchor", body=Body(STREAM_MEDIA_TYPE, None), answer=None,
    problems=(errors.NotFoundError, errors.TruncatedError, errors.AlreadyExistsError, errors.OutOfOrderError),
))
FETCH_ANCHOR: Final = _add(Operation(
    "fetch_anchor", "GET", f"{_ROUND}/anchor", Caller.MEMBER, "collaborations",
    kind="anchor", answer=MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.TermsNotAcceptedError, errors.OutOfOrderError),
))
FETCH_ANCHOR_MATRIX: Final = _add(Operation(
    "fetch_anchor_matrix", "GET", f"{_ROUND}/matrix", Caller.MEMBER, "results",
    kind="anchor", answer=STREAM_MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.MalformedMessageError, errors.OutOfOrderError),
))

# Uplink

BEGIN_UPLINK: Final = _add(Operation(
    "begin_uplink", "POST", f"{_ROUND}/uplinks", Caller.MEMBER, "uplink",
    kind="uplink", body=MESSAGE, creates=True,
    problems=(
        errors.NotFoundError, errors.SignatureError, errors.TermsNotAcceptedError,
        errors.TermsMismatchError, errors.ShapeMismatchError, errors.DtypeMismatchError,
        errors.DifferentUplinkError, errors.OutOfOrderError, errors.LedgerError,
    ),
))
UPLOAD_OFFSET: Final = _add(Operation(
    "upload_offset", "HEAD", _UPLOAD, Caller.OWNER, "uplink",
    kind="uplink", answer=None,
    problems=(errors.NotFoundError,),
))
APPEND: Final = _add(Operation(
    "append", "PATCH", _UPLOAD, Caller.OWNER, "uplink",
    kind="uplink", body=Body(UPLOAD_MEDIA_TYPE, None), answer=MEDIA_TYPE,
    problems=(
        errors.NotFoundError, errors.OffsetMismatchError, errors.DigestMismatchError, errors.NotFiniteError,
        errors.LabelOutOfRangeError, RowTooLongError, errors.TruncatedError, errors.UploadSupersededError,
        errors.DifferentUplinkError, errors.OutOfOrderError,
    ),
))
FETCH_RECEIPT: Final = _add(Operation(
    "fetch_receipt", "GET", f"{_ROUND}/receipt", Caller.MEMBER, "results",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
))

# Results

FETCH_DOWNLINK: Final = _add(Operation(
    "fetch_downlink", "GET", f"{_ROUND}/downlink", Caller.MEMBER, "results",
    kind="downlink", answer=STREAM_MEDIA_TYPE,
    problems=(
        errors.NotFoundError, errors.RoundFailedError, errors.OutOfOrderError,
        errors.LimitExceededError,  # of steps in the ledger: the first fetch is one
        errors.LostDataError,
    ),
))
FETCH_LEDGER: Final = _add(Operation(
    "fetch_ledger", "GET", f"{_ROUND}/ledger", Caller.READER, "results",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.MalformedMessageError),
))
FETCH_CHECKPOINT: Final = _add(Operation(
    "fetch_checkpoint", "GET", f"{_ROUND}/ledger/checkpoint", Caller.READER, "results",
    answer=NOTE_MEDIA_TYPE,
    problems=(errors.NotFoundError,),
))
SEND_SCORE: Final = _add(Operation(
    "send_score", "PUT", f"{_ROUND}/score", Caller.MEMBER, "results",
    body=MESSAGE, answer=None,
    problems=(
        errors.NotFoundError, errors.SignatureError, errors.TermsMismatchError, errors.ConsentMissingError,
        errors.OutOfOrderError,
    ),
))
COLLABORATION_REPORT: Final = _add(Operation(
    "collaboration_report", "GET", f"{_ROUND}/report", Caller.READER, "results",
    problems=(errors.NotFoundError,),
))

# The analyst's operator

PUBLISH_TERMS: Final = _add(Operation(
    "publish_terms", "PUT", _ROUND, Caller.OPERATOR, "operator",
    body=Body(JSON, MAX_MESSAGE_BYTES), creates=True,
    problems=(errors.AlreadyExistsError, errors.NotFoundError, errors.OutOfOrderError),
))


def _step(name: str, about: str = "") -> Operation:
    problems, path = (errors.NotFoundError, errors.OutOfOrderError), f"{_ROUND}/{name}{about}"
    return _add(Operation(name, "POST", path, Caller.OPERATOR, "operator", problems=problems))


SEAL: Final = _step("seal")
RESUME: Final = _step("resume")
RELEASE: Final = _step("release")
EXCLUDE: Final = _step("exclude", "/{party}")
CANCEL: Final = _step("cancel")
CLOSE: Final = _step("close")

# API tokens

CREATE_TOKEN: Final = _add(Operation(
    "create_token", "POST", "/v1/tokens", Caller.INSTITUTION, "tokens",
    body=Body(JSON, MAX_TOKEN_REQUEST_BYTES), creates=True,
    problems=(errors.NotFoundError, errors.AlreadyExistsError),
))
LIST_TOKENS: Final = _add(Operation("list_tokens", "GET", "/v1/tokens", Caller.CERTIFIED, "tokens"))
REVOKE_TOKEN: Final = _add(Operation(
    "revoke_token", "DELETE", "/v1/tokens/{token_id}", Caller.OWNER, "tokens",
    answer=None,
    problems=(errors.NotFoundError,),
))
# fmt: on

OPERATIONS: Final = tuple(_table)


def find(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the operation that a request calls, and the ids in its path; None for an unknown request."""
    for operation in OPERATIONS:
        if operation.method == method and (ids := operation.match(path)) is not None:
            return operation, ids
    return None


def methods_of(path: str) -> list[str]:
    """Return the methods of the operations on a path, sorted."""
    return sorted(operation.method for operation in OPERATIONS if operation.match(path) is not None)


def kind_of(path: str) -> tuple[Kind, str]:
    """Return what a request to ``path`` is for, and the collaboration it names, or "".

    Both sides ask this function, so that they attribute the same request to the same kind.
    """
    plain = path.partition("?")[0]
    for operation in OPERATIONS:
        if (ids := operation.match(plain)) is not None:
            return operation.kind, ids.get("collaboration_id", "")
    return "control", ""
