"""What a scenario is: a lie, the words of docs/protocol.md it tries, and how an honest client ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from analyst_server.services.views import ledger_page
from fake_analyst.between import Lie, Noted
from fake_analyst.client import Ran, Step
from fake_analyst.honest import Honest
from protocol.codec import decode
from protocol.ledger import LedgerEntry, LedgerPage
from protocol.operations import (
    ACCEPT_TERMS,
    APPEND,
    BEGIN_UPLINK,
    FETCH_DOWNLINK,
    REQUEST_CERTIFICATE,
    SEND_SEEN_LEDGER,
    Operation,
)

NEXT: Final[dict[Step, tuple[Operation, ...]]] = {
    Step.JOIN: (REQUEST_CERTIFICATE,),
    Step.ACCEPT: (ACCEPT_TERMS,),
    Step.CONTRIBUTE: (BEGIN_UPLINK, APPEND),
    Step.RECEIVE: (FETCH_DOWNLINK, SEND_SEEN_LEDGER),
}
"""What a client must not send once it was lied to in a step; of `FETCH_DOWNLINK` the
acknowledgement alone."""


@dataclass(frozen=True)
class Stand:
    """Where a scenario begins: a round that everybody has played honestly so far."""

    honest: Honest
    id: str

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The true ledger, as it is now."""
        return decode(LedgerPage, ledger_page(self.honest.analyst, None, self.id, 0)).entries


@dataclass(frozen=True)
class Tried:
    """What a client has done in a scenario."""

    ran: Sequence[Ran]
    noted: Sequence[Noted]

    @property
    def last(self) -> Ran:
        return self.ran[-1]

    @property
    def after(self) -> list[Noted]:
        """What it has sent after the first lie."""
        first = next((number for number, one in enumerate(self.noted) if one.lied), len(self.noted))
        return list(self.noted[first + 1 :])


@dataclass(frozen=True)
class Scenario:
    """One way in which the analyst lies or stumbles."""

    name: str
    does: str
    """What the analyst does, in a sentence without subject."""
    section: str
    """Of docs/protocol.md."""
    says: str
    """Its words that are tried, as they stand there."""
    step: Step
    lies: Callable[[Stand], Sequence[Lie]] = lambda _stand: ()
    ends: Literal["refuses", "succeeds"] = "refuses"
    never: tuple[Operation, ...] | None = None
    """What must not be sent after the lie; None: what comes next in the step."""
    by: Step | None = None
    """The command that is run, where it is not that of the step."""
    if_asked: bool = False
    """A client that never asks for what is lied about does right as well."""
    refreshes: bool = False
    """The client is asked to fetch the revocation list first, if that is a command of its own."""
    predicts: bool = False
    """If it takes what came, it is asked to predict, and may refuse then."""
    judge: Callable[[Tried], str] | None = None
    """Says what else is wrong; empty for nothing."""

    @property
    def binds(self) -> bool:
        """Whether the document obliges a client to it; else it advises."""
        return "SHOULD" not in self.says

    @property
    def forbidden(self) -> tuple[Operation, ...]:
        return NEXT[self.step] if self.never is None else self.never
