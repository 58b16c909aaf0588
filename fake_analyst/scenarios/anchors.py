"""Sealed anchors that are not the client's own, or not what the lead has committed to."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from fake_analyst.between import Answer, Lie, Request, with_body
from fake_analyst.client import Step
from fake_analyst.honest import LEAD, Honest
from fake_analyst.scenario import Scenario, Stand
from protocol.envelope import decode_stored, seed_commitment
from protocol.messages import SealedAnchor
from protocol.operations import FETCH_ANCHOR

Make = Callable[[Honest, SealedAnchor], bytes]


def _of_the_lead(honest: Honest, anchor: SealedAnchor) -> bytes:
    with honest.analyst.records.begin() as unit:
        member = unit.member(anchor.collaboration_id, LEAD)
    return (member.sealed_anchor if member is not None else None) or b""


def _for_the_lead(honest: Honest, anchor: SealedAnchor) -> bytes:
    """Return one that opens with the client's key, and says that it is for the lead."""
    return honest.signers.lead.sign(anchor.model_copy(update={"recipient": LEAD}))


def _of_another_commitment(honest: Honest, anchor: SealedAnchor) -> bytes:
    other = seed_commitment(secrets.token_bytes(32))
    return honest.signers.lead.sign(anchor.model_copy(update={"commitment": other}))


def _of_the_analyst(honest: Honest, anchor: SealedAnchor) -> bytes:
    return honest.signers.analyst.sign(honest.sealed_for_client(anchor, secrets.token_bytes(32)))


def _of_other_terms(honest: Honest, anchor: SealedAnchor) -> bytes:
    return honest.signers.lead.sign(anchor.model_copy(update={"terms_digest": bytes(32)}))


def _of_another_round(honest: Honest, anchor: SealedAnchor) -> bytes:
    return honest.signers.lead.sign(anchor.model_copy(update={"collaboration_id": "0" * 32}))


def _too_short(honest: Honest, anchor: SealedAnchor) -> bytes:
    return honest.signers.lead.sign(honest.sealed_for_client(anchor, secrets.token_bytes(16)))


def _changed_on_the_way(honest: Honest, anchor: SealedAnchor) -> bytes:
    changed = anchor.ciphertext[:-1] + bytes([anchor.ciphertext[-1] ^ 1])
    return honest.signers.lead.sign(anchor.model_copy(update={"ciphertext": changed}))


def _unlike_the_ledgers(honest: Honest, anchor: SealedAnchor) -> bytes:
    return honest.signers.lead.sign(honest.sealed_for_client(anchor, secrets.token_bytes(32)))


def _scenario(name: str, does: str, says: str, make: Make, section: str = "7") -> Scenario:
    def lie(stand: Stand) -> list[Lie]:
        def change(_request: Request, answer: Answer) -> Answer:
            return with_body(answer, make(stand.honest, decode_stored(SealedAnchor, answer.body)))

        return [Lie(FETCH_ANCHOR, change)]

    return Scenario(name=name, does=does, section=section, says=says, step=Step.CONTRIBUTE, lies=lie)


_OWN: Final = (
    "A recipient MUST check: `recipient` is itself; collaboration and digest are those of the terms it signed"
)
_SEED: Final = "the plaintext is 32 bytes long and hashes to `commitment`"

SCENARIOS: Final = (
    _scenario("anchor-swapped", "sends the anchor that is sealed for the lead", _OWN, _of_the_lead),
    _scenario("anchor-for-another", "sends an anchor that names another recipient", _OWN, _for_the_lead),
    _scenario("anchor-of-other-terms", "sends an anchor for other terms", _OWN, _of_other_terms),
    _scenario("anchor-of-another-round", "sends an anchor of another round", _OWN, _of_another_round),
    _scenario(
        "anchor-of-another-commitment",
        "sends an anchor with the commitment to another seed, signed by the lead",
        _SEED,
        _of_another_commitment,
    ),
    _scenario("anchor-too-short", "sends a sealed seed of 16 bytes, signed by the lead", _SEED, _too_short),
    _scenario(
        "anchor-that-does-not-open",
        "flips a bit of what is sealed",
        "A ciphertext that does not open, for whatever reason, is `seal-broken`",
        _changed_on_the_way,
    ),
    _scenario(
        "anchor-of-the-analysts-own",
        "seals a seed that it knows to the client, and signs that itself",
        "role `lead`, the author's name is the lead of the terms; recipient; digest of the terms",
        _of_the_analyst,
        "4",
    ),
    _scenario(
        "anchor-unlike-the-ledgers",
        "sends an anchor of the lead whose commitment is not the one in the ledger",
        "SHOULD find the digests of all else it has signed or was sent",
        _unlike_the_ledgers,
        "10",
    ),
)
