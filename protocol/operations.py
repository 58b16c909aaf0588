"""Every HTTP operation of wire version 1, in one table (docs/protocol.md, "HTTP").

The analyst builds its routes, access checks, body limits and OpenAPI document from it, both sides take the
metering kind of a request from it, and the client its addresses. An operation that is not in `OPERATIONS`
does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, Literal

from protocol import errors
from protocol.errors import OdcError
from protocol.limits import (
    MAX_CERTIFICATE_BYTES,
    MAX_ENROLMENT_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_REVOCATION_LIST_BYTES,
    MAX_TOKEN_REQUEST_BYTES,
)
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, UPLOAD_MEDIA_TYPE

JSON: Final = "application/json"
CRL_MEDIA_TYPE: Final = "application/pkix-crl"
"""A revocation list (RFC 2585)."""

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Kind = Literal["control", "anchor", "uplink", "downlink"]
"""What a request is for. Directions are seen from the institution: it sends up, it receives down."""


class Caller(Enum):
    """Who may call an operation, and how the caller proves it."""

    ANYBODY = "anybody, without a certificate"
    CERTIFIED = "whoever holds a certificate of the consortium"
    INSTITUTION = "an institution, by its certificate"
    LEAD = "the lead institution, by its certificate"
    MEMBER = "a member of the collaboration, by its certificate"
    OWNER = "the institution that made the thing, by its certificate"
    LISTER = "whoever holds a certificate, or an API token"
    READER = "a member of the collaboration, by its certificate or an API token; the operator, by a token"
    OPERATOR = "the analyst's operator, by an API token with the scope manage"


@dataclass(frozen=True)
class Body:
    """What a request carries."""

    media_type: str | None
    """None takes any: the content is recognised by itself."""
    max_bytes: int | None
    """None for a stream, which its manifest or the terms bound."""


MESSAGE: Final = Body(MEDIA_TYPE, MAX_MESSAGE_BYTES)


_IDS: Final = {"collaboration_id": "[0-9a-f]{32}"}
"""What an id looks like where anything else must not be taken for one."""


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    name: str
    method: Method
    path: str
    """With the names of its ids in braces."""
    caller: Caller
    kind: Kind = "control"
    body: Body | None = None
    answer: str | None = JSON
    """Media type of a successful answer; None if it has no body."""
    problems: tuple[type[OdcError], ...] = ()
    """What it may be refused with, besides what every operation may (`EVERYWHERE`)."""

    def url(self, **ids: str) -> str:
        """Return the path with its ids filled in."""
        return self.path.format(**ids)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(
            re.sub(r"\{(\w+)\}", lambda name: f"(?P<{name[1]}>{_IDS.get(name[1], '[^/]+')})", self.path)
        )

    def match(self, path: str) -> dict[str, str] | None:
        """Return the ids in a path of this operation, or None for another path."""
        found = self._pattern.fullmatch(path)
        return found.groupdict() if found else None


EVERYWHERE: Final = (
    errors.CertificateRequiredError,
    errors.CertificateRefusedError,
    errors.CertificateRevokedError,
    errors.NotPermittedError,
    errors.TokenRefusedError,
    errors.LimitExceededError,
    errors.MalformedMessageError,
    errors.UnsupportedVersionError,
)
"""Problems that any operation may be refused with."""

_ENROLMENTS: Final = "/v1/enrolments"
_COLLABORATIONS: Final = "/v1/collaborations"
_ROUND: Final = "/v1/collaborations/{collaboration_id}"
_UPLOAD: Final = "/v1/uploads/{upload_id}"

DISCOVER: Final = Operation("discover", "GET", "/.well-known/odc", Caller.ANYBODY)
HEALTH: Final = Operation("health", "GET", "/healthz", Caller.ANYBODY)

REQUEST_CERTIFICATE: Final = Operation(
    "request_certificate",
    "POST",
    _ENROLMENTS,
    Caller.ANYBODY,
    body=Body(MEDIA_TYPE, MAX_ENROLMENT_BYTES),
    problems=(errors.InvitationError, errors.SignatureError, errors.AlreadyExistsError),
)
LIST_CERTIFICATE_REQUESTS: Final = Operation("list_requests", "GET", _ENROLMENTS, Caller.LEAD)
CERTIFICATE_REQUEST_STATUS: Final = Operation(
    "enrolment_status",
    "GET",
    _ENROLMENTS + "/{invitation_id}",
    Caller.ANYBODY,
    problems=(errors.NotFoundError,),
)
ISSUE_CERTIFICATE: Final = Operation(
    "issue_certificate",
    "PUT",
    _ENROLMENTS + "/{invitation_id}/certificate",
    Caller.LEAD,
    body=Body(None, MAX_CERTIFICATE_BYTES),
    answer=None,
    problems=(errors.NotFoundError,),
)
REQUEST_RENEWAL: Final = Operation(
    "request_renewal",
    "POST",
    "/v1/renewals",
    Caller.CERTIFIED,
    body=MESSAGE,
    problems=(errors.SignatureError, errors.AlreadyExistsError),
)
PUBLISH_REVOCATIONS: Final = Operation(
    "publish_revocations",
    "PUT",
    "/v1/revocations",
    Caller.LEAD,
    body=Body(None, MAX_REVOCATION_LIST_BYTES),
    answer=None,
)
FETCH_REVOCATIONS: Final = Operation(
    "revocation_list",
    "GET",
    "/v1/revocations",
    Caller.ANYBODY,
    answer=CRL_MEDIA_TYPE,
    problems=(errors.NotFoundError,),
)

LIST_COLLABORATIONS: Final = Operation("list_collaborations", "GET", _COLLABORATIONS, Caller.LISTER)
COLLABORATION_STATUS: Final = Operation(
    "collaboration_status", "GET", _ROUND, Caller.READER, problems=(errors.NotFoundError,)
)
FETCH_TERMS: Final = Operation(
    "signed_terms",
    "GET",
    _ROUND + "/terms",
    Caller.MEMBER,
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
)
ACCEPT_TERMS: Final = Operation(
    "accept_terms",
    "PUT",
    _ROUND + "/acceptance",
    Caller.MEMBER,
    body=MESSAGE,
    answer=None,
    problems=(
        errors.NotFoundError,
        errors.SignatureError,
        errors.TermsMismatchError,
        errors.ConsentMissingError,
        errors.OutOfOrderError,
    ),
)
LIST_ACCEPTANCES: Final = Operation(
    "list_acceptances",
    "GET",
    _ROUND + "/acceptances",
    Caller.LEAD,
    kind="anchor",  # the lead fetches the keys in them to seal the anchor to
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
)
PUBLISH_ANCHOR: Final = Operation(
    "publish_anchor",
    "PUT",
    _ROUND + "/anchors",
    Caller.LEAD,
    kind="anchor",
    body=MESSAGE,
    answer=None,
    problems=(
        errors.NotFoundError,
        errors.SignatureError,
        errors.TermsNotAcceptedError,
        errors.TermsMismatchError,
        errors.AlreadyExistsError,
        errors.OutOfOrderError,
    ),
)
PUBLISH_ANCHOR_MATRIX: Final = Operation(
    "publish_matrix",
    "PUT",
    _ROUND + "/matrix",
    Caller.LEAD,
    kind="anchor",
    body=Body(STREAM_MEDIA_TYPE, None),
    answer=None,
    problems=(
        errors.NotFoundError,
        errors.TruncatedError,
        errors.AlreadyExistsError,
        errors.OutOfOrderError,
    ),
)
FETCH_ANCHOR: Final = Operation(
    "sealed_anchor",
    "GET",
    _ROUND + "/anchor",
    Caller.MEMBER,
    kind="anchor",
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.TermsNotAcceptedError, errors.OutOfOrderError),
)
FETCH_ANCHOR_MATRIX: Final = Operation(
    "anchor_matrix",
    "GET",
    _ROUND + "/matrix",
    Caller.MEMBER,
    kind="anchor",
    answer=STREAM_MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.OutOfOrderError),
)

BEGIN_UPLINK: Final = Operation(
    "begin_uplink",
    "POST",
    _ROUND + "/uplinks",
    Caller.MEMBER,
    kind="uplink",
    body=MESSAGE,
    problems=(
        errors.NotFoundError,
        errors.SignatureError,
        errors.TermsNotAcceptedError,
        errors.TermsMismatchError,
        errors.ShapeMismatchError,
        errors.DtypeMismatchError,
        errors.DifferentUplinkError,
        errors.OutOfOrderError,
    ),
)
UPLOAD_OFFSET: Final = Operation(
    "upload_offset",
    "HEAD",
    _UPLOAD,
    Caller.OWNER,
    kind="uplink",
    answer=None,
    problems=(errors.NotFoundError,),
)
APPEND: Final = Operation(
    "append",
    "PATCH",
    _UPLOAD,
    Caller.OWNER,
    kind="uplink",
    body=Body(UPLOAD_MEDIA_TYPE, None),
    answer=MEDIA_TYPE,
    problems=(
        errors.NotFoundError,
        errors.OffsetMismatchError,
        errors.DigestMismatchError,
        errors.NotFiniteError,
        errors.LabelOutOfRangeError,
        errors.TruncatedError,
        errors.UploadSupersededError,
        errors.DifferentUplinkError,
        errors.OutOfOrderError,
    ),
)
FETCH_RECEIPT: Final = Operation(
    "uplink_receipt",
    "GET",
    _ROUND + "/receipt",
    Caller.MEMBER,
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
)
FETCH_DOWNLINK: Final = Operation(
    "downlink",
    "GET",
    _ROUND + "/downlink",
    Caller.MEMBER,
    kind="downlink",
    answer=STREAM_MEDIA_TYPE,
    problems=(errors.NotFoundError, errors.RoundFailedError, errors.OutOfOrderError),
)
FETCH_LEDGER: Final = Operation(
    "ledger_page",
    "GET",
    _ROUND + "/ledger",
    Caller.READER,
    answer=MEDIA_TYPE,
    problems=(errors.NotFoundError,),
)
COLLABORATION_REPORT: Final = Operation(
    "collaboration_report", "GET", _ROUND + "/report", Caller.READER, problems=(errors.NotFoundError,)
)

PUBLISH_TERMS: Final = Operation(
    "publish_terms",
    "PUT",
    _ROUND,
    Caller.OPERATOR,
    body=Body(JSON, MAX_MESSAGE_BYTES),
    problems=(errors.AlreadyExistsError,),
)


def _step(name: str) -> Operation:
    problems = (errors.NotFoundError, errors.OutOfOrderError)
    return Operation(name, "POST", f"{_ROUND}/{name}", Caller.OPERATOR, problems=problems)


SEAL: Final = _step("seal")
RESUME: Final = _step("resume")
RELEASE: Final = _step("release")
CANCEL: Final = _step("cancel")
CLOSE: Final = _step("close")

CREATE_TOKEN: Final = Operation(
    "make_token",
    "POST",
    "/v1/tokens",
    Caller.INSTITUTION,
    body=Body(JSON, MAX_TOKEN_REQUEST_BYTES),
    problems=(errors.NotFoundError, errors.AlreadyExistsError),
)
LIST_TOKENS: Final = Operation("list_tokens", "GET", "/v1/tokens", Caller.CERTIFIED)
REVOKE_TOKEN: Final = Operation(
    "revoke_token",
    "DELETE",
    "/v1/tokens/{token_id}",
    Caller.OWNER,
    answer=None,
    problems=(errors.NotFoundError,),
)

OPERATIONS: Final = tuple(value for value in globals().copy().values() if isinstance(value, Operation))


def find(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the operation a request means, with the ids in its path; None if there is none."""
    for operation in OPERATIONS:
        if operation.method == method and (ids := operation.match(path)) is not None:
            return operation, ids
    return None


def kind_of(path: str) -> tuple[Kind, str]:
    """Return what a request to ``path`` is for, and its collaboration ("" where the path names none).

    Both sides ask here, so that they attribute the same request to the same kind.
    """
    plain = path.partition("?")[0]
    for operation in OPERATIONS:
        if (ids := operation.match(plain)) is not None:
            return operation.kind, ids.get("collaboration_id", "")
    return "control", ""
