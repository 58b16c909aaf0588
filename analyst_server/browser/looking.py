"""The pages that show something, each what one REST operation answers."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.status import tag_of
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import PageRoute, show
from analyst_server.browser.visits import TheVisitor, Visitor
from analyst_server.pages import acts
from analyst_server.pages.ledger import steps_of
from analyst_server.pages.report import report_sections
from analyst_server.services import prepare, report, views
from analyst_server.services.analyst import Analyst
from pages import paging
from protocol import operations
from protocol.answers import Status
from protocol.errors import MalformedMessageError
from protocol.operations import Operation
from protocol.states import ENDED, State
from runtime import standing
from runtime.standing import standing_values

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ONE: Final = f"{PAGES}/collaborations/{{collaboration_id}}"
_STEPS_OF_A_PAGE: Final = 500


@router.get(PAGES)
def collaborations(request: Request, analyst: TheAnalyst, visitor: TheVisitor, start: str = "0") -> Response:
    """Show the collaborations that the visitor can see, and where each stands; the newest first."""
    visitor.require(operations.LIST_COLLABORATIONS)
    first = _number(start, "a collaboration in the list")
    shown, are_more = views.newest(analyst, visitor.holder, visitor.grant.only, first, paging.MOST)
    rows = [
        {
            "status": one,
            "standing": standing.standing(one),
            "counts": standing.counts(one),
            "waits": standing.waits(one),
        }
        for one in shown
    ]
    twin = operations.LIST_COLLABORATIONS.url()
    return show(
        request,
        "collaborations.html",
        visitor=visitor,
        rows=rows,
        next=first + paging.MOST if are_more else None,
        path=standing.PATH,
        twin=twin,
    )


@router.get(ONE)
def collaboration(
    request: Request, analyst: TheAnalyst, visitor: TheVisitor, collaboration_id: str
) -> Response:
    """Show where one collaboration stands: its members, and whom it waits for."""
    status = seen(analyst, visitor, collaboration_id)
    twin = _twin(operations.COLLABORATION_STATUS, collaboration_id)
    values = now_values(request, visitor, status)
    return show(request, "collaboration.html", visitor=visitor, tab="overview", twin=twin, **values)


@router.get(f"{ONE}/report")
def shown_report(
    request: Request, analyst: TheAnalyst, visitor: TheVisitor, collaboration_id: str
) -> Response:
    """Show what happened and what it cost."""
    visitor.require(operations.COLLABORATION_REPORT, collaboration_id)
    if visitor.holder is None:
        found = report.for_operator(analyst, collaboration_id)
    else:
        found = report.for_member(analyst, visitor.holder, collaboration_id)
    values = standing_values(seen(analyst, visitor, collaboration_id))
    sections = [[Markup(part) for part in section] for section in report_sections(found)]  # noqa: S704  # is HTML
    twin = _twin(operations.COLLABORATION_REPORT, collaboration_id)
    return show(request, "report.html", visitor=visitor, tab="report", sections=sections, twin=twin, **values)


@router.get(f"{ONE}/terms")
def terms(request: Request, analyst: TheAnalyst, visitor: TheVisitor, collaboration_id: str) -> Response:
    """Show the text that every institution signs."""
    operation = operations.TERMS_IN_WORDS
    visitor.require(operation, collaboration_id)
    words = prepare.terms_in_words(analyst, visitor.holder, collaboration_id)["plain_words"]
    values = standing_values(seen(analyst, visitor, collaboration_id))
    twin = _twin(operation, collaboration_id)
    return show(request, "terms.html", visitor=visitor, tab="terms", words=words, twin=twin, **values)


@router.get(f"{ONE}/ledger")
def ledger(
    request: Request, analyst: TheAnalyst, visitor: TheVisitor, collaboration_id: str, start: str = "0"
) -> Response:
    """Show every step, and the analyst's signature under all of them."""
    operation = operations.FETCH_LEDGER
    visitor.require(operation, collaboration_id)
    body = views.ledger_page(analyst, visitor.holder, collaboration_id, _number(start, "an entry"))
    values = standing_values(seen(analyst, visitor, collaboration_id))
    return show(
        request,
        "ledger.html",
        visitor=visitor,
        tab="ledger",
        steps_taken=steps_of(body, _STEPS_OF_A_PAGE),
        twin=_twin(operation, collaboration_id),
        **values,
    )


def seen(analyst: Analyst, visitor: Visitor, collaboration_id: str) -> Status:
    """Return the status of a collaboration that the visitor may see."""
    visitor.require(operations.COLLABORATION_STATUS, collaboration_id)
    return views.status(analyst, visitor.holder, collaboration_id)


def now_values(request: Request, visitor: Visitor, status: Status) -> dict[str, Any]:
    """Return what the page of a collaboration says of now, and renews by itself."""
    found = status["collaboration_id"]
    return {
        **standing_values(status),
        "tag": moving_tag(status),
        "is_over": status["state"] in ENDED,
        "said": standing.said(status),
        "acts": [act for act in acts.possible(status) if visitor.may(act.operation, found)],
        "can_exclude": [
            member["party"]
            for member in status["members"]
            if visitor.may(acts.EXCLUDE.operation, found) and acts.can_be_excluded(status, member)
        ],
        "invitation": _invitation(request, visitor, status),
    }


def moving_tag(status: Status) -> str:
    """Return the name of a version of a status, with how much has arrived and how much is computed."""
    arrived = sum(member.get("arrived_bytes", 0) for member in status["members"])
    computed = "-".join(map(str, status.get("computing", {}).values()))
    return f"{tag_of(status)}-{arrived}-{computed}"


def _invitation(request: Request, visitor: Visitor, status: Status) -> str | None:
    """Return what the operator may send round while the institutions still have to sign."""
    if visitor.holder is not None or status["state"] != State.ENROLLING:
        return None
    return acts.invitation_text(status, f"https://{request.url.netloc}")


def _number(start: str, of: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", start):
        raise MalformedMessageError("start", f"is not the number of {of}")
    return int(start)


def _twin(operation: Operation, collaboration_id: str) -> str:
    return f"{operation.url(collaboration_id=collaboration_id)} {operation.answer}"
