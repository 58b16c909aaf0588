"""Downlinks that are not what was released, or not what the client can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fake_analyst import hostile_models
from fake_analyst.between import Answer, Lie, Request
from fake_analyst.client import Step
from fake_analyst.downlink import Downlink, in_parts
from fake_analyst.honest import CLIENT, LATENT_DIM, LEAD
from fake_analyst.scenario import Scenario, Stand
from fake_analyst.scenarios.ledgers import Entries, ledger
from fake_analyst.signers import Signer, Signers, chained
from protocol.ledger import LedgerEntry
from protocol.operations import FETCH_DOWNLINK, SEND_SEEN_LEDGER
from protocol.states import Event

Forge = Callable[[Downlink], Downlink]


@dataclass(frozen=True)
class Forgery:
    """A downlink that takes the place of the true one, and how far the ledger goes along with it."""

    forge: Forge = lambda downlink: downlink
    by: Callable[[Signers], Signer] = lambda signers: signers.analyst
    damage: Callable[[bytes], bytes] = lambda data: data
    """Changes the bytes that were forged, on the way."""
    enters_fetch: bool = True
    """The ledger says that the client has fetched this very downlink."""
    enters_model: bool = False
    """The ledger says that this very model was released, to everybody."""
    rewrite: Callable[[str, Entries], Entries] = field(default=lambda _id, entries: entries)
    """What else the ledger does not show as it was."""

    def lies(self, stand: Stand) -> Sequence[Lie]:
        data: list[bytes] = []
        manifests: list[Downlink] = []

        def change(request: Request, answer: Answer) -> Answer | None:
            if not data:
                if answer.status >= 400 or request.acknowledges:
                    return None
                manifests.append(self.forge(Downlink.read(answer.body)))
                data.append(self.damage(manifests[0].signed(self.by(stand.honest.signers))))
            return in_parts(data[0], request)

        def entered(collaboration_id: str, entries: Entries) -> Entries:
            shown = [self._entered(one, manifests[0]) for one in entries]
            return chained(collaboration_id, self.rewrite(collaboration_id, shown))

        def heard(_request: Request) -> Answer | None:
            return Answer(204, {}) if manifests else None  # as if the ledger that was shown were the true one

        return [
            Lie(FETCH_DOWNLINK, change),
            ledger(stand, entered, when=lambda _: bool(manifests)),
            Lie(SEND_SEEN_LEDGER, instead=heard),
        ]

    def _entered(self, entry: LedgerEntry, shown: Downlink) -> LedgerEntry:
        if self.enters_fetch and (entry.event, entry.party) == (Event.FETCH_DOWNLINK, CLIENT):
            return entry.model_copy(update={"subject": shown.digest})
        if self.enters_model and entry.event is Event.RELEASE:
            return entry.model_copy(update={"subject": shown.manifest.released})
        return entry


def _other_numbers(downlink: Downlink) -> Downlink:
    """Return one with a model that predicts something else: one bit of its weights is another."""
    return downlink.with_model(hostile_models.plain())


def _change(make: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Forge:
    return lambda downlink: downlink.with_change(make(downlink.change))


def _saying(**changes: Any) -> Forge:
    return lambda downlink: downlink.saying(**changes)


def _turned(change: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return change[:, ::-1]  # another orthogonal matrix


def _wider(_change: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.eye(LATENT_DIM + 1)


def _not_a_number(change: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.full_like(change, np.nan)


def _without_release(collaboration_id: str, entries: Entries) -> Entries:
    before = next(number for number, one in enumerate(entries) if one.event is Event.RELEASE)
    return chained(collaboration_id, entries[:before])


def _flipped_in_an_array(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _scenario(
    name: str, does: str, says: str, forgery: Forgery, section: str = "9", *, predicts: bool = False
) -> Scenario:
    return Scenario(
        name=name,
        does=does,
        section=section,
        says=says,
        step=Step.RECEIVE,
        lies=forgery.lies,
        predicts=predicts,
        never=() if predicts else None,  # a client may take it, and refuse to use it
    )


_OWN: Final = "that collaboration, digest of the terms, party and `uplink_digest` are its own"
_RELEASED: Final = "the last `release` MUST be of the model in it"
_FETCHED: Final = "and `fetch downlink` in its own name of its manifest"
_HOLDS: Final = "Nothing is used before every array's digest holds"
_KEY: Final = (
    "MUST refuse what any other key has signed later, unless a person has said that the "
    "analyst has another key"
)
_PROFILE: Final = "A receiver MUST refuse any other before it evaluates a part of it"
_HEX: Final = "0" * 32

SCENARIOS: Final = (
    _scenario(
        "other-model-than-released",
        "signs another model for the client alone; the ledger has the one that was released",
        _RELEASED,
        Forgery(_other_numbers),
        "10",
    ),
    _scenario(
        "other-downlink-than-entered",
        "signs another change of basis for the client than the one whose fetch is in the ledger",
        _FETCHED,
        Forgery(_change(_turned), enters_fetch=False),
        "10",
    ),
    _scenario(
        "skipped-release",
        "sends the downlink of a round whose ledger ends before the release",
        _RELEASED,
        Forgery(rewrite=_without_release),
        "10",
    ),
    _scenario(
        "downlink-of-another-party",
        "sends a downlink that names the lead",
        _OWN,
        Forgery(_saying(party=LEAD)),
    ),
    _scenario(
        "downlink-for-another-uplink",
        "sends a downlink that answers another uplink",
        _OWN,
        Forgery(_saying(uplink_digest=bytes(32))),
    ),
    _scenario(
        "downlink-of-other-terms",
        "sends a downlink of other terms",
        _OWN,
        Forgery(_saying(terms_digest=bytes(32))),
    ),
    _scenario(
        "downlink-of-another-round",
        "sends a downlink of another round",
        _OWN,
        Forgery(_saying(collaboration_id=_HEX)),
    ),
    _scenario(
        "downlink-by-the-lead",
        "sends a downlink that the lead has signed",
        "| DownlinkManifest | `odc/v1/downlink` | analyst | role `analyst`; section 9 |",
        Forgery(by=lambda signers: signers.lead),
        "4",
    ),
    _scenario(
        "downlink-of-another-analyst",
        "sends a downlink that another analyst of the consortium has signed",
        _KEY,
        Forgery(by=lambda signers: signers.other_analyst),
        "3",
    ),
    _scenario(
        "downlink-with-a-wrong-digest",
        "changes the last byte of the model on the way",
        _HOLDS,
        Forgery(damage=_flipped_in_an_array),
    ),
    _scenario(
        "downlink-cut-short",
        "ends the downlink a hundred bytes early, and says that this is all",
        "A stream that ends early is `truncated`",
        Forgery(damage=lambda data: data[:-100]),
    ),
    _scenario(
        "downlink-with-more-than-it-says",
        "sends a hundred bytes behind the last array",
        "It MUST refuse more bytes than the manifest promises (`limit-exceeded`)",
        Forgery(damage=lambda data: data + bytes(100)),
        "8",
    ),
    _scenario(
        "downlink-with-a-giant-manifest",
        "says that the manifest has four gigabytes",
        "A length above 4194304 is `limit-exceeded`",
        Forgery(damage=lambda data: b"\xff\xff\xff\xff" + data[4:]),
    ),
    _scenario(
        "change-of-basis-of-another-shape",
        "sends a change of basis with a row and a column too many, well signed and entered",
        "`change_of_basis` is l x l",
        Forgery(_change(_wider)),
    ),
    _scenario(
        "change-of-basis-that-is-not-finite",
        "sends a change of basis of NaN, well signed and entered",
        "A receiver SHOULD refuse a `change_of_basis` that is not finite, or",
        Forgery(_change(_not_a_number)),
        predicts=True,
    ),
    _scenario(
        "change-of-basis-that-is-not-orthogonal",
        "sends twice the change of basis, well signed and entered",
        "A receiver SHOULD refuse a `change_of_basis` that is not finite, or",
        Forgery(_change(lambda change: 2 * change)),
        predicts=True,
    ),
    *(
        _scenario(
            f"model-{name}",
            does,
            _PROFILE,
            Forgery(lambda downlink, make=make: downlink.with_model(make()), enters_model=True),  # type: ignore[misc]
            predicts=True,
        )
        for name, does, make in hostile_models.MODELS
    ),
)
