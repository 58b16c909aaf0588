"""Every vector of tests/vectors/, run against the package."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509

from protocol import anchor_matrix, envelope, ledger, messages
from protocol.arrays import ArrayDigest, Layout, StreamReader, dequantise, quantise
from protocol.checkpoint import leaf_hashes
from protocol.chunk_checks import check_values
from protocol.codec import Message, decode, digest, encode
from protocol.consent import plain_words, plain_words_digest
from protocol.errors import OdcError, ProtocolError
from protocol.evidence import EvidenceIndex
from protocol.identity import TrustRoot, load_certificate
from protocol.joined_rows import JoinedRows
from protocol.labels import AnyLabel, Label, NumberLabel
from protocol.merkle import root_hash
from protocol.messages import ArraySpec, UplinkManifest
from protocol.row_keys import canonical_row_key, hashing_key, part_key, row_hash
from protocol.sealing import HYBRID
from protocol.terms import Terms
from protocol.tokens import id_of, token_digest, token_id
from protocol.uplinks import check_uplink
from tests.vectors import generate, hpke
from tests.vectors.keys import anchors, gaussian_numbers
from tests.vectors.packing import to_json

VECTORS = Path(generate.__file__).parent
KINDS: dict[str, type[Message]] = {
    "Terms": Terms,
    "InvitationTicket": messages.InvitationTicket,
    "Enrolment": messages.Enrolment,
    "Renewal": messages.Renewal,
    "Acceptance": messages.Acceptance,
    "SealedAnchor": messages.SealedAnchor,
    "UplinkManifest": messages.UplinkManifest,
    "Receipt": messages.Receipt,
    "LedgerEntry": ledger.LedgerEntry,
    "LedgerHead": ledger.LedgerHead,
    "LedgerPage": ledger.LedgerPage,
    "SeenLedger": ledger.SeenLedger,
    "DownlinkManifest": messages.DownlinkManifest,
    "ForgettingStatement": messages.ForgettingStatement,
    "EvidenceIndex": EvidenceIndex,
    "MemberScore": messages.MemberScore,
    "Signed": envelope.Signed,
}


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def cases(name: str, *path: str) -> list[Any]:
    content = load(name)
    for key in path:
        content = content[key]
    return [pytest.param(case, id=case.get("name") or str(number)) for number, case in enumerate(content)]


def whole(case: dict[str, Any]) -> bytes:
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    return b"".join(bytes.fromhex(data) * times for data, times in case["parts"])


def plain(value: Any) -> Any:
    """A message's fields in the notation of the vectors."""
    return json.loads(json.dumps(to_json(value)))


def array_specs(case: dict[str, Any]) -> list[ArraySpec]:
    return [
        ArraySpec(**{**spec, "shape": tuple(spec["shape"]), "digest": bytes.fromhex(spec["digest"]["hex"])})
        for spec in case["arrays"]
    ]


def test_the_stored_files_are_what_the_generator_makes() -> None:
    for name, content in generate.deterministic().items():
        stored, made = load(name), json.loads(json.dumps(content))
        assert generate.agree(stored, made) if name in generate.FLOATING else stored == made, name


def test_every_file_is_read_by_a_test() -> None:
    assert {path.name for path in VECTORS.glob("*.json")} == {
        *generate.deterministic(),
        "signed.json",
        "sealing.json",
    }


def test_every_kind_of_message_has_a_vector() -> None:
    sendable = {kind.__name__ for kind in Message.__subclasses__() if hasattr(kind, "signing_label")}
    assert sendable == set(KINDS)
    assert {case["kind"] for case in load("messages.json") if case["verdict"] == "valid"} == sendable


@pytest.mark.parametrize("case", cases("messages.json"))
def test_messages_decode_or_are_refused_as_the_vector_says(case: dict[str, Any]) -> None:
    kind, data = KINDS[case["kind"]], whole(case)
    if case["verdict"] != "valid":
        with pytest.raises(ProtocolError) as caught:
            decode(kind, data)
        assert caught.value.code == case["verdict"]
        return
    message = decode(kind, data)
    assert plain(message.model_dump()) == case["value"]
    assert encode(message) == data
    assert digest(message).hex() == case["sha256"]


