"""The pages to read: where we stand, terms, a table, what would leave, ledger, predictions, the card."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from pages.paging import part_of
from protocol.answers import MOVING, Status
from protocol.codec import digest
from protocol.errors import MalformedMessageError, OdcError
from protocol.ledger import LedgerEntry, entry_digest
from protocol.limits import MAX_NAME_CHARS
from protocol.messages import Acceptance, DownlinkManifest
from protocol.model_terms import revealing_in_words
from protocol.states import State
from protocol.terms import Terms
from runtime import standing
from runtime.terminal import FIGURES, figure
from user_client.sdk import model_card
from user_client.sdk.approval import waiting_requests
from user_client.sdk.corrections import differences
from user_client.sdk.explanation import Explanation
from user_client.sdk.next_steps import NextStep, next_step
from user_client.sdk.prepared import Prepared
from user_client.sdk.round import Round
from user_client.sdk.session import Session
from user_client.ui.answers import PageRoute, TheDesk, show
from user_client.ui.drawn import answers_chart, explanation_chart, leaving_charts
from user_client.ui.entry import ROOT
from user_client.ui.work import Desk, Work
from user_client.words import IF_TOO_MUCH, NOTHING_FOUND, dangers, leaving_in_words, on_screen, risk_in_words

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ONE: Final = f"{ROOT}/rounds/{{collaboration_id}}"
PLACES: Final = {
    "accept": ("terms", "Read and sign the terms"),
    "contribute": ("table", "Choose the table and look at what would leave"),
    "predict": ("predict", "Predict a table"),
}
"""The page of a next step that has one, and what its button says."""
_RESULTS: Final = {"check": "table", "prepare": "leaving", "predict": "predict", "explain": "predict"}
"""The page that shows what a piece of work has found; for any other, where the round stands."""
_ON_THE_ROUND: Final = ("anchor", "contribute", "receive")
"""The steps that are taken on the page of the round, or lead back to it."""
_NO_NEWS: Final = 204


@router.get(ROOT)
def rounds(request: Request, desk: TheDesk, start: str = "0") -> Response:
    """Show where this institution stands, as `odc` alone says it; the newest collaboration first."""
    if not re.fullmatch(r"[0-9]{1,9}", start):
        raise MalformedMessageError("start", "is not the number of a collaboration in the list")
    with desk.session() as session:
        if not session.is_joined():
            return show(request, "nobody.html", {"joined": False}, home=str(session.home.path))
        membership, waiting = session.membership, _who_waits(session)
        rows = [_row(session, status) for status in reversed(session.collaborations())]
    shown, after = part_of(rows, int(start))
    twin = {
        "party": membership.party,
        "consortium": membership.consortium,
        "analyst": membership.analyst_url,
        "waiting_for_certificates": waiting,
        "collaborations": [{"status": row["status"], "next": asdict(row["next"])} for row in rows],
    }
    return show(
        request,
        "rounds.html",
        twin,
        membership=membership,
        waiting=waiting,
        rows=shown,
        next=after,
        path=standing.PATH,
    )


@router.get(ONE)
def one(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show where a round stands, and what comes next for us."""
    with desk.round(collaboration_id) as (_, chosen):
        values = now_values(desk, chosen)
    twin = {"status": values["status"], "next": asdict(values["next"]), "work": _work_json(values["work"])}
    return show(request, "round.html", twin, tab="", **values)


@router.get(f"{ONE}/live")
def live(request: Request, desk: TheDesk, collaboration_id: str, seen: str = "", known: str = "") -> Response:
    """Return the part of a page that renews itself, once it is not ``known`` any more.

    While work is under way the page has ``seen`` its kind, and is led to what it has found once it is over.
    """
    work = desk.last(collaboration_id)
    if work is not None and seen == work.kind and not work.is_over:
        return show(request, "working.html", work=work, collaboration_id=collaboration_id)
    if work is not None and seen == work.kind:
        return Response(headers={"hx-redirect": result_page(work)})
    with desk.round(collaboration_id) as (_, chosen):
        values = now_values(desk, chosen)
    if values["tag"] == known:  # what has the focus, or is marked, is left alone
        return Response(status_code=_NO_NEWS)
    return show(request, "live.html", **values)


