"""Errors as RFC 9457 problem details, and the HTTP status of every class in one table."""

from __future__ import annotations

import inspect
import logging
import uuid
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from analyst_server.api.fields import RETRY_AFTER, SCHEMES
from protocol import errors
from protocol.answers import ProblemType
from protocol.busy import TooManyRequestsError
from protocol.errors import OdcError
from protocol.operations import methods_of
from protocol.row_bounds import RowTooLongError
from protocol.tracing import MEMBER
from protocol.version import OlderServerError, UnknownAlgorithmError
from runtime.logs import REQUEST, told
from runtime.storage import RETRY_FULL_DISK_S, storage_error

UNEXPECTED: Final = "/problems/unexpected"
OF_HTTP: Final = "about:blank"
"""The types of problems that are no error of ours: our own faults, and what HTTP itself refuses."""

log = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[dict[type[OdcError], int]] = {
    errors.OdcError: 500,
    errors.ProtocolError: 400,
    errors.MalformedMessageError: 400,
    errors.UnsupportedVersionError: 400,
    UnknownAlgorithmError: 400,
    errors.LimitExceededError: 413,
    errors.ShapeMismatchError: 422,
    errors.DtypeMismatchError: 422,
    errors.NotFiniteError: 422,
    errors.LabelOutOfRangeError: 422,
    RowTooLongError: 422,
    errors.DigestMismatchError: 422,
    errors.OffsetMismatchError: 409,
    errors.TruncatedError: 422,
    errors.TrustError: 403,
    errors.SignatureError: 403,
    errors.CertificateRequiredError: 401,
    errors.CertificateRefusedError: 403,
    errors.CertificateRevokedError: 403,
    errors.NotPermittedError: 403,
    errors.InvitationError: 403,
    errors.SealBrokenError: 422,
    errors.LedgerError: 422,
    errors.TokenRefusedError: 401,
    errors.InputError: 400,
    errors.UnreadableFileError: 400,
    errors.RoundError: 409,
    errors.OutOfOrderError: 409,
    errors.TermsNotAcceptedError: 409,
    errors.TermsMismatchError: 409,
    errors.ConsentMissingError: 403,
    errors.DifferentUplinkError: 409,
    errors.AlreadyExistsError: 409,
    errors.UploadSupersededError: 409,
    errors.NotFoundError: 404,
    errors.RoundFailedError: 409,
    TooManyRequestsError: 429,
    errors.StorageError: 503,
    errors.StorageBusyError: 503,
    errors.DiskFullError: 507,
    errors.LostDataError: 500,
    OlderServerError: 503,
}


_UNEXPECTED: Final[ProblemType] = {
    "type": UNEXPECTED,
    "title": "Unexpected error at the analyst",
    "status": 500,
    "hint": "give the number of the incident to the analyst, whose log has the details",
    "about": "A fault of the analyst's software: its log has the incident.",
}


def described(slug: str) -> ProblemType:
    """Return what the type of a problem means, whatever the case; raises `NotFoundError`."""
    if slug == "unexpected":
        return _UNEXPECTED
    for kind, status in STATUS.items():
        if kind.code == slug:
            about = (inspect.getdoc(kind) or kind.title).partition("\n\n")[0].replace("\n", " ")
            return {
                "type": f"{errors.PROBLEM_TYPE_PREFIX}{slug}",
                "title": kind.title,
                "status": status,
                "hint": kind.hint,
                "about": about,
            }
    raise errors.NotFoundError("no problem has this name")


def problem_response(error: OdcError, instance: str) -> JSONResponse:
    """Return the answer for one of our own errors."""
    status = STATUS[type(error)]
    body: dict[str, Any] = {**error.to_problem(), "status": status, "instance": instance, **_request()}
    headers: dict[str, str] = {}
    if status == 401:  # it has to name a scheme of authentication (RFC 9110, 15.5.2)
        headers |= SCHEMES.fixed
    if "retry_after_s" in error.context:
        headers[RETRY_AFTER.name] = str(error.context["retry_after_s"])
    return JSONResponse(body, status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


def _request() -> dict[str, str]:
    """Return the id of the request that is being answered, which every line of the log about it has."""
    request_id = told(REQUEST)
    return {MEMBER: request_id} if request_id else {}


async def on_odc_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that ended with one of our own errors."""
    assert isinstance(error, OdcError)  # noqa: S101  # how the handler is registered
    if isinstance(error, errors.StorageError):  # the operator has to act, and needs the reason
        log.error(
            "%s %s: %s: %s", request.method, request.url.path, error.detail, error.__cause__ or error.code
        )
    return problem_response(error, request.url.path)  # `access_log` has the rest


async def on_os_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that a disk has failed; other errors of the system are unexpected."""
    assert isinstance(error, OSError)  # noqa: S101  # how the handler is registered
    found = storage_error(error, "the analyst's disk")
    if found is None:
        raise error
    if isinstance(found, errors.DiskFullError):
        found.context["retry_after_s"] = RETRY_FULL_DISK_S
    log.error("%s %s: %s: %s", request.method, request.url.path, found.detail, error)
    return problem_response(found, request.url.path)


async def on_hang_up(request: Request, _error: Exception) -> Response:
    """Answer a request whose sender is gone before its end; nobody reads this."""
    log.info("%s %s: the client hung up", request.method, request.url.path)
    return Response(status_code=408)


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what the framework refuses (unknown path, wrong method) in the same shape."""
    status = int(getattr(error, "status_code", 500))
    title = str(getattr(error, "detail", "Error"))
    body = {
        "type": OF_HTTP,
        "title": title,
        "status": status,
        "detail": f"{request.method} {request.url.path}: {title.lower()}",
        "hint": "see /openapi.json for the paths and methods that exist",
        "instance": request.url.path,
        **_request(),
    }
    headers = dict(getattr(error, "headers", None) or {})
    if status == 405 and (methods := methods_of(request.url.path)):
        headers["Allow"] = ", ".join(methods)  # all of them (RFC 9110, 15.5.6); the router knows one route's
    return JSONResponse(body, status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


async def on_unexpected(request: Request, _error: Exception) -> JSONResponse:
    """Answer an unexpected error with an id only; its details stay in the log."""
    incident = uuid.uuid4().hex[:8]
    log.error("incident %s: %s %s", incident, request.method, request.url.path)
    known = {name: value for name, value in _UNEXPECTED.items() if name != "about"}
    body = {**known, "detail": f"incident {incident}", "instance": request.url.path, **_request()}
    return JSONResponse(body, 500, media_type=PROBLEM_MEDIA_TYPE)
