"""The steps of this institution: each is a form, and what cannot be undone is asked about first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from fastapi import APIRouter, Request
from starlette.responses import Response

from protocol.codec import digest
from protocol.errors import InputError, NotFoundError
from protocol.labels import Label, MultiLabel
from protocol.terms import Terms
from user_client.errors import ConfirmationNeededError
from user_client.sdk.consumer import check_consumer
from user_client.sdk.prepared import Prepared
from user_client.sdk.round import Round
from user_client.sdk.session import Session
from user_client.sdk.terms import check_table, reject_terms
from user_client.tables import Dialect, Source, parse_dialect, read_parts
from user_client.ui.answers import Form, PageRoute, TheDesk, go_to, no_such_page, require_yes, show
from user_client.ui.entry import ROOT
from user_client.ui.looking import ONE, prepared_digest, result_page
from user_client.ui.work import Desk, Kind, Named, Work

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_SHOWN_ROWS: Final = 50
_SHAPE: Final = re.compile(r"([1-9]\d{0,5})x([1-9]\d{0,5})")


@dataclass(frozen=True)
class Predicted:
    """The predictions of a table: the first of them, and how many of each class there are."""

    rows: int
    head: pa.Table
    counts: dict[str, int]
    """Empty unless classes are predicted."""

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "counts": self.counts, "first": self.head.to_pylist()}


@dataclass(frozen=True)
class Drawn:
    """An uplink that was prepared here, and a picture of a few of its rows (PNG) if one was asked for."""

    prepared: str
    """As `prepared_digest` names it."""
    png: bytes | None


@router.post(f"{ONE}/accept")
def accept(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Sign the terms that the page has shown."""
    require_yes(fields)
    with desk.round(collaboration_id) as (_, chosen):
        shown = fields.get("digest", "")
        if not chosen.terms_were_shown or digest(chosen.directory.load(Terms)).hex() != shown:
            error = InputError("these are not the terms that the page has shown")
            error.hint = "go back, load the page of the terms again, and read them"
            raise error
        chosen.accept(accept_row_revealing_model=fields.get("row_revealing") == "yes")
    return go_to(_page(collaboration_id))