@pytest.mark.parametrize("case", cases("uplinks.json"))
def test_manifests_fit_their_terms_or_are_refused_as_the_vector_says(case: dict[str, Any]) -> None:
    terms = decode(Terms, bytes.fromhex(case["terms"]))
    manifest = decode(UplinkManifest, bytes.fromhex(case["manifest"]))
    together = hashlib.sha256(b"".join(spec.digest for spec in manifest.arrays))
    assert together.hexdigest() == case["whole_digest"]
    if case["verdict"] == "valid":
        check_uplink(manifest, terms)
        return
    with pytest.raises(OdcError) as caught:
        check_uplink(manifest, terms)
    assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("streams.json"))
def test_streams_are_read_as_the_vector_says(case: dict[str, Any]) -> None:
    layout, data = Layout(array_specs(case), case["chunk_bytes"]), whole(case)
    assert (len(data), hashlib.sha256(data).hexdigest()) == (case["stream_bytes"], case["stream_sha256"])
    label: AnyLabel = NumberLabel(name="y", low=0, high=1)  # as the terms would say, if labels are floats
    if case["classes"]:
        label = Label(name="y", classes=tuple(map(str, range(case["classes"]))))
    elif all(spec.dtype != "f4" for spec in layout.specs if spec.name == "labels"):
        label = Label(name="y", classes=tuple(map(str, range(2**16))))
    verdict, good = read(layout, data, label)
    assert (verdict, good) == (case["verdict"], case["good_chunks"])
    if verdict == "valid":
        assert len(data) == layout.stream_bytes


def read(layout: Layout, data: bytes, label: AnyLabel) -> tuple[str, int]:
    """What a receiver does with a whole stream: the verdict and how many chunks were good."""
    digests = [ArrayDigest() for _ in layout.specs]
    good = 0
    try:
        for chunk in StreamReader(layout).feed(data):
            good += 1
            check_values(layout, chunk, label)
            digests[chunk.slot.array].update(chunk.digest)
    except ProtocolError as error:
        return error.code, good
    if good < layout.chunk_count:
        return "incomplete", good
    if [each.digest() for each in digests] != [spec.digest for spec in layout.specs]:
        return "array-digest-mismatch", good
    return "valid", good


@pytest.mark.parametrize("case", cases("scaled.json"))
def test_scaled_matrices_are_rounded_and_read_as_the_vector_says(case: dict[str, Any]) -> None:
    values, scale = quantise(np.array(case["matrix"]))
    assert (values.tolist(), scale.tobytes().hex()) == (case["values"], case["scale"])
    assert dequantise(values, scale).astype("<f4").tobytes().hex() == case["decoded"]


@pytest.mark.parametrize("case", cases("ledgers.json"))
def test_ledgers_hold_or_not_as_the_vector_says(case: dict[str, Any]) -> None:
    entries = [decode(ledger.LedgerEntry, bytes.fromhex(entry)) for entry in case["entries"]]
    if case["verdict"] == "valid":
        found = ledger.check_chain(case["collaboration_id"], entries)
        assert [head.hex() for head in found] == case["heads"]
        leaves = leaf_hashes(entries)
        roots = [root_hash(leaves[:size]).hex() for size in range(len(leaves) + 1)]
        assert roots == case["roots"]
        return
    with pytest.raises(OdcError) as caught:
        ledger.check_chain(case["collaboration_id"], entries)
    assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("keys.json", "derive"))
def test_keys_derive_as_the_vector_says(case: dict[str, Any]) -> None:
    key = envelope.derive(bytes.fromhex(case["secret"]), case["label"], case["length"])
    assert key.hex() == case["key"]


