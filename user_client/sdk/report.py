"""What the analyst reports of a round to a member."""

from __future__ import annotations

from collections.abc import Callable

from protocol.answers import MemberReport, Status
from protocol.operations import COLLABORATION_REPORT
from runtime.waiting import look_until
from user_client.sdk.answers import report_in
from user_client.sdk.downlink import UNDER_WAY
from user_client.sdk.session import Session


def fetch_report(
    session: Session, collaboration_id: str, *, wait_s: float, pause: Callable[[float], None]
) -> MemberReport:
    """Return the report once the model is judged, or as it is after ``wait_s`` seconds."""
    if wait_s > 0:
        status = session.watch(collaboration_id).until(_is_judged, wait_s=wait_s, pause=pause)
        wait_s = 0 if "judging" in status else wait_s  # an earlier version says it in its report alone

    def look() -> MemberReport:
        answer = session.connection.ask_json(COLLABORATION_REPORT, collaboration_id=collaboration_id)
        return report_in(answer)

    return look_until(_is_settled, look, wait_s=wait_s, pause=pause)


def _is_judged(status: Status) -> bool:
    return "judging" not in status or not (status["state"] in UNDER_WAY or status["judging"])


def _is_settled(report: MemberReport) -> bool:
    judgement = (report["results"] or {}).get("judgement") or {}
    return report["state"] not in UNDER_WAY and not judgement.get("is_pending")
