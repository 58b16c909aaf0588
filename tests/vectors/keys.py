"""The cases of keys.json and anchors.json: what is derived from a secret."""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from numpy.typing import NDArray

from tests.vectors.examples import COLLABORATION, COMMITMENT, SEED, TERMS_DIGEST, TOKEN, Case, chunked


def hkdf(secret: bytes, label: str, length: int = 32) -> bytes:
    """RFC 5869 with SHA-256 and no salt."""
    key = hmac.digest(bytes(32), secret, "sha256")
    out, block = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + label.encode() + bytes([counter]), "sha256")
        out += block
    return out[:length]


def keys() -> dict[str, list[Case]]:
    secret, ticket, csr = bytes(range(32, 64)), b"signed ticket", b"PKCS #10"
    mac_key = hkdf(secret, "odc/v1/join-mac")
    chain = [b"our certificate", b"an intermediate one"]

    def join_mac(*parts: bytes) -> str:
        return hmac.digest(mac_key, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256").hex()

    token_digest = hashlib.sha256(b"odc/v1/api-token\0" + TOKEN.encode()).hexdigest()
    info = b"odc/v1/sealed-anchor\0" + COLLABORATION.encode() + TERMS_DIGEST + b"hospital-b"
    return {
        "derive": [
            {
                "secret": secret.hex(),
                "label": label,
                "length": length,
                "key": hkdf(secret, label, length).hex(),
            }
            for label, length in [
                ("odc/v1/join-mac", 32),
                ("odc/v1/anchor/haar", 32),
                ("odc/v1/anchor/uniform", 32),
                ("odc/v1/anchor/gaussian", 32),
                ("odc/v1/anchor/public", 32),
                ("odc/v1/anchor/public/aes-256-gcm", 32),
                ("odc/v1/test", 80),
            ]
        ],
        "join_mac": [
            {
                "secret": secret.hex(),
                "ticket": ticket.hex(),
                "csr": csr.hex(),
                "chain": [one.hex() for one in sent],
                "mac": join_mac(ticket, csr, *sent),
            }
            for sent in ([], chain)
        ],
        "api_token": [{"token": TOKEN, "digest": token_digest, "token_id": token_digest[:32]}],
        "signed_bytes": [
            {
                "kind": "odc/v1/receipt",
                "payload": ticket.hex(),
                "algorithm": algorithm,
                "signed": b"".join(part.encode() + b"\0" for part in parts).hex() + ticket.hex(),
            }
            for algorithm, parts in (
                (None, ["odc/v1/receipt"]),
                ("ml-dsa-65@example.org", ["odc/v1/signed", "ml-dsa-65@example.org", "odc/v1/receipt"]),
            )
        ],
        "seed_commitment": [{"seed": SEED.hex(), "commitment": COMMITMENT.hex()}],
        "sealed_matrix": [*sealed_matrices()],
        "anchor_info": [
            {
                "collaboration_id": COLLABORATION,
                "terms_digest": TERMS_DIGEST.hex(),
                "recipient": "hospital-b",
                "info": info.hex(),
            }
        ],
    }


def sealed_matrices() -> Iterator[Case]:
    """Matrices of public anchors; the second is four bytes longer than a chunk."""
    usual = ChaCha20Poly1305(hkdf(SEED, "odc/v1/anchor/public"))
    chosen = AESGCM(hkdf(SEED, "odc/v1/anchor/public/aes-256-gcm"))
    small, large = struct.pack("<6f", -1, 0, 1, 0.5, 0.25, -0.125), struct.pack("<f", 0.5)
    for value, times, key, suite in (
        (small, 1, usual, {}),
        (large, 2**18 + 1, usual, {}),
        (large, 2**18 + 1, chosen, {"suite": "mlkem1024-p384"}),
        (small, 1, chosen, {"suite": "p256"}),
    ):
        chunks = [*chunked(value * times, 2**20)]
        sealed = b"".join(
            key.encrypt(struct.pack(">3xQ?", number, number == len(chunks) - 1), chunk, None)
            for number, chunk in enumerate(chunks)
        )
        label = b"odc/v1/anchor-matrix-commitment\0"
        yield {
            **suite,
            "seed": SEED.hex(),
            "matrix_parts": [[value.hex(), times]],
            "sealed_start": sealed[:64].hex(),
            "sealed_bytes": len(sealed),
            "sealed_sha256": hashlib.sha256(sealed).hexdigest(),
            "commitment": hashlib.sha256(label + SEED + hashlib.sha256(sealed).digest()).hexdigest(),
        }


def key_stream(seed: bytes, kind: str, length: int) -> bytes:
    """RFC 8439: a nonce of twelve zero bytes, blocks counted from 0."""
    key = hkdf(seed, f"odc/v1/anchor/{kind}")
    counter_and_nonce = bytes(4) + bytes(12)
    return Cipher(algorithms.ChaCha20(key, counter_and_nonce), None).encryptor().update(bytes(length))


def uniform_numbers(seed: bytes, kind: str, count: int) -> list[float]:
    stream = key_stream(seed, kind, 8 * count)
    return [(number >> 11) * 2.0**-53 for (number,) in struct.iter_unpack("<Q", stream)]


def gaussian_numbers(seed: bytes, kind: str, count: int) -> list[float]:
    """Box-Muller on consecutive pairs; the last number of an odd count is dropped."""
    uniform = uniform_numbers(seed, kind, count + count % 2)
    out = []
    for u1, u2 in zip(uniform[::2], uniform[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(1 - u1))
        out += [radius * math.cos(2 * math.pi * u2), radius * math.sin(2 * math.pi * u2)]
    return out[:count]


def uniform_anchor(seed: bytes, rows: int, features: int) -> NDArray[np.float64]:
    return np.array(uniform_numbers(seed, "uniform", rows * features)).reshape(rows, features)


def gaussian_anchor(seed: bytes, rows: int, features: int) -> NDArray[np.float64]:
    return np.array(gaussian_numbers(seed, "gaussian", rows * features)).reshape(rows, features)


def haar_anchor(seed: bytes, features: int) -> NDArray[np.float64]:
    gaussian = np.array(gaussian_numbers(seed, "haar", features**2)).reshape(features, features)
    q, r = np.linalg.qr(gaussian)
    return np.asarray(q * np.sign(np.diag(r)))


def anchors() -> Iterator[Case]:
    other = hashlib.sha256(b"another seed").digest()
    for seed, kind, rows, features in [
        (SEED, "uniform", 5, 3),
        (other, "uniform", 2, 2),
        (SEED, "haar", 1, 1),
        (SEED, "haar", 3, 3),
        (SEED, "haar", 4, 4),
        (other, "haar", 7, 7),
        (SEED, "gaussian", 4, 2),
        (other, "gaussian", 5, 3),
    ]:
        if kind == "haar":
            matrix = haar_anchor(seed, features)
        else:
            make = uniform_anchor if kind == "uniform" else gaussian_anchor
            matrix = make(seed, rows, features)
        yield {
            "seed": seed.hex(),
            "kind": kind,
            "rows": rows,
            "features": features,
            "key_stream_start": key_stream(seed, kind, 64).hex(),
            "entries": matrix.tolist(),
        }