@pytest.mark.parametrize("case", cases("keys.json", "join_mac"))
def test_join_macs_are_as_the_vector_says(case: dict[str, Any]) -> None:
    secret, ticket, csr = (bytes.fromhex(case[name]) for name in ("secret", "ticket", "csr"))
    mac = envelope.join_mac(secret, ticket, csr, [bytes.fromhex(one) for one in case["chain"]])
    assert mac.hex() == case["mac"]


@pytest.mark.parametrize("case", cases("keys.json", "api_token"))
def test_tokens_have_the_digest_of_the_vector(case: dict[str, Any]) -> None:
    assert token_digest(case["token"]) == case["digest"]
    assert token_id(case["digest"]) == id_of(case["token"]) == case["token_id"]


@pytest.mark.parametrize("case", cases("keys.json", "seed_commitment"))
def test_seed_commitments_are_as_the_vector_says(case: dict[str, Any]) -> None:
    assert envelope.seed_commitment(bytes.fromhex(case["seed"])).hex() == case["commitment"]


@pytest.mark.parametrize("case", cases("keys.json", "signed_bytes"))
def test_a_signature_covers_what_the_vector_says(case: dict[str, Any]) -> None:
    signed = envelope.signed_bytes(case["kind"], bytes.fromhex(case["payload"]), case["algorithm"])
    assert signed.hex() == case["signed"]


@pytest.mark.parametrize("case", cases("keys.json", "sealed_matrix"))
def test_matrices_are_sealed_as_the_vector_says(case: dict[str, Any]) -> None:
    seed = bytes.fromhex(case["seed"])
    data = b"".join(bytes.fromhex(part) * times for part, times in case["matrix_parts"])
    suite = case.get("suite", HYBRID)
    sealed = b"".join(anchor_matrix.seal_matrix(seed, data, suite))
    assert (len(sealed), sealed[:64].hex()) == (case["sealed_bytes"], case["sealed_start"])
    assert hashlib.sha256(sealed).hexdigest() == case["sealed_sha256"]
    assert anchor_matrix.matrix_commitment(seed, sealed).hex() == case["commitment"]
    assert anchor_matrix.open_matrix(seed, sealed, suite) == data


@pytest.mark.parametrize("case", cases("keys.json", "row_keys"))
def test_row_keys_are_hashed_as_the_vector_says(case: dict[str, Any]) -> None:
    group = JoinedRows(
        row_key="record",
        parties=tuple(case["parties"]),
        latent_dims=(1,) * len(case["parties"]),
        labels=case["parties"][0],
    )
    seed, collaboration_id = bytes.fromhex(case["seed"]), case["collaboration_id"]
    key = hashing_key(seed, collaboration_id, group)
    assert key.hex() == case["hashing_key"]
    assert part_key(seed, collaboration_id, group).hex() == case["part_key"]
    for field, found in case["hashes"]:
        assert row_hash(key, canonical_row_key(field)).hex() == found


@pytest.mark.parametrize("case", cases("keys.json", "anchor_info"))
def test_a_sealed_anchor_is_bound_to_what_the_vector_says(case: dict[str, Any]) -> None:
    info = envelope.anchor_info(
        case["collaboration_id"], bytes.fromhex(case["terms_digest"]), case["recipient"]
    )
    assert info.hex() == case["info"]


@pytest.mark.parametrize("case", cases("sealing.json"))
def test_sealed_secrets_open_or_not_as_the_vector_says(case: dict[str, Any]) -> None:
    private, ciphertext = bytes.fromhex(case["private_key"]), bytes.fromhex(case["ciphertext"])
    info = bytes.fromhex(case["info"])
    key = envelope.SealingKey.from_bytes(private, case["suite"])
    assert key.public_bytes().hex() == case["public_key"]
    assert len(key.public_bytes()) == hpke.SUITES[case["suite"]].public_bytes
    if case["verdict"] == "valid":
        assert key.open(ciphertext, info).hex() == case["plaintext"]
        assert hpke.opened(case["suite"], private, ciphertext, info).hex() == case["plaintext"]
        return
    with pytest.raises(OdcError) as caught:
        key.open(ciphertext, info)
    assert caught.value.code == case["verdict"]


