"""Receipts that are not for what was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fake_analyst.between import Answer, Lie, Request, with_body
from fake_analyst.client import Step
from fake_analyst.honest import CLIENT, LEAD
from fake_analyst.scenario import Scenario, Stand
from fake_analyst.scenarios.ledgers import Entries, ledger
from fake_analyst.signers import Signer, Signers
from protocol.envelope import decode_stored
from protocol.messages import Receipt
from protocol.operations import APPEND
from protocol.states import Event


def _receipt(
    by: Callable[[Signers], Signer] = lambda signers: signers.analyst, **changes: Any
) -> Callable[[Stand], Sequence[Lie]]:
    """Return a lie about the receipt; the uplink itself is stored."""

    def lies(stand: Stand) -> Sequence[Lie]:
        def change(_request: Request, answer: Answer) -> Answer | None:
            if answer.status != 200:
                return None
            said = decode_stored(Receipt, answer.body).model_copy(update=changes)
            return with_body(answer, by(stand.honest.signers).sign(said))

        return [Lie(APPEND, change)]

    return lies


def _is_received(entries: Entries) -> bool:
    return any((one.event, one.party) == (Event.ACCEPT_UPLINK, CLIENT) for one in entries)


def _without_its_uplink(_id: str, entries: Entries) -> Entries:
    number = next(
        i for i, one in enumerate(entries) if (one.event, one.party) == (Event.ACCEPT_UPLINK, CLIENT)
    )
    return entries[:number]


def _scenario(
    name: str, does: str, says: str, lies: Callable[[Stand], Sequence[Lie]], section: str = "4"
) -> Scenario:
    return Scenario(
        name=name, does=does, section=section, says=says, step=Step.CONTRIBUTE, lies=lies, never=()
    )


_DIGEST: Final = "role `analyst`; the digest of the manifest that was sent"
_SIGNED: Final = "Only a receipt with a valid signature says that the uplink is durable"
_OWN_ENTRY: Final = (
    "A member MUST find its own Receipt at `ledger_index`, with `ledger_digest`, its name "
    "and its `uplink_digest`"
)

SCENARIOS: Final = (
    _scenario(
        "receipt-for-another-digest",
        "signs a receipt for another uplink",
        _DIGEST,
        _receipt(uplink_digest=bytes(32)),
    ),
    _scenario(
        "receipt-for-another-party", "signs a receipt for the lead", _OWN_ENTRY, _receipt(party=LEAD), "10"
    ),
    _scenario(
        "receipt-by-the-lead",
        "sends a receipt that the lead has signed",
        _SIGNED,
        _receipt(lambda signers: signers.lead),
        "11",
    ),
    _scenario(
        "receipt-of-another-analyst",
        "sends a receipt that another analyst of the consortium has signed",
        "MUST refuse what any other key has signed later, unless a person has said that the "
        "analyst has another key",
        _receipt(lambda signers: signers.other_analyst),
        "3",
    ),
    _scenario(
        "receipt-at-another-entry",
        "signs a receipt that names the first entry of the ledger",
        _OWN_ENTRY,
        _receipt(ledger_index=0),
        "10",
    ),
    _scenario(
        "receipt-without-its-entry",
        "signs a receipt, and shows a ledger without the uplink",
        _OWN_ENTRY,
        lambda stand: [ledger(stand, _without_its_uplink, when=_is_received)],
        "10",
    ),
)
