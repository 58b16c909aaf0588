"""Errors as RFC 9457 problem details, and the HTTP status of every class in one table."""

from __future__ import annotations

import logging
import uuid
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from protocol import errors
from protocol.busy import TooManyRequestsError
from protocol.errors import OdcError
from runtime.storage import storage_error

log = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[dict[type[OdcError], int]] = {
    errors.OdcError: 500,
    errors.ProtocolError: 400,
    errors.MalformedMessageError: 400,
    errors.UnsupportedVersionError: 400,
    errors.LimitExceededError: 413,
    errors.ShapeMismatchError: 422,
    errors.DtypeMismatchError: 422,
    errors.NotFiniteError: 422,
    errors.LabelOutOfRangeError: 422,
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
}


def problem_response(error: OdcError, instance: str) -> JSONResponse:
    """Return the answer for one of our own errors."""
    status = STATUS[type(error)]
    body: dict[str, Any] = {**error.to_problem(), "status": status, "instance": instance}
    headers = {}
    if status == 401:  # it has to name a scheme of authentication (RFC 9110, 15.5.2)
        headers["www-authenticate"] = "Bearer"
    if "retry_after_s" in error.context:
        headers["retry-after"] = str(error.context["retry_after_s"])
    return JSONResponse(body, status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


async def on_odc_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that ended with one of our own errors."""
    assert isinstance(error, OdcError)  # noqa: S101  # how the handler is registered
    if isinstance(error, errors.StorageError):  # the operator has to act, and needs the reason
        log.error(
            "%s %s: %s: %s", request.method, request.url.path, error.detail, error.__cause__ or error.code
        )
    else:
        log.info("%s %s: %s", request.method, request.url.path, error.code)
    return problem_response(error, request.url.path)


async def on_os_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that a disk has failed; other errors of the system are unexpected."""
    assert isinstance(error, OSError)  # noqa: S101  # how the handler is registered
    found = storage_error(error, "the analyst's disk")
    if found is None:
        raise error
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
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": f"{request.method} {request.url.path}: {title.lower()}",
        "hint": "see /openapi.json for the paths and methods that exist",
        "instance": request.url.path,
    }
    # the answer to a wrong method lists the right ones in its Allow header (RFC 9110, 15.5.6)
    return JSONResponse(body, status, headers=getattr(error, "headers", None), media_type=PROBLEM_MEDIA_TYPE)


async def on_unexpected(request: Request, _error: Exception) -> JSONResponse:
    """Answer an unexpected error with an id only; its details stay in the log."""
    incident = uuid.uuid4().hex[:8]
    log.error("incident %s: %s %s", incident, request.method, request.url.path)
    body = {
        "type": "/problems/unexpected",
        "title": "Unexpected error at the analyst",
        "status": 500,
        "detail": f"incident {incident}",
        "hint": "give the number of the incident to the analyst, whose log has the details",
        "instance": request.url.path,
    }
    return JSONResponse(body, 500, media_type=PROBLEM_MEDIA_TYPE)