@pytest.fixture(scope="module")
def root() -> TrustRoot:
    content = load("signed.json")
    trust_root = TrustRoot(x509.load_pem_x509_certificate(content["root"].encode()))
    assert trust_root.consortium_id == content["consortium_id"]
    return trust_root


@pytest.mark.parametrize("case", cases("signed.json", "messages"))
def test_signed_messages_hold_or_not_as_the_vector_says(case: dict[str, Any], root: TrustRoot) -> None:
    kind, data, at = KINDS[case["kind"]], whole(case), load("signed.json")["at"]
    if case["verdict"] == "valid":
        verified = envelope.verify(kind, data, root, at=at)
        assert verified.digest == digest(verified.message)
        return
    with pytest.raises(OdcError) as caught:
        envelope.verify(kind, data, root, at=at)
    assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("signed.json", "certificates"))
def test_certificates_name_somebody_or_not_as_the_vector_says(case: dict[str, Any], root: TrustRoot) -> None:
    at = load("signed.json")["at"]
    if case["verdict"] == "valid":
        assert root.identify(load_certificate(whole(case)), at=at).urn == case["urn"]
        return
    with pytest.raises(OdcError) as caught:
        root.identify(load_certificate(whole(case)), at=at)
    assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("signed.json", "times"))
def test_certificates_hold_from_the_first_to_the_last_second(case: dict[str, Any], root: TrustRoot) -> None:
    certificate = load_certificate(whole(load("signed.json")["certificates"][0]))
    if case["verdict"] == "valid":
        root.identify(certificate, at=case["at"])
        return
    with pytest.raises(OdcError) as caught:
        root.identify(certificate, at=case["at"])
    assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("anchors.json"))
def test_anchors_are_what_the_generator_makes(case: dict[str, Any]) -> None:
    """Elementary functions and QR are not correctly rounded, so entries agree to 1e-12 only."""
    again = next(
        other
        for other in anchors()
        if all(other[name] == case[name] for name in ("seed", "kind", "rows", "features"))
    )
    assert again["key_stream_start"] == case["key_stream_start"]
    np.testing.assert_allclose(case["entries"], again["entries"], rtol=0, atol=1e-12)
    assert np.shape(case["entries"]) == (case["rows"], case["features"])


@pytest.mark.parametrize(
    "case", [param for param in cases("anchors.json") if param.values[0]["kind"] == "haar"]
)
def test_haar_anchors_solve_the_factorisation_that_defines_them(case: dict[str, Any]) -> None:
    """Q is orthogonal and Q.T N is upper triangular with a positive diagonal: the only such Q."""
    q, m = np.array(case["entries"]), case["features"]
    gaussian = gaussian_numbers(bytes.fromhex(case["seed"]), "haar", m * m)
    r = q.T @ np.reshape(gaussian, (m, m))
    np.testing.assert_allclose(q.T @ q, np.eye(m), rtol=0, atol=1e-14 * m)
    np.testing.assert_allclose(r, np.triu(r), rtol=0, atol=1e-13 * m)
    assert (np.diag(r) > 0).all()


def test_the_key_stream_is_chacha20_of_rfc_8439() -> None:
    """Section 2.4.2 encrypts with block counter 1; here the blocks are counted from 0."""
    # RFC 8439 A.1, test vector 1: all-zero key and nonce, counter 0
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    block = Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(bytes(64))
    assert block.hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")


@pytest.mark.parametrize("case", cases("plain_words.json"))
def test_terms_are_shown_in_these_words(case: dict[str, Any]) -> None:
    terms = decode(Terms, bytes.fromhex(case["terms"]))
    assert plain_words(terms) == case["text"]
    assert plain_words_digest(terms).hex() == case["digest"]
