"""The operator's steps: each is asked about first, and says what cannot be undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.surface import TheAnalyst
from analyst_server.browser.answers import Form, PageRoute, go_to, no_such_page, require_yes, show
from analyst_server.browser.looking import ONE, seen
from analyst_server.browser.visits import TheVisitor
from analyst_server.pages import acts
from analyst_server.pages.acts import Act
from analyst_server.services import end, exclusion, rounds
from analyst_server.services.analyst import Analyst
from protocol.answers import Status
from protocol.errors import NotFoundError
from runtime.standing import standing_values

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_USE_CASES: Final[Mapping[str, Callable[[Analyst, str], None]]] = {
    acts.SEAL.name: rounds.seal,
    acts.RESUME.name: rounds.resume,
    acts.RELEASE.name: rounds.release,
    acts.CANCEL.name: end.cancel,
    acts.CLOSE.name: end.close,
}


@router.get(f"{ONE}/{{name}}")
def ask(
    request: Request,
    analyst: TheAnalyst,
    visitor: TheVisitor,
    collaboration_id: str,
    name: str,
    party: str = "",
) -> Response:
    """Say what a step does, and ask whether to take it."""
    act = _act(name)
    visitor.require(act.operation, collaboration_id)
    status = seen(analyst, visitor, collaboration_id)
    _check_party(act, status, party)
    return show(
        request,
        "act.html",
        visitor=visitor,
        tab="",
        act=act,
        party=party,
        concerned=acts.concerned(act, status),
        calls=(act.operation, {"collaboration_id": collaboration_id, "party": party}),
        **standing_values(status),
    )


@router.post(f"{ONE}/{{name}}")
def take(
    analyst: TheAnalyst, visitor: TheVisitor, collaboration_id: str, name: str, fields: Form
) -> Response:
    """Take a step, as the REST operation of the same name does."""
    act, party = _act(name), fields.get("party", "")
    visitor.require(act.operation, collaboration_id)
    require_yes(fields)
    if act is acts.EXCLUDE:
        exclusion.exclude(analyst, collaboration_id, party)
    else:
        _USE_CASES[act.name](analyst, collaboration_id)
    return go_to(ONE.format(collaboration_id=collaboration_id))


def _act(name: str) -> Act:
    if name not in acts.ACTS:
        raise no_such_page()
    return acts.ACTS[name]


def _check_party(act: Act, status: Status, party: str) -> None:
    if act is acts.EXCLUDE and party not in {member["party"] for member in status["members"]}:
        raise NotFoundError("the terms name no such institution")


@router.get(f"{PAGES}/{{rest:path}}")
async def unknown() -> Response:
    """Say of every other address below the pages that it is none."""
    raise no_such_page()