@router.post(f"{ONE}/reject")
def reject(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Say why we do not sign."""
    if not (reason := fields.get("reason", "").strip()):
        raise InputError("a rejection needs its reason, which all members read")
    with desk.round(collaboration_id) as (session, chosen):
        reject_terms(session, chosen.id, reason)
    return go_to(_page(collaboration_id))


@router.post(f"{ONE}/anchor")
def anchor(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Create the anchor, which the lead does once."""
    table = fields.get("table", "").strip()
    source = _source(fields) if table else None
    return _begin(desk, "anchor", collaboration_id, lambda _s, chosen, _w: chosen.create_anchor(source))


@router.post(f"{ONE}/check")
def check(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Compare a table with the terms."""
    named = desk.found(collaboration_id).rows = _named(fields)

    def do(session: Session, chosen: Round, _work: Work) -> Any:
        terms = chosen.fetch_terms(keep=False)
        return check_table(terms, named.source, session.home.path, party=chosen.party)

    return _begin(desk, "check", collaboration_id, do, named)


@router.post(f"{ONE}/prepare")
def prepare(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Prepare a table, and attack it; nothing is sent. With a shape, draw a few rows too."""
    named, shape = _named(fields), _shape(fields.get("shape", "").strip())
    desk.found(collaboration_id).rows = named

    def do(_session: Session, chosen: Round, _work: Work) -> Drawn:
        prepared = chosen.prepare(named.source, attacks="quick")
        png = chosen.draw_picture(named.source, shape) if shape else None
        return Drawn(prepared_digest(prepared), png)

    return _begin(desk, "prepare", collaboration_id, do, named)


@router.post(f"{ONE}/contribute")
def contribute(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Send what the page has shown."""
    require_yes(fields)
    seen, is_consumer = fields.get("seen", ""), fields.get("consumer") == "yes"

    def confirm(chosen: Round, prepared: Prepared) -> None:
        if prepared_digest(prepared) != seen:
            error = ConfirmationNeededError("something else is prepared now than the page has shown")
            error.hint = "nothing was sent; look at what would leave, and send it again"
            raise error
        check_consumer(chosen.terms, chosen.party, prepared, is_meant=is_consumer)

    def do(_session: Session, chosen: Round, work: Work) -> Any:
        return chosen.contribute(
            accept_signal_loss=fields.get("signal_loss") == "yes",
            progress=work.progress,
            confirm=partial(confirm, chosen),
        )

    return _begin(desk, "contribute", collaboration_id, do)


@router.post(f"{ONE}/receive")
def receive(desk: TheDesk, collaboration_id: str, _fields: Form) -> Response:
    """Fetch the model, and check it against what we sent."""
    return _begin(desk, "receive", collaboration_id, lambda _s, chosen, _w: chosen.receive())


@router.post(f"{ONE}/predict")
def predict(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Predict a table on this machine."""
    named = desk.found(collaboration_id).predicted = _named(fields)

    def do(_session: Session, chosen: Round, _work: Work) -> Predicted:
        return _predicted(chosen, named.source)

    return _begin(desk, "predict", collaboration_id, do, named)


@router.post(f"{ONE}/explain")
def explain(desk: TheDesk, collaboration_id: str, fields: Form) -> Response:
    """Explain the answers for a table on this machine."""
    named = desk.found(collaboration_id).predicted = _named(fields)

    def do(_session: Session, chosen: Round, _work: Work) -> Any:
        return chosen.explain(named.source)

    return _begin(desk, "explain", collaboration_id, do, named)


@router.get(f"{ONE}/work")
def working(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show the work under way; lead to what it has found once it is over."""
    work = desk.last(collaboration_id)
    if work is None:
        raise NotFoundError("no work was begun")
    if work.is_over:
        return go_to(result_page(work))
    return show(request, "work.html", work.to_json(), work=work, collaboration_id=collaboration_id)


@router.get(f"{ROOT}/{{rest:path}}")
async def unknown() -> Response:
    """Say of every other address below the pages that it is none."""
    raise no_such_page()


def _predicted(chosen: Round, source: Source) -> Predicted:
    predictor = chosen.predictor()
    rows, counts, head = 0, Counter[str](), []
    label = predictor.terms.table_schema.label_column
    counted = {"prediction": ""} if isinstance(label, Label) else {}
    if isinstance(label, MultiLabel):
        counted = {f"prediction_{one.name}": f"{one.name} = " for one in label.labels}
    for part in predictor.predict_parts(read_parts(source)):
        if rows < _SHOWN_ROWS:
            head.append(part.slice(0, _SHOWN_ROWS - rows))
        rows += part.num_rows
        for column, begin in counted.items():
            counts.update(begin + said for said in part.column(column).to_pylist())
    return Predicted(rows, pa.concat_tables(head), dict(sorted(counts.items())))


def _begin(desk: Desk, kind: Kind, collaboration_id: str, do: Any, named: Named | None = None) -> Response:
    with desk.round(collaboration_id) as (_, chosen):  # checks the id
        desk.start(kind, chosen.id, do, named.words if named else "")
    return go_to(f"{_page(collaboration_id)}/work")


def _named(fields: Mapping[str, str]) -> Named:
    """Return the table that a form names, to be shown in the form that comes back."""
    return Named(_source(fields), fields.get("csv", "").strip())


def _source(fields: Mapping[str, str]) -> Source:
    """Return the table that a form names; of a CSV file, what is not said of how it is written is guessed."""
    if not (place := fields.get("table", "").strip()):
        raise InputError("no table is named: give the path of a file on this machine, or a database's URL")
    words = fields.get("csv", "").strip()
    said = parse_dialect(words) if words else Dialect()
    sheet, query = fields.get("sheet", "").strip(), fields.get("query", "").strip()
    return Source(place, sheet=sheet or None, query=query or None).guessed(said)


def _shape(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    if (found := _SHAPE.fullmatch(text)) is None:
        raise InputError("the shape of a picture is HEIGHTxWIDTH, such as 28x28")
    return int(found[1]), int(found[2])


def _page(collaboration_id: str) -> str:
    return ONE.format(collaboration_id=collaboration_id)
