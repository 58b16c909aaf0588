"""What the local service says of itself in its OpenAPI document, besides what its types say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

PROBLEM: Final = "application/problem+json"
CERTIFICATE: Final = "clientCertificate"
TOKEN: Final = "apiToken"  # noqa: S105  # the name of a scheme
_SCHEMES: Final = {
    CERTIFICATE: {"type": "mutualTLS", "description": "A certificate of the CA that `--client-ca` names."},
    TOKEN: {"type": "http", "scheme": "bearer", "description": "What is in the service's token file."},
}
_REFUSALS: Final[Mapping[int, str]] = {
    400: (
        "`thresholds` or `interval` do not belong to what is predicted, or too few errors are known for the"
        " interval."
    ),
    401: "The token is missing, or is another.",
    413: "The body is too large: send fewer rows.",
    422: (
        "The body is malformed, or a field does not fit the terms and `skip_unfit` was not asked for; column"
        " and row are named, never a value."
    ),
    503: "A hundred requests for predictions are under way, or the service ends: ask again.",
}
TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
ABOUT: Final = (
    "Predictions at the institution, from the model that came back. Every refusal is a problem document"
    " (RFC 9457). A connection on which no request comes within ten seconds, or no body within a minute,"
    " ends. While more than fifty connections say nothing, those that have been silent for two seconds end"
    " sooner; one whose request has the token, or a client certificate where no token is needed, does not."
    " With TLS, a handshake of more than ten seconds ends too, and while there are two hundred, any of them"
    " for the next."
)


class Problem(BaseModel):
    """Why a request is refused (RFC 9457)."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """`/problems/SLUG` (docs/errors.md), or `about:blank`."""
    title: str
    status: int
    detail: str | None = None
    """Which column and row, or which member of the body; never a value of it."""
    hint: str | None = None
    """What to do next."""
    instance: str | None = None


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a path may refuse, as FastAPI takes it."""
    schema = Problem.model_json_schema()
    found: dict[int | str, dict[str, Any]] = {
        status: {"description": _REFUSALS[status], "content": {PROBLEM: {"schema": schema}}}
        for status in statuses
    }
    if 503 in found:
        found[503]["headers"] = {
            "Retry-After": {"required": True, "schema": {"type": "string", "pattern": "^1$"}}
        }
    if 401 in found:
        found[401]["headers"] = {
            "WWW-Authenticate": {"required": True, "schema": {"type": "string", "pattern": "^Bearer$"}}
        }
    return found


def security(*, by_certificate: bool, by_token: bool) -> list[dict[str, list[str]]]:
    """Return what a caller has to show: all of it."""
    shown = {CERTIFICATE: by_certificate, TOKEN: by_token}
    return [{name: [] for name, is_needed in shown.items() if is_needed}] if any(shown.values()) else []


def with_schemes(document: dict[str, Any], needed: list[dict[str, list[str]]]) -> dict[str, Any]:
    """Return a document of FastAPI with the schemes that it refers to."""
    names = [name for one in needed for name in one]
    components = {
        **document.get("components", {}),
        "securitySchemes": {name: _SCHEMES[name] for name in names},
    }
    return {**document, "components": components}
