"""The content of signed.json and sealing.json, whose keys and signatures are random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding

from tests.vectors import suites
from tests.vectors.examples import ACCEPTANCE, CONSORTIUM, RECEIPT, SEED, Case
from tests.vectors.keys import keys
from tests.vectors.packing import pack
from tests.vectors.unknown import signed_otherwise


def signed_messages() -> dict[str, Any]:
    """Messages signed under a root made here, and certificates that do not hold."""
    from protocol.identity import Identity
    from tests.harness import certificates as fakes

    root = fakes.make_root(CONSORTIUM)
    member = fakes.issue(root, "institution", "hospital-b", consortium_id=CONSORTIUM)
    analyst = fakes.issue(root, "analyst", "analyst", consortium_id=CONSORTIUM, dns=["analyst.example"])
    expired = fakes.issue(
        root, "institution", "hospital-b", consortium_id=CONSORTIUM, not_after=fakes.NOW - 1
    )
    stranger = fakes.issue(fakes.make_root(CONSORTIUM), "institution", "hospital-b")
    urn = Identity(CONSORTIUM, "institution", "hospital-b").urn

    def certified(public_key: Any, *names: x509.GeneralName, **options: Any) -> bytes:
        return fakes.issue_for(root, public_key, names, **options).public_bytes(Encoding.DER)

    def signed(
        label: str,
        payload: bytes,
        certificate: bytes,
        sign: Callable[[bytes], bytes],
        kind: str | None = None,
    ) -> bytes:
        return pack(
            {
                "kind": kind or label,
                "payload": payload,
                "certificate": certificate,
                "signature": sign(label.encode() + b"\0" + payload),
            }
        )

    def by(key: ec.EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
        return lambda data: key.sign(data, ec.ECDSA(hashes.SHA256()))

    uri = x509.UniformResourceIdentifier
    receipt, acceptance, label = pack(RECEIPT), pack(ACCEPTANCE), "odc/v1/acceptance"
    good = signed(label, acceptance, member.der, by(member.key))
    p384, rsa_key = ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)
    certificate_at = good.index(member.der)
    certificate_flipped = bytearray(good)
    certificate_flipped[certificate_at + len(member.der) - 1] ^= 1
    payload_flipped = bytearray(good)
    payload_flipped[good.index(b"x25519")] ^= 1
    rows: list[tuple[str, str, bytes, str]] = [
        ("an acceptance", "Acceptance", good, "valid"),
        ("a receipt by the analyst", "Receipt",
            signed("odc/v1/receipt", receipt, analyst.der, by(analyst.key)), "valid"),
        ("asked for as another kind", "Receipt", good, "malformed-message"),
        ("signed under one label, presented under another", "Acceptance",
            signed("odc/v1/receipt", acceptance, member.der, by(member.key), kind=label), "bad-signature"),
        ("signed without a label", "Acceptance",
            pack({"kind": label, "payload": acceptance, "certificate": member.der,
                  "signature": by(member.key)(acceptance)}), "bad-signature"),
        ("a bit of the payload flipped", "Acceptance", bytes(payload_flipped), "bad-signature"),
        ("a bit of the certificate's signature flipped", "Acceptance", bytes(certificate_flipped),
            "certificate-refused"),
        ("signed by another key", "Acceptance", signed(label, acceptance, member.der, by(analyst.key)),
            "bad-signature"),
        ("a signature that is no DER", "Acceptance",
            pack({"kind": label, "payload": acceptance, "certificate": member.der, "signature": bytes(64)}),
            "bad-signature"),
        ("under another root", "Acceptance",
            signed(label, acceptance, stranger.der, by(stranger.key)), "certificate-refused"),
        ("with an expired certificate", "Acceptance",
            signed(label, acceptance, expired.der, by(expired.key)), "certificate-refused"),
        ("with the root's own certificate", "Acceptance",
            signed(label, acceptance, root.certificate.public_bytes(Encoding.DER), by(root.key)),
            "certificate-refused"),
        ("with a certificate in PEM", "Acceptance",
            signed(label, acceptance, member.pem, by(member.key)), "certificate-refused"),
        ("with a key on P-384", "Acceptance",
            signed(label, acceptance, certified(p384.public_key(), uri(urn)), by(p384)),
            "certificate-refused"),
        ("with an RSA key", "Acceptance",
            signed(label, acceptance, certified(rsa_key.public_key(), uri(urn)), by(member.key)),
            "certificate-refused"),
        ("a payload that is not canonical", "Acceptance",
            signed(label, acceptance + b"\xc0", member.der, by(member.key)), "malformed-message"),
        ("a byte too many", "Acceptance", good + b"\xc0", "malformed-message"),
        ("the payload alone", "Acceptance", acceptance, "malformed-message"),
    ]  # fmt: skip
    key = member.key.public_key()
    names: list[tuple[str, bytes, str | None]] = [
        ("an institution", member.der, urn),
        ("an analyst that is also a TLS server", analyst.der,
            Identity(CONSORTIUM, "analyst", "analyst").urn),
        ("the lead", fakes.issue(root, "lead", "hospital-a").der,
            Identity(CONSORTIUM, "lead", "hospital-a").urn),
        ("without a name", certified(key), None),
        ("with two names", certified(key, uri(urn), uri(urn.replace("-b", "-c"))), None),
        ("with a DNS name alone", certified(key, x509.DNSName("a.example")), None),
        ("an unknown role", certified(key, uri(urn.replace("institution", "observer"))), None),
        ("a name with a slash", certified(key, uri(urn.replace("-b", "/b"))), None),
        ("a name with a colon too many", certified(key, uri(urn + ":x")), None),
        ("another namespace", certified(key, uri(urn.replace("odc", "abc"))), None),
        ("of another consortium", certified(key, uri(urn.replace(CONSORTIUM, "f" * 32))), None),
        ("that may issue certificates", certified(key, uri(urn), ca=True), None),
        ("for TLS servers alone", certified(key, uri(urn), client_auth=False), None),
        ("expired", expired.der, None),
        ("under another root", stranger.der, None),
        ("not a certificate", b"0\x03\x02\x01\x00", None),
    ]  # fmt: skip
    return {
        "root": root.pem.decode(),
        "consortium_id": CONSORTIUM,
        "at": fakes.NOW,
        "messages": [
            {"name": name, "kind": kind, "verdict": verdict, "hex": data.hex()}
            for name, kind, data, verdict in rows
        ]
        + [*signed_otherwise(good)],
        "certificates": [
            {
                "name": name,
                "verdict": "valid" if expected else "certificate-refused",
                "urn": expected,
                "hex": der.hex(),
            }
            for name, der, expected in names
        ],
        "times": [
            {"at": fakes.NOT_BEFORE - 1, "verdict": "certificate-refused"},
            {"at": fakes.NOT_BEFORE, "verdict": "valid"},
            {"at": fakes.NOT_AFTER, "verdict": "valid"},
            {"at": fakes.NOT_AFTER + 1, "verdict": "certificate-refused"},
        ],
    }


def sealed_secrets() -> list[Case]:
    """Ciphertexts with the private keys that open them, or do not."""
    from protocol.envelope import SealingKey, seal
    from protocol.sealing import HYBRID

    info = bytes.fromhex(keys()["anchor_info"][0]["info"])
    out: list[Case] = []

    def add(name: str, suite: str, private: bytes, public: bytes, ciphertext: bytes, opens: bool) -> None:
        out.append(
            {
                "name": name,
                "suite": suite,
                "verdict": "valid" if opens else "seal-broken",
                "private_key": private.hex(),
                "public_key": public.hex(),
                "info": info.hex(),
                "ciphertext": ciphertext.hex(),
                "plaintext": SEED.hex() if opens else None,
            }
        )

    def flip(data: bytes, offset: int) -> bytes:
        return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]

    hybrid, other = SealingKey.generate(), SealingKey.generate()
    public, ciphertext = hybrid.public_bytes(), seal(SEED, HYBRID, hybrid.public_bytes(), info)
    private = hybrid.private_bytes()
    add("hybrid", HYBRID, private, public, ciphertext, opens=True)
    add("hybrid, another key", HYBRID, other.private_bytes(), other.public_bytes(), ciphertext, opens=False)
    elsewhere = seal(SEED, HYBRID, public, info.replace(b"hospital-b", b"hospital-a"))
    add("hybrid, sealed for another recipient", HYBRID, private, public, elsewhere, opens=False)
    for name, offset in [
        ("the ML-KEM part", 0),
        ("the X25519 part", 1088),
        ("the text", 1120),
        ("the tag", -1),
    ]:
        offset %= len(ciphertext)
        add(
            f"hybrid, a bit flipped in {name}", HYBRID, private, public, flip(ciphertext, offset), opens=False
        )
    add("hybrid, cut off", HYBRID, private, public, ciphertext[:-1], opens=False)
    classic = x25519.X25519PrivateKey.generate()
    raw = classic.public_key().public_bytes_raw()
    add("x25519", "x25519", classic.private_bytes_raw(), raw, seal(SEED, "x25519", raw, info), opens=True)
    return [*out, *suites.sealed_secrets(info)]
