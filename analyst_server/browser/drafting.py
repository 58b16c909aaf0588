"""A new collaboration: a draft is pasted or opened, checked and shown in plain words, and then published."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.problems import STATUS
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import Form, PageRoute, go_to, require_yes, show
from analyst_server.browser.visits import TheVisitor, Visitor
from analyst_server.services import prepare, views
from analyst_server.services.analyst import Analyst
from pages import paging
from protocol.answers import Status
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError, OdcError
from protocol.operations import PUBLISH_TERMS
from protocol.terms import Terms
from runtime.drafts import checked_draft, parsed_draft

router = APIRouter(route_class=PageRoute, include_in_schema=False)
NEW: Final = f"{PAGES}/new"
_NAMED: Final = "the draft"


@router.get(NEW)
def ask(request: Request, analyst: TheAnalyst, visitor: TheVisitor) -> Response:
    """Ask for a draft of terms."""
    visitor.require(PUBLISH_TERMS)
    return _asked(request, analyst, visitor, {}, None)


@router.post(NEW)
def ask_again(request: Request, analyst: TheAnalyst, visitor: TheVisitor, fields: Form) -> Response:
    """Show the form again with a draft that was checked, to change it."""
    visitor.require(PUBLISH_TERMS)
    return _asked(request, analyst, visitor, fields, None)


@router.post(f"{NEW}/check")
def check(request: Request, analyst: TheAnalyst, visitor: TheVisitor, fields: Form) -> Response:
    """Check a draft, and show what the institutions would sign."""
    visitor.require(PUBLISH_TERMS)
    collaboration_id = secrets.token_hex(16)
    try:
        _, terms = _terms(analyst, fields, collaboration_id)
        replaced = views.status(analyst, None, terms.replaces)["title"] if terms.replaces else ""
    except OdcError as error:
        return _asked(request, analyst, visitor, fields, error)
    return show(
        request,
        "draft_checked.html",
        visitor=visitor,
        draft=fields.get("draft", ""),
        collaboration_id=collaboration_id,
        terms=terms,
        words=plain_words(terms),
        replaced=replaced,
        calls=(PUBLISH_TERMS, {"collaboration_id": collaboration_id}),
    )


@router.post(f"{NEW}/publish")
def publish(request: Request, analyst: TheAnalyst, visitor: TheVisitor, fields: Form) -> Response:
    """Publish the terms, under the id that they were checked with: sent twice, they are published once."""
    collaboration_id = fields.get("collaboration_id", "")
    if not re.fullmatch("[0-9a-f]{32}", collaboration_id):
        raise MalformedMessageError("form", "names no collaboration")
    visitor.require(PUBLISH_TERMS, collaboration_id)
    require_yes(fields)
    try:
        draft, _ = _terms(analyst, fields, collaboration_id)
        prepare.create_once(analyst, collaboration_id, json.dumps(draft, default=str).encode())
    except OdcError as error:
        return _asked(request, analyst, visitor, fields, error)
    return go_to(f"{PAGES}/collaborations/{collaboration_id}")


def _terms(
    analyst: Analyst, fields: Mapping[str, str], collaboration_id: str
) -> tuple[dict[str, Any], Terms]:
    """Return the fields of a draft, and the terms they make here; an error names the line that is wrong."""
    text, replaces = fields.get("draft", ""), fields.get("replaces", "")
    is_json = text.lstrip().startswith("{")
    draft = parsed_draft(text, is_json=is_json, named=_NAMED)
    if replaces:
        draft["replaces"] = replaces
    ids = {"consortium_id": analyst.root.consortium_id, "collaboration_id": collaboration_id}
    checked_draft(draft, ids, "" if is_json else text.replace("\r\n", "\n"), named=_NAMED)
    return draft, prepare.complete_terms(analyst, draft, collaboration_id)


def _asked(
    request: Request, analyst: Analyst, visitor: Visitor, fields: Mapping[str, str], error: OdcError | None
) -> Response:
    holder, replaces, states = visitor.holder, fields.get("replaces", ""), prepare.CAN_BE_REPLACED
    offered, are_more = views.newest(analyst, holder, visitor.grant.only, 0, paging.MOST, states=states)
    chosen: list[Status] = []
    if replaces and visitor.grant.only in (None, replaces):
        chosen, _ = views.newest(analyst, holder, replaces, 0, 1, states=states)
    return show(
        request,
        "draft.html",
        visitor=visitor,
        draft=fields.get("draft", ""),
        replaces=replaces,
        can_be_replaced=[*(one for one in chosen if one not in offered), *offered],
        has_older=are_more,
        error=error,
        code=STATUS[type(error)] if error is not None else 200,
        calls=(PUBLISH_TERMS, {"collaboration_id": "{id}"}),
    )
