"""How many of what there is: the questions of a transaction for those who watch the whole server."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import distinct, exists, func, select
from sqlalchemy.orm import aliased

from analyst_server.store.questions import Questions
from analyst_server.store.tables import Collaboration, Enrolled, Uplink


class InState(NamedTuple):
    """The collaborations in one state."""

    collaborations: int
    unchanged_since: int
    """When the one that has not changed for longest took its last step, in unix seconds."""


class Overview(Questions):
    """The questions of a transaction about all collaborations together."""

    def by_state(self) -> dict[str, InState]:
        """Return how many collaborations are in each state that any is in."""
        query = select(Collaboration.state, func.count(), func.min(Collaboration.updated_at)).group_by(
            Collaboration.state
        )
        return {state: InState(count, since) for state, count, since in self._session.execute(query)}

    def count_unfinished_uplinks(self, states: Collection[str]) -> int:
        """Return how many parties of collaborations in some states have an unfinished uplink."""
        complete = aliased(Uplink)
        query = (
            select(func.count(distinct(Uplink.collaboration_id + "/" + Uplink.party)))
            .join(Collaboration, Collaboration.id == Uplink.collaboration_id)
            .where(
                Collaboration.state.in_(states),
                ~exists().where(
                    complete.collaboration_id == Uplink.collaboration_id,
                    complete.party == Uplink.party,
                    complete.receipt.is_not(None),
                ),
            )
        )
        return self._session.scalar(query) or 0

    def count_open_enrolments(self) -> int:
        """Return how many requests for certificates wait for the lead institution."""
        query = select(func.count()).where(Enrolled.certificate.is_(None), Enrolled.rejected.is_(None))
        return self._session.scalar(query) or 0
