"""Requests for certificates, and lists of revoked ones: the questions of a transaction about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy import delete, func, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from analyst_server.store.questions import Questions
from analyst_server.store.tables import Enrolled, EnrolledState, Member, Revocations

_AT_ONCE: Final = 100
_IS_OPEN = (Enrolled.certificate.is_(None), Enrolled.rejected.is_(None))


class Enrolments(Questions):
    """The questions of a transaction about requests for certificates and revocation lists."""

    def enrolment(self, invitation_id: str) -> Enrolled | None:
        return self._get(Enrolled, invitation_id)

    def open_enrolments(self, after: tuple[int, str], most: int) -> list[EnrolledState]:
        """Return requests without an answer, oldest first, from the first after a time and an id on."""
        query = (
            select(
                Enrolled.invitation_id,
                Enrolled.kind,
                Enrolled.role,
                Enrolled.party,
                Enrolled.created_at,
                func.length(Enrolled.request),
            )
            .where(*_IS_OPEN, tuple_(Enrolled.created_at, Enrolled.invitation_id) > after)
            .order_by(Enrolled.created_at, Enrolled.invitation_id)
            .limit(most)
        )
        return [EnrolledState(*row) for row in self._session.execute(query)]

    def acceptances_with(self, party: str) -> Iterator[bytes]:
        """Return every acceptance in the collaborations of a party, read as they are asked for."""
        own = select(Member.collaboration_id).where(Member.party == party)
        query = select(Member.acceptance).where(
            Member.collaboration_id.in_(own), Member.acceptance.is_not(None)
        )
        return (acceptance for acceptance in self._session.scalars(query) if acceptance is not None)

    def requests_of(self, invitation_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the requests of a page by their ids; one that was replaced meanwhile is missing."""
        query = select(Enrolled.invitation_id, Enrolled.request).where(
            Enrolled.invitation_id.in_(invitation_ids)
        )
        return {row.invitation_id: row.request for row in self._session.execute(query)}

    def open_renewals(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield role, party and request of whoever waits for a renewal; few of them are in memory at once."""
        query = select(Enrolled.role, Enrolled.party, Enrolled.request).where(
            *_IS_OPEN, Enrolled.kind == "renewal"
        )
        for row in self._session.execute(query.execution_options(yield_per=_AT_ONCE)):
            yield row.role, row.party, row.request

    def enrolled_parties(self) -> set[str]:
        """Return who has asked for a certificate with an invitation of the lead's."""
        return set(self._session.scalars(select(Enrolled.party).distinct()))

    def issued_certificates(self) -> list[bytes]:
        """Return the certificates that the lead has issued (PEM)."""
        query = select(Enrolled.certificate).where(Enrolled.certificate.is_not(None))
        return [certificate for certificate in self._session.scalars(query) if certificate is not None]

    def count_pending(self) -> int:
        """Return how many requests have no answer, without reading them."""
        return self._session.scalar(select(func.count()).where(*_IS_OPEN)) or 0

    def forget_unissued(self, role: str, party: str) -> None:
        """Delete the requests of a party that have no certificate."""
        self._session.execute(
            delete(Enrolled).where(
                Enrolled.certificate.is_(None), Enrolled.role == role, Enrolled.party == party
            )
        )

    def revocations(self) -> Revocations | None:
        """Return the newest revocation list."""
        return self._session.scalars(select(Revocations).order_by(Revocations.number.desc())).first()

    def keep_revocations(self, row: Revocations) -> Revocations:
        """Store a revocation list, unless there is one with its number; return the newest.

        Of two transactions with the same number one stores its list, and the other is given that.
        """
        values = {"number": row.number, "der": row.der, "received_at": row.received_at}
        with suppress(IntegrityError), self._session.begin_nested():
            self._session.execute(insert(Revocations).values(**values))
        return self.revocations() or row
