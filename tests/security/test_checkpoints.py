"""Checkpoints tie an analyst to one ledger towards people outside, who see no entry."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from analyst_server.services.analyst import find, move
from analyst_server.services.checkpoints import Checkpoints
from protocol.checkpoint import Note, load_note_key
from protocol.errors import InputError, LedgerError, MalformedMessageError, NotPermittedError, SignatureError
from protocol.identity import key_digest
from protocol.ledger import LedgerEntry, entry_digest
from protocol.operations import FETCH_CHECKPOINT
from protocol.states import Event
from tests.harness.in_process import HOSPITAL, Consortium
from user_client.cli.main import app
from user_client.sdk import checkpoints


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    found = Consortium(tmp_path, monkeypatch)
    found.until_contributed(analyst_key=key_digest(found.analyst.key.public_key()))
    yield found
    found.close()


def fetched(made: Consortium) -> Note:
    return checkpoints.fetch_checkpoint(made.lead, made.lead_round.directory)[0]


def rewritten(made: Consortium, *, by: int = 1) -> None:
    """Another history, of the same length: the analyst writes it into its own database."""
    with made.analyst.records.begin(write=True) as unit:
        rows = unit.ledger(made.id)
        previous = rows[0].previous
        for row in rows:
            row.at -= by * (row.event == Event.SEAL)
            row.previous = previous
            values = {name: getattr(row, name) for name in LedgerEntry.model_fields}
            row.digest = previous = entry_digest(LedgerEntry(**values))


def shown(made: Consortium) -> Note:
    """What the analyst answers, to whomever."""
    made.app.state.checkpoints = Checkpoints(made.analyst)  # as after a restart
    return Note.parse(made.lead.connection.ask(FETCH_CHECKPOINT, collaboration_id=made.id).content)


def test_a_member_cosigns_the_ledger_that_it_has_followed(made: Consortium) -> None:
    note = fetched(made)
    made.hospital_round.fetch_ledger()
    cosigned = checkpoints.cosign(made.hospital, made.hospital_round.directory, note)
    certificates = [made.analyst.certificate, made.hospital.home.certificate()]
    names = checkpoints.check_signers(cosigned, certificates)
    assert names[0] == f"odc-ledger/v1/{made.id}"
    assert names[1].endswith(f":institution:{HOSPITAL}")
    again = checkpoints.cosign(made.hospital, made.hospital_round.directory, cosigned)
    assert again == cosigned
    with pytest.raises(NotPermittedError, match="is not signed by urn:odc"):
        checkpoints.check_signers(cosigned, [made.lead.home.certificate()])


def test_a_member_cosigns_no_other_history(made: Consortium) -> None:
    made.hospital_round.fetch_ledger()
    rewritten(made)
    other = shown(made)
    with pytest.raises(LedgerError, match="are not those of the checkpoint") as caught:
        checkpoints.cosign(made.hospital, made.hospital_round.directory, other)
    assert "signed two histories" in caught.value.hint


def test_a_checkpoint_of_another_ledger_than_the_one_shown_is_refused(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten(made)
    other = shown(made).bytes
    rewritten(made, by=-1)
    monkeypatch.setattr(Checkpoints, "newest", lambda *_: other)
    with pytest.raises(LedgerError, match="are not those of the checkpoint"):
        fetched(made)


def test_a_checkpoint_that_the_analyst_has_not_signed_is_refused(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Note(fetched(made).checkpoint, ())
    forged = honest.signed(made.hospital.home.key(), made.hospital.home.certificate()).bytes
    monkeypatch.setattr(Checkpoints, "newest", lambda *_: forged)
    with pytest.raises(NotPermittedError, match="is not signed by odc-ledger"):
        fetched(made)


def test_somebody_outside_sees_growth_and_no_other_history(made: Consortium) -> None:
    before = fetched(made)
    with made.analyst.records.begin(write=True) as unit:
        move(unit, find(unit, made.id), Event.BEGIN_ALIGNMENT, at=made.clock())
    after = fetched(made)
    assert after.checkpoint.size == before.checkpoint.size + 1
    proof = checkpoints.prove_growth(made.lead, made.lead_round.directory, before, after)
    checkpoints.check_growth(before, after, proof)
    rewritten(made)
    other = shown(made)
    assert other.is_signed_by(made.analyst.certificate)
    for spoilt in (proof, b"[]"):
        with pytest.raises(LedgerError, match="may have been rewritten"):
            checkpoints.check_growth(before, other, spoilt)
    for nonsense in (b"", b"{", b'{"a": 1}', b"[1]", b'["?"]', b"[" * 100_000):
        with pytest.raises((MalformedMessageError, LedgerError)):
            checkpoints.check_growth(before, after, nonsense)


def test_a_longer_ledger_than_ours_is_not_cosigned(made: Consortium) -> None:
    made.hospital_round.fetch_ledger()
    note = fetched(made)
    with pytest.raises(LedgerError, match="our ledger has") as caught:
        checkpoints.cosign(made.hospital, made.hospital_round.directory, longer(note))
    assert "odc ledger fetch" in caught.value.hint


def longer(note: Note) -> Note:
    return replace(note, checkpoint=replace(note.checkpoint, size=note.checkpoint.size + 100))


def test_a_forged_signature_is_refused(made: Consortium) -> None:
    note = longer(fetched(made))
    with pytest.raises(SignatureError):
        checkpoints.check_signers(note, [made.analyst.certificate])


def test_files_are_enough_for_somebody_outside(made: Consortium, tmp_path: Path) -> None:
    note = fetched(made)
    (tmp_path / "note").write_bytes(note.bytes)
    (tmp_path / "analyst.pem").write_bytes(made.analyst.certificate.public_bytes(Encoding.PEM))
    run = ["--home", str(tmp_path / "nobody"), "ledger", "verify-checkpoint", str(tmp_path / "note")]
    found = CliRunner().invoke(app, [*run, "--signer", str(tmp_path / "analyst.pem")])
    assert found.exit_code == 0, found.output
    assert f"{note.checkpoint.size} entries" in found.output
    assert not (tmp_path / "nobody").exists()


WITNESS = "witness.example/odc"


def line_of(key_id: bytes, signature: bytes, name: str = WITNESS) -> str:
    return f"— {name} {base64.b64encode(key_id + signature).decode()}"


def by_a_witness(note: Note, kind: str) -> tuple[Note, bytes]:
    """Return a note that a witness outside has signed as C2SP says, and its public key."""
    text = note.checkpoint.text.encode()
    if kind == "ecdsa":
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        line = line_of(hashlib.sha256(der).digest()[:4], key.sign(text, ec.ECDSA(hashes.SHA256())))
        return replace(note, lines=(*note.lines, line)), pem(public)
    own = ed25519.Ed25519PrivateKey.generate()
    type_byte = {"ed25519": b"\x01", "cosignature": b"\x04"}[kind]
    raw = own.public_key().public_bytes_raw()
    key_id = hashlib.sha256(WITNESS.encode() + b"\n" + type_byte + raw).digest()[:4]
    signature = own.sign(text)
    if kind == "cosignature":
        signature = struct.pack(">Q", 1_800_000_000) + own.sign(b"cosignature/v1\ntime 1800000000\n" + text)
    return replace(note, lines=(*note.lines, line_of(key_id, signature))), pem(own.public_key())


def pem(key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("kind", ["ecdsa", "ed25519", "cosignature"])
def test_a_witness_outside_is_known_by_its_name_and_key(made: Consortium, kind: str) -> None:
    signed, public = by_a_witness(fetched(made), kind)
    key = load_note_key(public)
    assert checkpoints.check_witnesses(signed, {WITNESS: key}) == [WITNESS]
    with pytest.raises(SignatureError, match=f"was not signed by {WITNESS}"):
        checkpoints.check_witnesses(longer(signed), {WITNESS: key})
    with pytest.raises(NotPermittedError, match="is not signed by other"):
        checkpoints.check_witnesses(signed, {"other": key})
    another = load_note_key(by_a_witness(signed, kind)[1])
    with pytest.raises(NotPermittedError, match=f"is not signed by {WITNESS} with this key"):
        checkpoints.check_witnesses(signed, {WITNESS: another})


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP384R1()).public_key(), None])
def test_a_key_of_another_kind_is_refused(key: ec.EllipticCurvePublicKey | None) -> None:
    with pytest.raises(InputError, match="the key of a witness is"):
        load_note_key(b"no key" if key is None else pem(key))


def test_the_command_takes_keys_of_witnesses(made: Consortium, tmp_path: Path) -> None:
    signed, public = by_a_witness(fetched(made), "cosignature")
    (tmp_path / "note").write_bytes(signed.bytes)
    (tmp_path / "witness.pem").write_bytes(public)
    (tmp_path / "analyst.pem").write_bytes(made.analyst.certificate.public_bytes(Encoding.PEM))
    run = ["ledger", "verify-checkpoint", str(tmp_path / "note"), "--signer", str(tmp_path / "analyst.pem")]
    found = CliRunner().invoke(app, [*run, "--witness", f"{WITNESS}={tmp_path / 'witness.pem'}"])
    assert (found.exit_code, f"signed by {WITNESS}" in found.output) == (0, True), found.output
    for wrong in ("witness.pem", "=witness.pem", f"{WITNESS}="):
        refused = CliRunner().invoke(app, [*run, "--witness", wrong])
        assert "--witness takes NAME=FILE" in str(refused.exception)
