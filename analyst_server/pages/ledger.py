"""The ledger of a collaboration for people: every step, and the digest that the next one stands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.codec import decode
from protocol.envelope import decode_stored
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, entry_digest


@dataclass(frozen=True)
class Line:
    """One step."""

    index: int
    at: int
    event: str
    party: str
    state: str
    digest: str


@dataclass(frozen=True)
class Steps:
    """Some steps of a ledger, and what the analyst has signed of all."""

    lines: Sequence[Line]
    length: int
    head: str

    @property
    def next(self) -> int | None:
        """Return the number of the first step that is not shown, if there is one."""
        after = self.lines[-1].index + 1 if self.lines else 0
        return after if self.lines and after < self.length else None


def steps_of(body: bytes, most: int) -> Steps:
    """Return the first steps of a page of the ledger as the REST API answers it."""
    page = decode(LedgerPage, body)
    head = decode_stored(LedgerHead, page.head)
    return Steps([_line(entry) for entry in page.entries[:most]], head.length, head.digest.hex())


def _line(entry: LedgerEntry) -> Line:
    digest = entry_digest(entry).hex()
    return Line(
        entry.index, entry.at, str(entry.event), entry.party or "the analyst", str(entry.state), digest
    )
