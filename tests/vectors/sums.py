"""The cases about sums: their terms and messages, and sums.json with features, masks and fixed point."""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tests.vectors.examples import (
    ACCEPTANCE,
    COLLABORATION,
    DOWNLINK,
    NUMBER_TERMS,
    PRIVACY,
    SEALED_ANCHOR,
    SEED,
    TERMS,
    TERMS_2,
    UPLINK,
    Case,
    array,
)
from tests.vectors.keys import hkdf
from tests.vectors.packing import pack

PARTIES = ["hospital-a", "hospital-b", "hospital-c"]
KEYS = [hashlib.sha256(f"mask key of {party}".encode()).digest() for party in PARTIES]
PUBLIC_KEYS = [X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in KEYS]
COMMITMENT = hashlib.sha256(b"odc/v1/sums-commitment\0" + SEED + b"".join(PUBLIC_KEYS)).digest()
SUMS = {
    "random_features": 0,
    "kernel_width": None,
    "penalty": None,
    "max_rows": 1_000_000,
    "min_rows": 20,
}
_PLAIN: dict[str, Any] = {
    "rep_dtype": "f4",
    "model": {"kind": "ridge", "inverse_penalty": 1.0},
    "dither": 0.0,
    "least_signal": None,
    "exposure": None,
}
SUMS_TERMS: dict[str, Any] = {**TERMS_2, **_PLAIN, "parties": PARTIES, "sums": SUMS}
RANDOM_TERMS = {
    **SUMS_TERMS,
    "latent_dim": 9,
    "sums": {**SUMS, "random_features": 4, "kernel_width": 1.5, "penalty": 0.25},
}
COHORT_TERMS = {**SUMS_TERMS, "sums": {**SUMS, "cohort": True}}
NOISE = {"epsilon": 3.0, "delta": 1e-5, "clip": 1.5, "colluding": 1}
NOISE_TERMS = {**SUMS_TERMS, "sums": {**SUMS, "noise": NOISE}}
DISCRIMINANT = {"kind": "quadratic-discriminant", "pooled_share": 0.9}
BY_CLASS_TERMS = {**SUMS_TERMS, "model": DISCRIMINANT}
FEATURES, OUTPUTS = 5, 2
ORDER = 1 + FEATURES + OUTPUTS
EXPONENT = 62 - math.ceil(math.log2((1 + 4 + 2 * 0.5**2 + 1) * 1_000_000 * len(PARTIES)))
"""A row of ranks, a range and levels of weight a half with a feature for empty fields: at most 6.5."""
TERMS_DIGEST = hashlib.sha256(pack(SUMS_TERMS)).digest()
BYTES = struct.pack("<36Q", *range(36))
SUMS_ACCEPTANCE = {**ACCEPTANCE, "mask_key": PUBLIC_KEYS[1]}
SUMS_ANCHOR = {**SEALED_ANCHOR, "commitment": COMMITMENT, "mask_keys": PUBLIC_KEYS}
SUMS_UPLINK = {
    **UPLINK,
    "anchor_commitment": COMMITMENT,
    "arrays": [array("sums", "u8", (36,), BYTES)],
    "privacy": PRIVACY,
}
SUMS_DOWNLINK = {**DOWNLINK, "arrays": DOWNLINK["arrays"][1:]}
COHORT_DOWNLINK = {
    **DOWNLINK,
    "arrays": [*SUMS_DOWNLINK["arrays"], array("total", "u8", (36,), BYTES)],
}


