"""A new collaboration: a draft is pasted or opened, checked and shown in plain words, and then published."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.problems import STATUS
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import Form, PageRoute, go_to, require_yes, show
from analyst_server.browser.visits import TheVisitor, Visitor
from analyst_server.services import prepare
from analyst_server.services.analyst import Analyst
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError, OdcError
from protocol.operations import PUBLISH_TERMS
from protocol.terms import Terms
from runtime.drafts import checked_draft, parsed_draft

router = APIRouter(route_class=PageRoute, include_in_schema=False)
NEW: Final = f"{PAGES}/new"
_NAMED: Final = "the draft"


@router.get(NEW)
def ask(request: Request, visitor: TheVisitor) -> Response:
    """Ask for a draft of terms."""
    visitor.require(PUBLISH_TERMS)
    return _asked(request, visitor, "", None)


@router.post(f"{NEW}/check")
def check(request: Request, analyst: TheAnalyst, visitor: TheVisitor, fields: Form) -> Response:
    """Check a draft, and show what the institutions would sign."""
    visitor.require(PUBLISH_TERMS)
    text, collaboration_id = fields.get("draft", ""), secrets.token_hex(16)
    try:
        _, terms = _terms(analyst, text, collaboration_id)
    except OdcError as error:
        return _asked(request, visitor, text, error)
    return show(
        request,
        "draft_checked.html",
        visitor=visitor,
        draft=text,
        collaboration_id=collaboration_id,
        terms=terms,
        words=plain_words(terms),
    )


@router.post(f"{NEW}/publish")
def publish(request: Request, analyst: TheAnalyst, visitor: TheVisitor, fields: Form) -> Response:
    """Publish the terms, under the id that they were checked with: sent twice, they are published once."""
    text, collaboration_id = fields.get("draft", ""), fields.get("collaboration_id", "")
    if not re.fullmatch("[0-9a-f]{32}", collaboration_id):
        raise MalformedMessageError("form", "names no collaboration")
    visitor.require(PUBLISH_TERMS, collaboration_id)
    require_yes(fields)
    try:
        draft, _ = _terms(analyst, text, collaboration_id)
        prepare.create_once(analyst, collaboration_id, json.dumps(draft, default=str).encode())
    except OdcError as error:
        return _asked(request, visitor, text, error)
    return go_to(f"{PAGES}/collaborations/{collaboration_id}")


def _terms(analyst: Analyst, text: str, collaboration_id: str) -> tuple[dict[str, Any], Terms]:
    """Return the fields of a draft, and the terms they make here; an error names the line that is wrong."""
    is_json = text.lstrip().startswith("{")
    draft = parsed_draft(text, is_json=is_json, named=_NAMED)
    ids = {"consortium_id": analyst.root.consortium_id, "collaboration_id": collaboration_id}
    checked_draft(draft, ids, "" if is_json else text.replace("\r\n", "\n"), named=_NAMED)
    return draft, prepare.complete_terms(analyst, draft, collaboration_id)


def _asked(request: Request, visitor: Visitor, text: str, error: OdcError | None) -> Response:
    code = STATUS[type(error)] if error is not None else 200
    return show(request, "draft.html", visitor=visitor, draft=text, error=error, code=code)