@router.get(f"{ONE}/terms")
def terms(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show the terms, what is different from those that they replace, and the form to sign them."""
    with desk.round(collaboration_id) as (session, chosen):
        found = chosen.fetch_terms()
        differs, status = differences(session, found), chosen.status()
        is_signed = chosen.directory.holds(Acceptance)
        asks = next_step(status, chosen.directory).kind == "accept"
    twin = {
        **found.model_dump(mode="json"),
        "plain_words": on_screen(found),
        "differences": differs,
        "terms_digest": digest(found).hex(),
    }
    return show(
        request,
        "terms.html",
        twin,
        tab="terms",
        terms=found,
        words=on_screen(found),
        differs=differs,
        digest=digest(found).hex(),
        is_signed=is_signed,
        # after a rejection the next step is to wait, and signing is still possible
        may_sign=not is_signed and (asks or status["state"] in (State.DRAFT, State.ENROLLING)),
        may_reject=not is_signed and status["state"] == State.ENROLLING,
        most_chars=MAX_NAME_CHARS,
        revealing=revealing_in_words(found.model) if found.is_row_revealing else "",
        **_standing(status),
    )


@router.get(f"{ONE}/table")
def table(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Ask for a table, and show how it goes with the terms."""
    with desk.round(collaboration_id) as (_, chosen):
        status, found = chosen.status(), chosen.fetch_terms(keep=False)
        is_signed = chosen.directory.holds(Acceptance)
        step, party = next_step(status, chosen.directory), chosen.party
    known = desk.found(collaboration_id)
    result = known.of("check")
    checked = result.value if result else None
    twin = {
        "checked": None
        if result is None or checked is None
        else {
            "table": result.table,
            "rows": checked.rows,
            "misfits": [misfit.to_json() for misfit in checked.misfits],
            "columns": [column.to_json() for column in checked.profile],
        }
    }
    return show(
        request,
        "table.html",
        twin,
        tab="table",
        named=known.rows,
        checked=checked,
        checked_table=result.table if result else "",
        columns=_columns_of(found, party),
        label=found.table_schema.label_column.columns if found.has_labels(party) else (),
        risk=risk_in_words(found, checked) if checked is not None and not checked.misfits else ([], []),
        is_signed=is_signed,
        may_prepare=is_signed and step.kind == "contribute",
        said=_said(step),
        failed=_failed(desk, collaboration_id, "check", "prepare"),
        **_standing(status),
    )


@router.get(f"{ONE}/leaving")
def leaving(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show what would leave and its risk, and the form to send it."""
    with desk.round(collaboration_id) as (_, chosen):
        status = chosen.status()
        prepared = chosen.prepared if chosen.directory.holds(Acceptance) else None
        refused = [] if prepared is None else chosen.policy_violations()
        step = next_step(status, chosen.directory)
        is_late = prepared is not None and chosen.party in chosen.terms.late_consumers
    seen = prepared_digest(prepared) if prepared else ""
    result = desk.found(collaboration_id).of("prepare")
    # another table may have been prepared since, at the terminal
    drawn = result if result and result.value.prepared == seen else None
    twin = {
        "prepared": prepared.to_json() if prepared else None,
        "dangers": dangers(prepared) if prepared else [],
        "table": drawn.table if drawn else None,
        "refused": refused,
    }
    return show(
        request,
        "leaving.html",
        twin,
        tab="leaving",
        prepared=prepared,
        refused=refused,
        dangers=dangers(prepared) if prepared else [],
        if_too_much=IF_TOO_MUCH,
        nothing_found=NOTHING_FOUND,
        lines=leaving_in_words(prepared) if prepared else [],
        charts=leaving_charts(prepared) if prepared else [],
        table=drawn.table if drawn else "",
        picture=base64.b64encode(drawn.value.png).decode() if drawn and drawn.value.png else "",
        seen=seen,
        may_send=step.kind == "contribute" and not refused,
        is_empty=prepared is not None and not prepared.table_rows and not is_late,
        loses_signal=prepared is not None and _loses_signal(prepared),
        failed=_failed(desk, collaboration_id, "prepare", "contribute"),
        **_standing(status),
    )


@router.get(f"{ONE}/ledger")
def ledger(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show every step of the round, after it was checked here."""
    with desk.round(collaboration_id) as (_, chosen):
        status = chosen.status()
        _, checked = chosen.fetch_ledger()
    lines = [_line(entry) for entry in checked.entries]
    twin = {"entries": lines, "head": checked.head.hex(), "checked": list(checked.checked)}
    return show(request, "ledger.html", twin, tab="ledger", lines=lines, checked=checked, **_standing(status))


@router.get(f"{ONE}/predict")
def predict(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Ask for a table, and show what the model predicts for it and why."""
    with desk.round(collaboration_id) as (_, chosen):
        status, is_received = chosen.status(), chosen.directory.holds(DownlinkManifest)
        step = next_step(status, chosen.directory)
    known = desk.found(collaboration_id)
    predicted, explained = known.of("predict"), known.of("explain")
    found, why = (one.value if one else None for one in (predicted, explained))
    twin = {
        "predictions": predicted and {"table": predicted.table, **predicted.value.to_json()},
        "explanation": explained and {"table": explained.table, **explained.value.to_json()},
    }
    return show(
        request,
        "predict.html",
        twin,
        tab="predict",
        is_received=is_received,
        said=_said(step),
        needs_parts=step.kind == "combine",
        named=known.predicted or known.rows,
        found=found,
        found_table=predicted.table if predicted else "",
        answers=answers_chart(found.counts) if found and found.counts else None,
        why=why,
        why_table=explained.table if explained else "",
        score=_score_words(why) if why else "",
        falls=_falls(why) if why else [],
        falls_of=FIGURES[why.metric] if why and why.metric else "the score",
        chart=explanation_chart(why) if why else None,
        failed=_failed(desk, collaboration_id, "predict", "explain"),
        **_standing(status),
    )


@router.get(f"{ONE}/card")
def card(request: Request, desk: TheDesk, collaboration_id: str) -> Response:
    """Show the card of the model: what it is, what it is worth, and what was signed."""
    with desk.round(collaboration_id) as (_, chosen):
        status = chosen.status()
        report = None
        with suppress(OdcError):  # the card does without
            report = chosen.report()
        is_received = chosen.directory.holds(DownlinkManifest)
        found = model_card.card_of(chosen.directory, chosen.evaluation, report) if is_received else None
    twin = {"card": found and asdict(found)}
    return show(request, "card.html", twin, tab="card", card=found, **_standing(status))


def result_page(work: Work) -> str:
    """Return the address of the page that shows what came of a piece of work."""
    page = _RESULTS.get(work.kind, "leaving" if work.kind == "contribute" and work.error else "")
    return f"{ROOT}/rounds/{work.collaboration_id}{'/' + page if page else ''}"


def now_values(desk: Desk, chosen: Round) -> dict[str, Any]:
    """Return what the page of a round says of now, and renews by itself."""
    status = chosen.status()
    step = next_step(status, chosen.directory)
    work = desk.last(chosen.id)
    return {
        **_standing(status),
        "tag": _tag(status, step, work),
        "failed": _failed(desk, chosen.id, step.kind) if step.kind in _ON_THE_ROUND else None,
        "next": step,
        "said": _said(step),
        "place": _place(chosen, step),
        "work": work,
        "renews": step.kind == "wait",
    }


def prepared_digest(prepared: Prepared) -> str:
    """Return what names the uplink that a person was shown."""
    return hashlib.sha256(json.dumps(prepared.to_json(), sort_keys=True).encode()).hexdigest()


def _place(chosen: Round, step: NextStep) -> tuple[str, str] | None:
    """Return the page of the next step, and what its button says."""
    if step.kind == "contribute" and chosen.prepared is not None:
        return "leaving", "Look at what would leave, and send it"
    return PLACES.get(step.kind)


def _columns_of(terms: Terms, party: str) -> list[str]:
    """Return the columns that a party's table needs beside the label: of joined rows their key too."""
    group = terms.group_of(party)
    names = [column.name for column in terms.schema_of(party).columns]
    return names if group is None else [group.row_key, *names]


def _said(step: NextStep) -> str:
    """Return the next step for somebody who clicks, and does not type commands."""
    said = {
        "accept": "The terms wait for you to read and sign them.",
        "anchor": "Everybody has signed: as the lead, create the anchor now.",
        "contribute": "It is your turn to send.",
        "receive": "The model is released: fetch it.",
        "predict": "The model is here. Predict for a table on this machine.",
        "combine": f"The model is here. At a terminal: {step.words}.",  # these pages take no files of others
    }
    if step.kind in said:
        return said[step.kind]
    if step.kind == "wait":
        return f"Nothing to do for now: we wait {step.awaited}."
    return f"{step.words[:1].upper()}{step.words[1:]}."


def _standing(status: Status) -> dict[str, Any]:
    you = status["you"]
    ours = next((one for one in status["members"] if you and one["party"] == you["party"]), None)
    return {
        **standing.standing_values(status),
        "has_left": ours is not None and ours["uplink"] == "received",
        "is_over": status["state"] in (State.CANCELLED, State.CLOSED),
    }


def _tag(status: Status, step: NextStep, work: Work | None) -> str:
    """Return the name of a version of what the page of a round says: what moves all the time is no news."""
    members = [
        {name: value for name, value in one.items() if name not in MOVING} for one in status["members"]
    ]
    arrived = [one.get("arrived_bytes") for one in status["members"]]
    shown = [{**status, "members": members}, arrived, asdict(step), work and (work.kind, work.is_over)]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:32]


def _row(session: Session, status: Status) -> dict[str, Any]:
    chosen = session.round(status["collaboration_id"])
    step = next_step(status, chosen.directory)
    return {
        "status": status,
        "standing": standing.standing(status),
        "next": step,
        "said": _said(step),
        "place": _place(chosen, step),
    }


def _who_waits(session: Session) -> list[str]:
    """Return who waits for a certificate, if we are the lead whose key needs no passphrase."""
    if not session.home.root_key_path.exists() or session.home.is_protected():
        return []
    return [one.identity.name for one in waiting_requests(session)[0]]


def _failed(desk: Desk, collaboration_id: str, *kinds: str) -> OdcError | None:
    work = desk.last(collaboration_id)
    return work.error if work is not None and work.kind in kinds else None


def _falls(why: Explanation) -> list[str]:
    """Return how far the score falls without each column, in the unit of the score; empty without labels."""
    metric = why.metric
    if metric is None:
        return [""] * len(why.columns)
    return [
        ""
        if column.importance is None
        else f"{figure(metric, column.importance)} ±{figure(metric, column.importance_spread or 0.0)}"
        for column in why.columns
    ]


def _score_words(why: Explanation) -> str:
    """Return the score of the explained rows as other pages write it; empty without labels."""
    if why.metric is None or why.score is None:
        return ""
    return f"{FIGURES[why.metric]} {figure(why.metric, why.score)}"


def _loses_signal(prepared: Prepared) -> bool:
    least, signal = prepared.least_signal, prepared.signal
    return least is not None and signal is not None and signal.kept < least


def _line(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "index": entry.index,
        "at": entry.at,
        "event": str(entry.event),
        "party": entry.party or "the analyst",
        "state": str(entry.state),
        "digest": entry_digest(entry).hex(),
    }


def _work_json(work: Work | None) -> dict[str, Any] | None:
    return None if work is None else work.to_json()