def valid() -> list[tuple[str, str, dict[str, Any]]]:
    """Return the messages of a round of sums."""
    return [
        ("terms of sums", "Terms", SUMS_TERMS),
        ("terms of sums with random features", "Terms", RANDOM_TERMS),
        ("terms of sums with noise", "Terms", NOISE_TERMS),
        ("terms of sums by class", "Terms", BY_CLASS_TERMS),
        ("acceptance with a mask key", "Acceptance", SUMS_ACCEPTANCE),
        ("sealed anchor with mask keys", "SealedAnchor", SUMS_ANCHOR),
        ("uplink manifest of sums", "UplinkManifest", SUMS_UPLINK),
        ("downlink manifest of a model alone", "DownlinkManifest", SUMS_DOWNLINK),
        ("terms of sums with the total for each institution", "Terms", COHORT_TERMS),
        ("downlink manifest of a model and a total", "DownlinkManifest", COHORT_DOWNLINK),
    ]


def broken() -> list[tuple[str, str, dict[str, Any]]]:
    """Return messages that break a rule of sums."""
    return [
        ("sums in terms of schema 1", "Terms", {**TERMS, "parties": PARTIES, "sums": SUMS}),
        ("sums of two institutions", "Terms", {**SUMS_TERMS, "parties": PARTIES[:2]}),
        ("sums with another model", "Terms", {**SUMS_TERMS, "model": TERMS_2["model"]}),
        (
            "sums with an option of the model",
            "Terms",
            {**SUMS_TERMS, "model": {"kind": "ridge", "inverse_penalty": 2.0}},
        ),
        ("sums with a dither", "Terms", {**SUMS_TERMS, "dither": 0.5}),
        ("sums with a least signal", "Terms", {**SUMS_TERMS, "least_signal": 0.5}),
        ("sums of scaled integers", "Terms", {**SUMS_TERMS, "rep_dtype": "i1"}),
        (
            "sums with another anchor than a haar one",
            "Terms",
            {**SUMS_TERMS, "anchor": {"kind": "gaussian", "rows": 10}},
        ),
        ("sums of fewer features than there are", "Terms", {**SUMS_TERMS, "latent_dim": 4}),
        (
            "random features without a kernel width",
            "Terms",
            {**RANDOM_TERMS, "sums": {**RANDOM_TERMS["sums"], "kernel_width": None}},
        ),
        (
            "a kernel width without random features",
            "Terms",
            {**SUMS_TERMS, "sums": {**SUMS, "kernel_width": 1.5}},
        ),
        ("more rows at least than at most", "Terms", {**SUMS_TERMS, "sums": {**SUMS, "max_rows": 19}}),
        ("sums of nothing", "Terms", {**SUMS_TERMS, "sums": None}),
        (
            "no total for anybody, where there is a field for it",
            "Terms",
            {**SUMS_TERMS, "sums": {**SUMS, "cohort": False}},
        ),
        (
            "a total of floats",
            "DownlinkManifest",
            {**COHORT_DOWNLINK, "arrays": [*SUMS_DOWNLINK["arrays"], array("total", "f8", (36,), BYTES)]},
        ),
        (
            "a total as a matrix",
            "DownlinkManifest",
            {**COHORT_DOWNLINK, "arrays": [*SUMS_DOWNLINK["arrays"], array("total", "u8", (6, 6), BYTES)]},
        ),
        (
            "a total before the model",
            "DownlinkManifest",
            {**COHORT_DOWNLINK, "arrays": COHORT_DOWNLINK["arrays"][::-1]},
        ),
        (
            "a total in the place of a model",
            "DownlinkManifest",
            {**COHORT_DOWNLINK, "arrays": COHORT_DOWNLINK["arrays"][1:]},
        ),
        (
            "noise and a total for each institution",
            "Terms",
            {**SUMS_TERMS, "sums": {**SUMS, "cohort": True, "noise": NOISE}},
        ),
        (
            "sums by class and a total for each institution",
            "Terms",
            {**COHORT_TERMS, "model": DISCRIMINANT},
        ),
        ("sums by class with noise", "Terms", {**NOISE_TERMS, "model": DISCRIMINANT}),
        ("a quadratic discriminant of rows", "Terms", {**TERMS_2, "model": DISCRIMINANT}),
        (
            "a quadratic discriminant of a number",
            "Terms",
            {**SUMS_TERMS, "table_schema": NUMBER_TERMS["table_schema"], "model": DISCRIMINANT},
        ),
        (
            "more of a pooled covariance than there is",
            "Terms",
            {**SUMS_TERMS, "model": {**DISCRIMINANT, "pooled_share": 1.5}},
        ),
        ("noise of nil", "Terms", {**SUMS_TERMS, "sums": {**SUMS, "noise": None}}),
        (
            "as many colluding institutions as there are",
            "Terms",
            {**SUMS_TERMS, "sums": {**SUMS, "noise": {**NOISE, "colluding": 3}}},
        ),
        (
            "noise of no epsilon",
            "Terms",
            {**SUMS_TERMS, "sums": {**SUMS, "noise": {**NOISE, "epsilon": 0.0}}},
        ),
        ("a mask key of 31 bytes", "Acceptance", {**SUMS_ACCEPTANCE, "mask_key": PUBLIC_KEYS[1][:31]}),
        ("a mask key of nil", "Acceptance", {**SUMS_ACCEPTANCE, "mask_key": None}),
        ("no mask keys where there is a field for them", "SealedAnchor", {**SUMS_ANCHOR, "mask_keys": []}),
        ("sums of floats", "UplinkManifest", {**SUMS_UPLINK, "arrays": [array("sums", "f8", (36,), BYTES)]}),
        (
            "sums as a matrix",
            "UplinkManifest",
            {**SUMS_UPLINK, "arrays": [array("sums", "u8", (6, 6), BYTES)]},
        ),
        (
            "sums beside rows",
            "UplinkManifest",
            {**UPLINK, "arrays": [*UPLINK["arrays"], *SUMS_UPLINK["arrays"]]},
        ),
        (
            "sums of permuted rows",
            "UplinkManifest",
            {**SUMS_UPLINK, "privacy": {**PRIVACY, "permute_rows": True}},
        ),
    ]


