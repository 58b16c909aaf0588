"""The cases of rounds whose terms choose what their anchor is sealed with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.terms import ChosenSuite
from tests.vectors.examples import ACCEPTANCE, SEALED_ANCHOR, SEED, TERMS, TERMS_2, Case
from tests.vectors.hpke import SUITES
from tests.vectors.sums import SUMS_TERMS

CHOSEN: dict[ChosenSuite, str] = {
    "mlkem1024-p384": "(ML-KEM-1024 with ECDH on P-384, and AES-256-GCM), not by the usual one.",
    "p256": "(ECDH on P-256, and AES-256-GCM), not by the usual one. Whoever keeps a copy and can one day"
    " break P-256, as with a quantum computer, reads the anchor.",
}


def line_of(suite: ChosenSuite) -> str:
    """Return what the plain words say of a suite."""
    return f"The anchor's seed is sealed for each institution by the suite {suite} {CHOSEN[suite]}"


def terms_of(suite: str | None) -> dict[str, Any]:
    return {**TERMS_2, "sealing_suite": suite}


def valid() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the messages of such rounds."""
    for suite in CHOSEN:
        key, ciphertext = bytes(SUITES[suite].public_bytes), bytes(SUITES[suite].enc_bytes + 48)
        yield f"terms that choose {suite}", "Terms", terms_of(suite)
        yield (
            f"acceptance with a key of {suite}",
            "Acceptance",
            {**ACCEPTANCE, "sealing_suite": suite, "sealing_key": key},
        )
        yield (
            f"anchor sealed by {suite}",
            "SealedAnchor",
            {**SEALED_ANCHOR, "sealing_suite": suite, "ciphertext": ciphertext},
        )


def broken() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield messages that break a rule of such rounds."""
    yield "a chosen suite of nil", "Terms", terms_of(None)
    yield "the usual suite written out", "Terms", terms_of("mlkem768-x25519")
    yield "a suite that terms cannot choose", "Terms", terms_of("x25519")
    yield "an unknown suite", "Terms", terms_of("rsa")
    yield "terms of schema 1 that choose a suite", "Terms", {**TERMS, "sealing_suite": "p256"}
    yield "sums that choose a suite", "Terms", {**SUMS_TERMS, "sealing_suite": "p256"}


def sealed_secrets(info: bytes) -> Iterator[Case]:
    """Yield ciphertexts of these suites, with the private keys that open them, or do not."""
    from protocol.envelope import SealingKey, seal

    for suite in CHOSEN:
        key, other = SealingKey.generate(suite), SealingKey.generate(suite)
        enc_bytes, elsewhere = SUITES[suite].enc_bytes, info.replace(b"hospital-b", b"hospital-a")
        sealed = seal(SEED, suite, key.public_bytes(), info)

        def flip(offset: int, data: bytes = sealed) -> bytes:
            return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]

        for name, opener, ciphertext in [
            ("", key, sealed),
            (", another key", other, sealed),
            (", sealed for another recipient", key, seal(SEED, suite, key.public_bytes(), elsewhere)),
            (", a bit flipped in the first byte", key, flip(0)),
            (", a bit flipped in the point", key, flip(enc_bytes - 1)),
            (", a bit flipped in the text", key, flip(enc_bytes)),
            (", a bit flipped in the tag", key, flip(len(sealed) - 1)),
            (", cut off", key, sealed[:-1]),
            (", without its text", key, sealed[:enc_bytes]),
        ]:
            opens = name == ""
            yield {
                "name": suite + name,
                "suite": suite,
                "verdict": "valid" if opens else "seal-broken",
                "private_key": opener.private_bytes().hex(),
                "public_key": opener.public_bytes().hex(),
                "info": info.hex(),
                "ciphertext": ciphertext.hex(),
                "plaintext": SEED.hex() if opens else None,
            }
