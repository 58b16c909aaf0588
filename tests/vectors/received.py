"""The cases of received.json: what a member is sent, and whether it may believe that."""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tests.vectors import people
from tests.vectors.examples import (
    CHANGE_OF_BASIS,
    COLLABORATION,
    COMMITMENT,
    CONSORTIUM,
    LEDGER_HEAD,
    PREDICTIONS_DOWNLINK,
    RECEIPT,
    SEALED_ANCHOR,
    SEED,
    TERMS,
    TERMS_2,
    TERMS_DIGEST,
    UPLINK_DIGEST,
    Case,
    array,
    array_stream,
)
from tests.vectors.examples import DOWNLINK as DOWNLINK_OF_EXAMPLES
from tests.vectors.packing import pack, runs

ELSEWHERE = "f" * 32
MODEL = b"\x07" * 70_000
"""Not a model, but two chunks that are written down as runs."""
DOWNLINK = {**DOWNLINK_OF_EXAMPLES, "arrays": [
    DOWNLINK_OF_EXAMPLES["arrays"][0], array("model", "u1", (len(MODEL),), MODEL)]}  # fmt: skip
SEALING_KEY = bytes(range(64, 96))
EPHEMERAL_KEY = bytes(range(128, 160))
_SUITES = (b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\x01"
    return hmac.digest(key, labelled, "sha256")[:length]


def _extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def sealed(plaintext: bytes, info: bytes) -> bytes:
    """Seal for `SEALING_KEY` by RFC 9180 (suite x25519), with the ephemeral key that is given."""
    kem, hpke = _SUITES
    own = X25519PrivateKey.from_private_bytes(EPHEMERAL_KEY)
    recipient = X25519PrivateKey.from_private_bytes(SEALING_KEY).public_key().public_bytes_raw()
    encapsulated = own.public_key().public_bytes_raw()
    agreed = own.exchange(X25519PublicKey.from_public_bytes(recipient))
    prk = _extract(kem, b"", b"eae_prk", agreed)
    shared = _expand(kem, prk, b"shared_secret", encapsulated + recipient, 32)
    context = b"\x00" + _extract(hpke, b"", b"psk_id_hash", b"") + _extract(hpke, b"", b"info_hash", info)
    secret = _extract(hpke, shared, b"secret", b"")
    key, nonce = (
        _expand(hpke, secret, b"key", context, 32),
        _expand(hpke, secret, b"base_nonce", context, 12),
    )
    return encapsulated + ChaCha20Poly1305(key).encrypt(nonce, plaintext, b"")


def for_us(collaboration: str = COLLABORATION, recipient: str = "hospital-b") -> bytes:
    return b"odc/v1/sealed-anchor\0" + collaboration.encode() + TERMS_DIGEST + recipient.encode()


def key_digest(person: people.Person) -> str:
    """SHA-256 of a person's key (DER, SubjectPublicKeyInfo), as terms have it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = person.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


ANALYST_KEY, OTHER_KEY = key_digest(people.ANALYST), key_digest(people.SECOND_ANALYST)


def terms_for_us() -> Iterator[Case]:
    def case(name: str, by: people.Person, message: dict[str, Any], verdict: str, **me: Any) -> Case:
        return {
            "name": name,
            "kind": "Terms",
            "hex": by.sign("odc/v1/terms", message).hex(),
            "me": {"known_analyst_key": None, "accepted_terms": None, **me},
            "verdict": verdict,
        }

    analyst, keyed = people.ANALYST, {**TERMS_2, "analyst_key": ANALYST_KEY}
    yield case("terms", analyst, TERMS, "valid")
    yield case(
        "terms by the analyst whose key we know", analyst, TERMS, "valid", known_analyst_key=ANALYST_KEY
    )
    yield case("terms by an analyst with another key", analyst, TERMS, "refused", known_analyst_key=OTHER_KEY)
    yield case("terms with the analyst's key", analyst, keyed, "valid")
    yield case(
        "terms with the key of another analyst", analyst, {**keyed, "analyst_key": OTHER_KEY}, "refused"
    )
    yield case("terms by the lead", people.LEAD, TERMS, "refused")
    yield case("terms by an institution", people.OTHER, TERMS, "refused")
    yield case("terms of another collaboration", analyst, {**TERMS, "collaboration_id": ELSEWHERE}, "refused")
    yield case("terms of another consortium", analyst, {**TERMS, "consortium_id": ELSEWHERE}, "refused")
    accepted = TERMS_DIGEST.hex()
    yield case("the terms that we have signed", analyst, TERMS, "valid", accepted_terms=accepted)
    changed = {**TERMS, "purpose": "Something else"}
    yield case("other terms than we have signed", analyst, changed, "refused", accepted_terms=accepted)


def anchors_for_us() -> Iterator[Case]:
    anchor = {**SEALED_ANCHOR, "ciphertext": sealed(SEED, for_us())}
    other_seed = hashlib.sha256(b"another seed").digest()
    lead, wrong_lead = people.LEAD, people.Person.named("lead", "hospital-c", 7110)
    rows: list[tuple[str, people.Person, dict[str, Any], str]] = [
        ("an anchor", lead, {}, "valid"),
        ("an anchor by an institution", people.OTHER, {}, "refused"),
        ("an anchor by an institution with the name of the lead",
            people.Person.named("institution", "hospital-a", 7111), {}, "refused"),
        ("an anchor by the analyst", people.ANALYST, {}, "refused"),
        ("an anchor by a lead that is not that of the terms", wrong_lead, {}, "refused"),
        ("an anchor for somebody else", lead, {"recipient": "hospital-a"}, "seal-broken"),
        ("an anchor of another collaboration", lead, {"collaboration_id": ELSEWHERE}, "seal-broken"),
        ("an anchor under other terms", lead, {"terms_digest": bytes(32)}, "seal-broken"),
        ("another seed than was committed to", lead, {"ciphertext": sealed(other_seed, for_us())},
            "seal-broken"),
        ("a seed of 31 bytes", lead, {"ciphertext": sealed(SEED[:31], for_us()), "commitment": hashlib.sha256(
            b"odc/v1/anchor-commitment\0" + SEED[:31]).digest()}, "seal-broken"),
        ("sealed for another recipient", lead, {"ciphertext": sealed(SEED, for_us(recipient="hospital-a"))},
            "seal-broken"),
        ("sealed for another collaboration", lead, {"ciphertext": sealed(SEED, for_us(ELSEWHERE))},
            "seal-broken"),
        ("sealed by a suite that was not asked for", lead, {"sealing_suite": "mlkem768-x25519"},
            "seal-broken"),
        ("a matrix where the terms have a seed", lead, {"form": "matrix"}, "seal-broken"),
        ("a ciphertext of one byte", lead, {"ciphertext": b"\x00"}, "seal-broken"),
    ]  # fmt: skip
    for name, by, changes, verdict in rows:
        signed = by.sign("odc/v1/sealed-anchor", {**anchor, **changes})
        yield {"name": name, "kind": "SealedAnchor", "hex": signed.hex(), "verdict": verdict}


def receipts_for_us() -> Iterator[Case]:
    rows: list[tuple[str, people.Person, dict[str, Any], str]] = [
        ("a receipt", people.ANALYST, {}, "valid"),
        ("a receipt by the lead", people.LEAD, {}, "refused"),
        ("a receipt by another analyst", people.SECOND_ANALYST, {}, "refused"),
        ("a receipt for another uplink", people.ANALYST, {"uplink_digest": bytes(32)}, "refused"),
        ("a receipt for another party", people.ANALYST, {"party": "hospital-c"}, "refused"),
        ("a receipt of another collaboration", people.ANALYST, {"collaboration_id": ELSEWHERE}, "refused"),
    ]
    for name, by, changes, verdict in rows:
        signed = by.sign("odc/v1/receipt", {**RECEIPT, **changes})
        yield {"name": name, "kind": "Receipt", "hex": signed.hex(), "verdict": verdict}


def heads_for_us() -> Iterator[Case]:
    for name, by, verdict in [
        ("a head of the ledger", people.ANALYST, "valid"),
        ("a head by the lead", people.LEAD, "refused"),
        ("a head by another analyst", people.SECOND_ANALYST, "refused"),
    ]:
        signed = by.sign("odc/v1/ledger-head", LEDGER_HEAD)
        yield {"name": name, "kind": "LedgerHead", "hex": signed.hex(), "verdict": verdict}


def downlinks() -> Iterator[Case]:
    """Whole downlinks, as they come after the head of the answer."""
    body = array_stream(CHANGE_OF_BASIS) + array_stream(MODEL)
    stray = {**DOWNLINK, "arrays": [array("change_of_basis", "f8", (3, 3), bytes(72)), DOWNLINK["arrays"][1]]}
    exchanged = array_stream(CHANGE_OF_BASIS) + array_stream(b"\0" + MODEL[1:])
    flipped = bytearray(body)
    flipped[40] ^= 1

    def case(
        name: str, verdict: str, *, by: people.Person = people.ANALYST, stream: bytes = body, **changes: Any
    ) -> Case:
        manifest = by.sign("odc/v1/downlink", changes.pop("manifest", {**DOWNLINK, **changes}))
        return whole(name, verdict, struct.pack("<I", len(manifest)) + manifest + stream)

    def whole(name: str, verdict: str, data: bytes) -> Case:
        return {"name": name, "parts": runs(data), "bytes": len(data), "verdict": verdict}

    signed = people.ANALYST.sign("odc/v1/downlink", DOWNLINK)
    good = struct.pack("<I", len(signed)) + signed + body
    yield case("a downlink", "valid")
    yield whole("nothing", "truncated", b"")
    yield whole("cut off in the length", "truncated", good[:3])
    yield whole("cut off in the manifest", "truncated", good[:300])
    yield whole("without its last byte", "truncated", good[:-1])
    yield case("without its last chunk", "truncated", stream=body[: -(32 + len(MODEL) % 65536)])
    yield case("a byte too many", "limit-exceeded", stream=body + b"\0")
    yield case("a bit of a chunk flipped", "digest-mismatch", stream=bytes(flipped))
    yield case("a chunk with a digest of its own, in another array", "digest-mismatch", stream=exchanged)
    yield whole("a manifest that is too long", "limit-exceeded", struct.pack("<I", 2**22 + 1) + good[4:])
    yield case("by the lead", "refused", by=people.LEAD)
    yield case("by another analyst", "refused", by=people.SECOND_ANALYST)
    yield case("for another party", "not-permitted", party="hospital-a")
    yield case("of another collaboration", "not-permitted", collaboration_id=ELSEWHERE)
    yield case("under other terms", "not-permitted", terms_digest=bytes(32))
    yield case("for another uplink", "not-permitted", uplink_digest=bytes(32))
    yield case(
        "a change of basis of another shape", "shape-mismatch", manifest=stray, stream=array_stream(bytes(72))
    )
    yield case(
        "anchor predictions in the place of a model", "malformed-message", manifest=PREDICTIONS_DOWNLINK
    )
    receipt = people.ANALYST.sign("odc/v1/receipt", RECEIPT)
    yield whole(
        "a receipt in the place of the manifest",
        "malformed-message",
        struct.pack("<I", len(receipt)) + receipt + body,
    )


def received() -> dict[str, Any]:
    """The content of received.json."""
    return {
        "root": people.ROOT_PEM,
        "at": people.AT,
        "party": "hospital-b",
        "collaboration_id": COLLABORATION,
        "consortium_id": CONSORTIUM,
        "terms": pack(TERMS).hex(),
        "uplink_digest": UPLINK_DIGEST.hex(),
        "analyst_key": ANALYST_KEY,
        "sealing_key": SEALING_KEY.hex(),
        "sealing_public_key": X25519PrivateKey.from_private_bytes(SEALING_KEY)
        .public_key()
        .public_bytes_raw()
        .hex(),
        "seed": SEED.hex(),
        "commitment": COMMITMENT.hex(),
        "messages": [*terms_for_us(), *anchors_for_us(), *receipts_for_us(), *heads_for_us()],
        "downlinks": [*downlinks()],
    }
