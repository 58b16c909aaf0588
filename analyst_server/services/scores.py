"""The scores that institutions send back after the release, for the report that every member reads."""

from __future__ import annotations

from typing import Final

from analyst_server.services.analyst import Analyst, find_as_member, stored_terms
from analyst_server.services.stored import read_stored
from analyst_server.store import ScoreRow, Unit
from protocol.answers import ReportedScore
from protocol.errors import ConsentMissingError, NotPermittedError, OutOfOrderError, TermsMismatchError
from protocol.identity import Identity
from protocol.messages import MemberScore
from protocol.states import State

TAKES_SCORES: Final = (State.RELEASED, State.CLOSED)


def send(analyst: Analyst, sender: Identity, collaboration_id: str, body: bytes) -> None:
    """Store an institution's signed score; a second one takes the place of the first.

    Raises
    ------
    NotPermittedError
        If the score is of another party or collaboration than the sender's.
    NotFoundError
        If the sender is no member of the collaboration.
    TermsMismatchError
        If it is for other terms.
    ConsentMissingError
        If the terms do not let institutions send scores back.
    OutOfOrderError
        Unless the collaboration is released or closed.
    """
    verified = analyst.verify_from(sender, MemberScore, body)
    score, now = verified.message, analyst.clock()
    if (score.collaboration_id, score.party) != (collaboration_id, sender.name):
        raise NotPermittedError(f"{sender.name} sends a score of another party or collaboration")
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        if score.terms_digest != collaboration.terms_digest:
            raise TermsMismatchError("score")
        if not stored_terms(collaboration).returns_scores:
            error = ConsentMissingError("the terms do not let institutions send their scores back")
            error.hint = "agree on terms with returns_scores = true in the next collaboration"
            raise error
        if collaboration.now_in not in TAKES_SCORES:
            raise OutOfOrderError(collaboration.state, "send score")
        unit.put_score(
            ScoreRow(collaboration_id=collaboration_id, party=sender.name, score=body, received_at=now)
        )


def reported(unit: Unit, collaboration_id: str) -> list[ReportedScore]:
    """Return what the members have sent, by party."""
    return [_reported(row) for row in unit.scores(collaboration_id)]


def _reported(row: ScoreRow) -> ReportedScore:
    score = read_stored(MemberScore, row.score, "scores of this collaboration")
    return {
        "party": score.party,
        "rows": score.rows,
        "metric": score.metric,
        "together": score.together,
        "alone": score.alone,
        "gain_low": score.gain_low,
        "gain_high": score.gain_high,
        "received_at": row.received_at,
    }
