"""The cases of checkpoints.json: ledgers as texts, with the signatures under them."""

from __future__ import annotations

import base64
import string
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.vectors import people
from tests.vectors.examples import COLLABORATION, CONSORTIUM, LEDGER, Case
from tests.vectors.ledgers import merkle_root
from tests.vectors.packing import pack

ORIGIN = f"odc-ledger/v1/{COLLABORATION}"
HOSPITAL_URN = f"urn:odc:{CONSORTIUM}:institution:hospital-b"
MALFORMED = "malformed-message"


def _text(entries: Sequence[Any], *, origin: str = ORIGIN) -> str:
    root = base64.b64encode(merkle_root(entries)).decode()
    return f"{origin}\n{len(entries)}\n{root}\n"


def _line(by: people.Person, name: str, text: str, *, key_of: people.Person | None = None) -> str:
    """Return a line of a signature, which may say that it is of another key."""
    public = (key_of or by).key.public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signature = by.key.sign(text.encode(), ec.ECDSA(people.SHA256, deterministic_signing=True))
    return f"\u2014 {name} {base64.b64encode(sha256(der).digest()[:4] + signature).decode()}\n"


def _with_bits_behind(root: str) -> str:
    """Return another base64 text of the same 32 bytes, as a lenient reader takes it."""
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    return f"{root[:-2]}{digits[digits.index(root[-2]) + 1]}="


def checkpoints() -> dict[str, Any]:
    """The content of checkpoints.json."""
    return {
        "collaboration_id": COLLABORATION,
        "entries": [pack(entry).hex() for entry in LEDGER],
        "certificates": {
            "analyst": people.ANALYST.certificate.hex(),
            "hospital-b": people.HOSPITAL.certificate.hex(),
        },
        "notes": [*_notes()],
    }


def _notes() -> Iterator[Case]:
    def case(name: str, text: str, verdict: str, *signed_by: str, **more: Any) -> Case:
        found: dict[str, Any] = {"name": name, "text": text, "verdict": verdict}
        return {**found, "signed_by": [*signed_by], **more} if verdict == "valid" else {**found, **more}

    text = _text(LEDGER)
    mine = _line(people.ANALYST, ORIGIN, text)
    cosigned = _line(people.HOSPITAL, HOSPITAL_URN, text)
    good = f"{text}\n{mine}"
    sizes = {"size": len(LEDGER), "root": merkle_root(LEDGER).hex()}
    yield case("of the whole ledger", good, "valid", "analyst", **sizes)
    yield case("with a cosignature", good + cosigned, "valid", "analyst", "hospital-b", **sizes)
    yield case("a cosignature alone", f"{text}\n{cosigned}", "valid", "hospital-b", **sizes)
    begun = _text(LEDGER[:3])
    yield case("of the beginning", f"{begun}\n{_line(people.ANALYST, ORIGIN, begun)}", "valid", "analyst",
        size=3, root=merkle_root(LEDGER[:3]).hex())  # fmt: skip
    empty = _text([])
    yield case("of no entries", f"{empty}\n{_line(people.ANALYST, ORIGIN, empty)}", "valid", "analyst",
        size=0, root=sha256(b"").hexdigest())  # fmt: skip
    witness = f"\u2014 witness.example/w1 {base64.b64encode(bytes(68)).decode()}\n"
    unknown = f"{text}\n{witness}{mine}"
    yield case("with a line of somebody who is not known", unknown, "valid", "analyst", **sizes)
    stranger = _line(people.SECOND_ANALYST, ORIGIN, text)
    yield case("a line in the analyst's name by another key", good + stranger, "valid", "analyst", **sizes)
    named = _line(people.ANALYST, HOSPITAL_URN, text)
    yield case("a line of the analyst's key in another name", good + named, "valid", "analyst", **sizes)
    yield case("the same line alone", f"{text}\n{named}", "valid", **sizes)
    yield case("two lines, and no line feed at the end", (good + cosigned)[:-1], MALFORMED)
    forged = _line(people.SECOND_ANALYST, ORIGIN, text, key_of=people.ANALYST)
    yield case("a signature by another key than the line says", f"{text}\n{forged}", "bad-signature")
    yield case("the same behind one that holds", good + forged, "bad-signature")
    elsewhere = _line(people.ANALYST, ORIGIN, begun)
    yield case("a signature of another text", f"{text}\n{elsewhere}", "bad-signature")
    yield from _spoilt(case, text, mine)


def _spoilt(case: Any, text: str, mine: str) -> Iterator[Case]:
    """Texts that are no checkpoint."""
    good = f"{text}\n{mine}"
    first, size, root, _ = text.split("\n")
    for name, spoilt in [
        ("nothing", ""),
        ("no signature", f"{text}\n"),
        ("no empty line", text + mine),
        ("another version", good.replace("odc-ledger/v1", "odc-ledger/v2")),
        ("an id in capitals", good.replace(COLLABORATION, COLLABORATION.upper())),
        ("a leading zero", f"{first}\n0{size}\n{root}\n\n{mine}"),
        ("a length below zero", f"{first}\n-{size}\n{root}\n\n{mine}"),
        ("a root of 31 bytes", f"{first}\n{size}\n{base64.b64encode(bytes(31)).decode()}\n\n{mine}"),
        ("a root with bits behind its last byte", f"{first}\n{size}\n{_with_bits_behind(root)}\n\n{mine}"),
        ("an extension line", f"{first}\n{size}\n{root}\nextension\n\n{mine}"),
        ("a hyphen for the dash", good.replace("\u2014", "-")),
        ("no line feed at the end", good[:-1]),
        ("a line behind the signatures that is none", good + "more\n"),
        ("lines that end in CR LF", good.replace("\n", "\r\n")),
        ("a byte order mark", "\ufeff" + good),
        ("a name with a plus sign", good.replace(f"\u2014 {ORIGIN}", f"\u2014 {ORIGIN}+a")),
        ("a name with a space", good.replace(f"\u2014 {ORIGIN}", f"\u2014 {ORIGIN} a")),
    ]:
        yield case(name, spoilt, MALFORMED)
    whole = [good.encode().hex(), 1]
    yield {"name": "too long", "parts": [whole, ["61", 1048576]], "verdict": "limit-exceeded"}
    yield {"name": "no UTF-8", "parts": [["fffe", 1], whole], "verdict": MALFORMED}
