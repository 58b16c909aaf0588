"""The vectors of what a member is sent: certificates, lists, invitations, ledgers, answers, tables, bases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from protocol import envelope, ledger, messages
from protocol.arrays import ArrayDigest, Layout, StreamReader
from protocol.codec import decode, digest
from protocol.errors import OdcError
from protocol.identity import TrustRoot, key_digest, load_certificate, public_key
from protocol.invitation import Invitation
from protocol.model_groups import models_digest
from protocol.states import Event
from protocol.terms import Terms
from tests.vectors import generate

VECTORS = Path(generate.__file__).parent
KINDS: dict[str, type[Any]] = {
    "Terms": Terms,
    "SealedAnchor": messages.SealedAnchor,
    "Receipt": messages.Receipt,
    "LedgerHead": ledger.LedgerHead,
}


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def cases(name: str, *path: str) -> list[Any]:
    content = load(name)
    for key in path:
        content = content[key]
    return [pytest.param(case, id=case.get("name") or str(number)) for number, case in enumerate(content)]


def whole(case: dict[str, Any]) -> bytes:
    return b"".join(bytes.fromhex(data) * times for data, times in case["parts"])


@pytest.fixture
def root() -> TrustRoot:
    return TrustRoot(x509.load_pem_x509_certificate(load("trust.json")["root"].encode()))


def identified(root: TrustRoot, case: dict[str, Any]) -> str:
    """The verdict on a certificate."""
    try:
        root.identify(load_certificate(bytes.fromhex(case["hex"])), at=load("trust.json")["at"])
    except OdcError as error:
        return error.code
    return "valid"


@pytest.mark.parametrize("case", cases("trust.json", "certificates"))
def test_certificates_hold_or_not(case: dict[str, Any], root: TrustRoot) -> None:
    assert identified(root, case) == case["verdict"]


@pytest.mark.parametrize("case", cases("trust.json", "revocations"))
def test_lists_are_adopted_or_not(case: dict[str, Any], root: TrustRoot) -> None:
    for given in case["lists"]:
        if given["verdict"] == "valid":
            root.adopt(bytes.fromhex(given["hex"]))
            continue
        with pytest.raises(OdcError) as caught:
            root.adopt(bytes.fromhex(given["hex"]))
        assert caught.value.code == given["verdict"]
    for given in case["certificates"]:
        assert identified(root, given) == given["verdict"]


@pytest.mark.parametrize("case", cases("trust.json", "invitations"))
def test_invitations_are_read_or_not(case: dict[str, Any]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        found = Invitation.from_json(case["text"])
        found.trust_root()
        found.answer(key)
        verdict = "valid"
    except OdcError as error:
        verdict = error.code
    assert verdict == case["verdict"]


@pytest.mark.parametrize("case", cases("received.json", "messages"))
def test_what_is_received_breaks_no_other_rule_than_its_own(case: dict[str, Any]) -> None:
    """Each is a Signed that holds, so that a client which refuses it has looked at what it says."""
    content = load("received.json")
    root = TrustRoot(x509.load_pem_x509_certificate(content["root"].encode()))
    found = envelope.verify(KINDS[case["kind"]], bytes.fromhex(case["hex"]), root, at=content["at"])
    if case["verdict"] != "valid":
        return
    assert found.author.role == ("lead" if case["kind"] == "SealedAnchor" else "analyst")
    if case["kind"] == "SealedAnchor":
        terms = decode(Terms, bytes.fromhex(content["terms"]))
        info = envelope.anchor_info(content["collaboration_id"], digest(terms), content["party"])
        key = x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(content["sealing_key"]))
        suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
        seed = suite.decrypt(found.message.ciphertext, key, info=info)
        assert (seed.hex(), envelope.seed_commitment(seed)) == (content["seed"], found.message.commitment)


@pytest.mark.parametrize(
    "case", [each for each in cases("received.json", "downlinks") if each.values[0]["verdict"] == "valid"]
)
def test_a_downlink_is_its_manifest_and_its_arrays(case: dict[str, Any]) -> None:
    content, data = load("received.json"), whole(case)
    root = TrustRoot(x509.load_pem_x509_certificate(content["root"].encode()))
    length = int.from_bytes(data[:4], "little")
    found = envelope.verify(messages.DownlinkManifest, data[4 : 4 + length], root, at=content["at"])
    certificate = decode(envelope.Signed, data[4 : 4 + length]).certificate
    assert key_digest(public_key(load_certificate(certificate))) == content["analyst_key"]
    layout = Layout(found.message.arrays, found.message.chunk_bytes)
    digests = [ArrayDigest() for _ in layout.specs]
    for chunk in StreamReader(layout).feed(data[4 + length :]):
        digests[chunk.slot.array].update(chunk.digest)
    assert [each.digest() for each in digests] == [spec.digest for spec in layout.specs]
    assert len(data) == case["bytes"] == 4 + length + layout.stream_bytes


@pytest.mark.parametrize("case", cases("checks.json"))
def test_ledgers_of_the_checks_hold_by_themselves(case: dict[str, Any]) -> None:
    entries = [decode(ledger.LedgerEntry, bytes.fromhex(entry)) for entry in case["entries"]]
    heads = ledger.check_chain(case["collaboration_id"], entries)
    head = decode(ledger.LedgerHead, bytes.fromhex(case["head"]))
    if case["verdict"] == "valid":
        assert (head.length, head.digest) == (len(entries), heads[-1])
        assert head.collaboration_id == case["collaboration_id"]
        if case["downlink"] and "models" in case["downlink"]:
            named = models_digest(bytes.fromhex(each) for each in case["downlink"]["models"])
            assert named in [entry.subject for entry in entries if entry.event is Event.RELEASE]


@pytest.mark.parametrize("case", load("numbers.json")["rounded"], ids=lambda case: str(case["dtype"]))
def test_numbers_are_rounded_to_the_nearest(case: dict[str, Any]) -> None:
    found = np.array(case["values"]).astype(f"<{case['dtype']}")
    assert found.tobytes().hex() == case["hex"]


@pytest.mark.parametrize("case", load("bases.json"), ids=lambda case: f"{case['latent_dim']} dimensions")
def test_a_basis_spans_the_leading_singular_vectors(case: dict[str, Any]) -> None:
    rows, basis = np.array(case["rows"]), np.array(case["basis"])
    np.testing.assert_allclose(basis.T @ basis, np.eye(case["latent_dim"]), atol=1e-9)
    np.testing.assert_allclose(basis @ basis.T, case["projector"], atol=1e-9)
    np.testing.assert_allclose(rows @ basis, case["rep"], atol=1e-9)
    kept = np.linalg.norm(rows @ basis) ** 2
    assert kept == pytest.approx(sum(value**2 for value in case["singular_values"][: case["latent_dim"]]))