def sums() -> Iterator[Case]:
    """Return what three institutions compute: the stream of the turn, masks, and numbers in fixed point."""
    z = [1.0, 0.5, -0.25, 0.0, 0.5, -0.125, 1.0, 0.0]
    entries = [a * b for place, a in enumerate(z) for b in z[place:]]
    yield {
        "terms": pack(SUMS_TERMS).hex(),
        "seed": SEED.hex(),
        "private_keys": [key.hex() for key in KEYS],
        "mask_keys": [key.hex() for key in PUBLIC_KEYS],
        "commitment": COMMITMENT.hex(),
        "exponent": EXPONENT,
        "feature_stream": _stream(hkdf(SEED, "odc/v1/sums/features"), 64).hex(),
        "masks": [_mask(place).hex() for place in range(len(PARTIES))],
        "z": z,
        "numbers": struct.pack(f"<{len(entries)}q", *(int(each * 2**EXPONENT) for each in entries)).hex(),
    }


def _stream(key: bytes, count: int) -> bytes:
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(count))


def _mask(own: int) -> bytes:
    words = [0] * (ORDER * (ORDER + 1) // 2)
    for place, other in enumerate(PUBLIC_KEYS):
        if place == own:
            continue
        pair = b"".join(each.to_bytes(4, "big") for each in sorted((own, place)))
        key = X25519PrivateKey.from_private_bytes(KEYS[own])
        shared = key.exchange(X25519PublicKey.from_public_bytes(other))
        info = b"odc/v1/mask\0" + COLLABORATION.encode() + TERMS_DIGEST + pair
        derived = hmac.digest(hmac.digest(SEED, shared, "sha256"), info + b"\x01", "sha256")
        stream = _stream(hkdf(derived, "odc/v1/mask-stream"), 8 * len(words))
        for index, (word,) in enumerate(struct.iter_unpack("<Q", stream)):
            words[index] = (words[index] + (word if own < place else -word)) % 2**64
    return struct.pack(f"<{len(words)}Q", *words)
