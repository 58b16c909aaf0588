"""What a holder of a certificate may do about keys: the lead's requests, and everybody's own API tokens."""

from __future__ import annotations

import json
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import Form, PageRoute, go_to, require_yes, show
from analyst_server.browser.visits import TheVisitor, Visitor
from analyst_server.services import api_tokens, certificates
from protocol import operations
from protocol.errors import InputError, NotFoundError, NotPermittedError
from protocol.identity import Identity
from protocol.operations import Operation

router = APIRouter(route_class=PageRoute, include_in_schema=False)
REQUESTS: Final = f"{PAGES}/requests"
TOKENS: Final = f"{PAGES}/tokens"


@router.get(REQUESTS)
def requests(request: Request, analyst: TheAnalyst, visitor: TheVisitor, after: str = "") -> Response:
    """Show who waits for the lead institution."""
    sender = _sender(visitor, operations.LIST_CERTIFICATE_REQUESTS)
    found = certificates.pending(analyst, sender, after)
    twin = operations.LIST_CERTIFICATE_REQUESTS.url()
    return show(request, "requests.html", visitor=visitor, found=found, twin=twin)


@router.get(f"{REQUESTS}/{{invitation_id}}/rejection")
def ask_to_reject(request: Request, analyst: TheAnalyst, visitor: TheVisitor, invitation_id: str) -> Response:
    """Ask why the lead rejects a request."""
    sender = _sender(visitor, operations.REJECT_CERTIFICATE_REQUEST)
    waiting = certificates.pending(analyst, sender)["enrolments"]
    row = next((one for one in waiting if one["invitation_id"] == invitation_id), None)
    if row is None:
        raise NotFoundError("this request does not wait")
    calls = (operations.REJECT_CERTIFICATE_REQUEST, {"invitation_id": invitation_id})
    return show(request, "reject.html", visitor=visitor, row=row, calls=calls)


@router.post(f"{REQUESTS}/{{invitation_id}}/rejection")
def reject(analyst: TheAnalyst, visitor: TheVisitor, invitation_id: str, fields: Form) -> Response:
    """Reject one request with a reason, which the party that asked reads."""
    sender = _sender(visitor, operations.REJECT_CERTIFICATE_REQUEST)
    require_yes(fields)
    if not (reason := fields.get("reason", "").strip()):
        error = InputError("a rejection needs its reason, which the institution reads")
        error.hint = "go back, say why, and send the form again; nothing was changed"
        raise error
    body = json.dumps({"reason": reason}).encode()
    certificates.reject(analyst, sender, invitation_id, body)
    return go_to(REQUESTS)


@router.get(TOKENS)
def tokens(request: Request, analyst: TheAnalyst, visitor: TheVisitor) -> Response:
    """Show the visitor's API tokens: their purpose, their end, and when each was last used."""
    sender = _sender(visitor, operations.LIST_TOKENS)
    rows = api_tokens.listing(analyst, sender)
    twin, calls = operations.LIST_TOKENS.url(), (operations.REVOKE_TOKEN, {"token_id": "{id}"})
    return show(request, "tokens.html", visitor=visitor, rows=rows, twin=twin, calls=calls)


@router.post(f"{TOKENS}/{{token_id}}/revocation")
def revoke(analyst: TheAnalyst, visitor: TheVisitor, token_id: str, fields: Form) -> Response:
    """Refuse a token from now on."""
    sender = _sender(visitor, operations.REVOKE_TOKEN)
    require_yes(fields)
    api_tokens.revoke(analyst, sender, token_id)
    return go_to(TOKENS)


def _sender(visitor: Visitor, operation: Operation) -> Identity:
    """Return who asks by a certificate, which these operations need."""
    visitor.require(operation)
    if visitor.holder is None:
        raise NotPermittedError("this page needs a client certificate")
    return visitor.holder
