"""The cases of judged.json: at which time a certificate has to hold, by what is verified.

docs/protocol.md, "When a signature is judged". Everybody has the key that `people` gives, and a certificate
that ends earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from tests.vectors import people
from tests.vectors.examples import (
    ACCEPTANCE,
    DOWNLINK,
    LEDGER_HEAD,
    RECEIPT,
    SEALED_ANCHOR,
    SEED,
    TERMS,
    UPLINK,
    Case,
)
from tests.vectors.pinned import SEEN_LEDGER
from tests.vectors.received import for_us, sealed

END: Final = int(datetime(2029, 1, 1, tzinfo=UTC).timestamp())
"""When the certificates end that have ended at `people.AT`."""
APART_S: Final = 300
REFUSED, REVOKED = "certificate-refused", "certificate-revoked"
_KEPT: Final[list[tuple[str, str, str, dict[str, Any]]]] = [
    ("Terms", "odc/v1/terms", "analyst", TERMS),
    ("Acceptance", "odc/v1/acceptance", "hospital-b", ACCEPTANCE),
    ("SealedAnchor", "odc/v1/sealed-anchor", "hospital-a",
        {**SEALED_ANCHOR, "ciphertext": sealed(SEED, for_us())}),
    ("UplinkManifest", "odc/v1/uplink", "hospital-b", UPLINK),
    ("Receipt", "odc/v1/receipt", "analyst", RECEIPT),
    ("DownlinkManifest", "odc/v1/downlink", "analyst", DOWNLINK),
]  # fmt: skip
_ROLES: Final = {
    "analyst": ("analyst", people.ANALYST),
    "hospital-a": ("lead", people.LEAD),
    "hospital-b": ("institution", people.HOSPITAL),
}
_SERIALS: Final = {"analyst": 7202, "hospital-a": 7204, "hospital-b": 7205}


def _until(name: str, ends: datetime) -> people.Person:
    """Return the person of this name, with a certificate that ends then."""
    role, person = _ROLES[name]
    public, names = person.key.public_key(), [people.urn(role, name)]
    return people.Person(person.key, people.certificate(public, names, _SERIALS[name], ends=ends))


_ENDED: Final = {name: _until(name, datetime.fromtimestamp(END, UTC)) for name in _ROLES}
_TOO_EARLY: Final = int(people.NOT_BEFORE.timestamp()) - 1


def messages() -> Iterator[Case]:
    """Messages with the way in which the receiver has them, and what it makes of them at a time."""

    def case(
        name: str,
        kind: str,
        label: str,
        by: people.Person,
        message: dict[str, Any],
        verdict: str,
        *,
        held: str = "kept",
        at: int = people.AT,
        entered_at: int | None = None,
        revocations: bytes | None = None,
    ) -> Case:
        return {
            "name": name,
            "kind": kind,
            "held": held,
            "at": at,
            "entered_at": entered_at,
            "revocations": None if revocations is None else revocations.hex(),
            "hex": by.sign(label, message).hex(),
            "verdict": verdict,
        }

    for kind, label, name, message in _KEPT:
        what = f"{kind}, kept"
        yield case(f"{what}, the certificate has ended", kind, label, _ENDED[name], message, "valid")
        yield case(f"{kind}, sent by its author", kind, label, _ENDED[name], message, REFUSED, held="sent")
    analyst, other = _ENDED["analyst"], people.revocations(5, 201)
    for kind, label, name, message in (_KEPT[0], _KEPT[1], _KEPT[4]):
        by, mine = _ENDED[name], people.revocations(5, _SERIALS[name])
        yield case(f"{kind}, revoked since", kind, label, by, message, REVOKED, revocations=mine)
        yield case(f"{kind}, another is revoked", kind, label, by, message, "valid", revocations=other)
    receipt = ("Receipt", "odc/v1/receipt", analyst, RECEIPT)
    yield case("before the certificate begins", *receipt, REFUSED, at=_TOO_EARLY)
    yield case("sent in the last second", *receipt, "valid", held="sent", at=END)
    yield case("sent a second after the end", *receipt, REFUSED, held="sent", at=END + 1)
    acceptance = (*_KEPT[1][:2], _ENDED["hospital-b"], ACCEPTANCE)
    for what, given in (("Receipt", receipt), ("Acceptance", acceptance)):
        for name, entered_at, verdict in [
            ("long before the end", END - 10_000_000, "valid"),
            ("at the end", END, "valid"),
            ("300 seconds after the end", END + APART_S, "valid"),
            ("301 seconds after the end", END + APART_S + 1, REFUSED),
        ]:
            yield case(f"{what}, its entry {name}", *given, verdict, entered_at=entered_at)
    still = ("Receipt", "odc/v1/receipt", people.ANALYST, RECEIPT)
    yield case("its entry in the time of a certificate that holds", *still, "valid", entered_at=END)
    yield from _heads(case)


def _heads(case: Any) -> Iterator[Case]:
    """Heads of an answer, which are judged now, and of a file, which are judged by their own time."""
    label, analyst = "odc/v1/ledger-head", _ENDED["analyst"]
    for name, by, at, held, verdict in [
        ("in an answer", people.ANALYST, END, "sent", "valid"),
        ("in an answer, the certificate has ended", analyst, END, "sent", REFUSED),
        ("in a file, signed at the end", analyst, END, "filed", "valid"),
        ("in a file, signed 300 seconds after the end", analyst, END + APART_S, "filed", "valid"),
        ("in a file, signed 301 seconds after the end", analyst, END + APART_S + 1, "filed", REFUSED),
    ]:
        yield case(f"a head {name}", "LedgerHead", label, by, {**LEDGER_HEAD, "at": at}, verdict, held=held)
    seen = ("SeenLedger", "odc/v1/seen-ledger", _ENDED["hospital-b"], SEEN_LEDGER)
    yield case("what a member sends about its ledger", *seen, REFUSED, held="sent")


def connections() -> Iterator[Case]:
    """Certificates of whoever connects."""
    held, ended = people.HOSPITAL.certificate, _ENDED["hospital-b"].certificate
    for name, der, at, verdict in [
        ("a certificate that holds", held, people.AT, "valid"),
        ("one that has ended", ended, people.AT, REFUSED),
        ("the same in its last second", ended, END, "valid"),
        ("the same a second later", ended, END + 1, REFUSED),
    ]:
        yield {"name": name, "at": at, "hex": der.hex(), "verdict": verdict}


def judged() -> dict[str, Any]:
    """The content of judged.json."""
    return {"root": people.ROOT_PEM, "messages": [*messages()], "connections": [*connections()]}
