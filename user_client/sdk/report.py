"""What the analyst reports of a round to a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from protocol.operations import COLLABORATION_REPORT, MemberReport
from runtime.waiting import look_until
from user_client.sdk.downlink import UNDER_WAY
from user_client.sdk.session import Session


def fetch_report(
    session: Session, collaboration_id: str, *, wait_s: float, pause: Callable[[float], None]
) -> MemberReport:
    """Return the report once the model is judged, or as it is after ``wait_s`` seconds."""

    def look() -> MemberReport:
        answer = session.connection.ask_json(COLLABORATION_REPORT, collaboration_id=collaboration_id)
        return cast("MemberReport", answer)

    return look_until(_is_settled, look, wait_s=wait_s, pause=pause)


def _is_settled(report: MemberReport) -> bool:
    judgement = (report["results"] or {}).get("judgement") or {}
    return report["state"] not in UNDER_WAY and not judgement.get("is_pending")
