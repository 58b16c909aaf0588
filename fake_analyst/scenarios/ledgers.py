"""Ledgers that do not hold, before any row is sent; the client has seen that of when it accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fake_analyst.between import Answer, Lie, Request, with_body
from fake_analyst.client import Step
from fake_analyst.scenario import Scenario, Stand
from fake_analyst.signers import Signer, Signers, chained, page
from protocol.ledger import LedgerEntry
from protocol.operations import FETCH_LEDGER
from protocol.states import Event, State

Entries = Sequence[LedgerEntry]
Rewrite = Callable[[str, Entries], Entries]
"""Takes the id of the round and the true entries, and returns those that are shown."""


def ledger(
    stand: Stand,
    rewrite: Rewrite,
    *,
    by: Callable[[Signers], Signer] = lambda signers: signers.analyst,
    promised: int = 0,
    when: Callable[[Entries], bool] = lambda _entries: True,
) -> Lie:
    """Return a lie that shows what is made of the true ledger, under a signed head.

    ``promised`` more entries than are shown are in the head. ``when`` says of the true ledger
    whether it is lied about yet.
    """

    def change(request: Request, answer: Answer) -> Answer | None:
        true = stand.entries
        if not when(true):
            return None
        told = rewrite(stand.id, true)
        signer = by(stand.honest.signers)
        return with_body(answer, page(stand.id, told, request.start, signer, promised=promised))

    return Lie(FETCH_LEDGER, change)


def _true(_id: str, entries: Entries) -> Entries:
    return entries


def _forked(collaboration_id: str, entries: Entries) -> Entries:
    first = entries[0].model_copy(update={"at": entries[0].at - 1})
    return chained(collaboration_id, [first, *entries[1:]])


def _cut_short(_id: str, entries: Entries) -> Entries:
    return entries[:1]


def _broken(_id: str, entries: Entries) -> Entries:
    return [*entries[:-1], entries[-1].model_copy(update={"previous": bytes(32)})]


def _misnumbered(_id: str, entries: Entries) -> Entries:
    return [*entries[:-1], entries[-1].model_copy(update={"index": entries[-1].index + 1})]


def _impossible(collaboration_id: str, entries: Entries) -> Entries:
    last = entries[-1].model_copy(update={"event": Event.RELEASE, "state": State.RELEASED})
    return chained(collaboration_id, [*entries[:-1], last])


def _received_twice(collaboration_id: str, entries: Entries) -> Entries:
    return chained(collaboration_id, [*entries, entries[-1]])


def _scenario(name: str, does: str, says: str, lies: Callable[[Stand], Lie], section: str = "10") -> Scenario:
    return Scenario(
        name=name,
        does=does,
        section=section,
        says=says,
        step=Step.CONTRIBUTE,
        lies=lambda stand: [lies(stand)],
    )


SCENARIOS: Final = (
    _scenario(
        "forked-ledger",
        "shows the client a history of its own: all steps, the first a second earlier, well "
        "chained and signed",
        "refuse one that does not begin with it or is shorter",
        lambda stand: ledger(stand, _forked),
    ),
    _scenario(
        "ledger-cut-short",
        "shows the first entry of the ledger alone, under a head that says there is no more",
        "refuse one that does not begin with it or is shorter",
        lambda stand: ledger(stand, _cut_short),
    ),
    _scenario(
        "ledger-with-fewer-entries-than-its-head",
        "promises three more entries in the head than it ever shows",
        "and that the head is signed and is the digest of the entry it names as the last",
        lambda stand: ledger(stand, _true, promised=3),
    ),
    _scenario(
        "ledger-with-a-broken-chain",
        "changes what the last entry says of the one before",
        "(2) each names the digest of the one before",
        lambda stand: ledger(stand, _broken),
    ),
    _scenario(
        "ledger-misnumbered",
        "leaves out a number",
        "(1) entries are numbered from 0",
        lambda stand: ledger(stand, _misnumbered),
    ),
    _scenario(
        "ledger-with-an-impossible-step",
        "shows a release while uplinks are still collected",
        "(3) each event leads from the state before to its state, beginning in `draft`",
        lambda stand: ledger(stand, _impossible),
    ),
    _scenario(
        "ledger-with-two-uplinks-of-a-party",
        "shows that the lead's uplink was accepted twice",
        "(4) a party's uplink is accepted once",
        lambda stand: ledger(stand, _received_twice),
    ),
    _scenario(
        "ledger-by-the-lead",
        "shows the true ledger under a head that the lead has signed",
        "| LedgerHead | `odc/v1/ledger-head` | analyst | role `analyst`; section 10 |",
        lambda stand: ledger(stand, _true, by=lambda signers: signers.lead),
        "4",
    ),
    _scenario(
        "ledger-by-another-analyst",
        "shows the true ledger under a head that another analyst of the consortium has signed",
        "MUST refuse what any other key has signed later, unless a person has said that the "
        "analyst has another key",
        lambda stand: ledger(stand, _true, by=lambda signers: signers.other_analyst),
        "3",
    ),
)
