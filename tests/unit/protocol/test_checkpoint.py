from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.checkpoint import Checkpoint, Note
from protocol.codec import decode
from protocol.errors import LimitExceededError, MalformedMessageError, OdcError, ProtocolError, SignatureError
from protocol.identity import load_certificate, public_key
from protocol.ledger import LedgerEntry
from protocol.limits import MAX_NOTE_BYTES
from tests.harness import certificates as fakes
from tests.vectors.examples import COLLABORATION, LEDGER

ENTRIES = [LedgerEntry.model_validate(entry) for entry in LEDGER]
ANALYST, MEMBER = fakes.shared_member("analyst", "analyst"), fakes.shared_member("institution", "hospital-b")


def note() -> Note:
    return Note(Checkpoint.of(COLLABORATION, ENTRIES), ()).signed(ANALYST.key, ANALYST.certificate)


def test_a_note_comes_back_from_its_text() -> None:
    cosigned = note().signed(MEMBER.key, MEMBER.certificate)
    assert Note.parse(cosigned.bytes) == cosigned
    assert len(cosigned.lines) == 2


def test_the_text_is_ledger_length_and_root() -> None:
    found = Checkpoint(COLLABORATION, 12, bytes(32))
    assert found.text == f"odc-ledger/v1/{COLLABORATION}\n12\n{'A' * 43}=\n"


def test_who_has_signed_is_known_by_name_and_key() -> None:
    made = note()
    assert made.is_signed_by(ANALYST.certificate)
    assert not made.is_signed_by(MEMBER.certificate)
    assert made.signed(MEMBER.key, MEMBER.certificate).is_signed_by(MEMBER.certificate)
    assert made.name_of(MEMBER.certificate) == f"urn:odc:{fakes.CONSORTIUM_ID}:institution:hospital-b"


def test_a_signature_under_another_text_is_refused() -> None:
    longer = Checkpoint(COLLABORATION, 3, bytes(32))
    with pytest.raises(SignatureError, match="was not signed by odc-ledger/v1/"):
        Note(longer, note().lines).is_signed_by(ANALYST.certificate)


def test_lines_of_unknown_keys_are_passed_over() -> None:
    lines = ("— witness.example/w1 AAAA", "— odc AAAAAAAA", *note().lines)
    assert Note.parse(Note(note().checkpoint, lines).bytes).is_signed_by(ANALYST.certificate)


def openssl(directory: Path, *words: str) -> bytes:
    command = ["openssl", "dgst", "-sha256", *words]
    return subprocess.run(command, cwd=directory, capture_output=True, check=False).stdout


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_verifies_the_signature(tmp_path: Path) -> None:
    """Type 0x02 of C2SP: four bytes of the key's digest, then ECDSA with SHA-256 over the text."""
    _, _, written = note().lines[0].split(" ")
    key = public_key(ANALYST.certificate)
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    files = {"key": der, "text": note().checkpoint.text.encode()}
    raw = base64.b64decode(written)
    for name, data in {**files, "signature": raw[4:]}.items():
        (tmp_path / name).write_bytes(data)
    assert openssl(tmp_path, "-binary", "key")[:4] == raw[:4]
    verified = openssl(tmp_path, "-verify", "key", "-keyform", "DER", "-signature", "signature", "text")
    assert verified == b"Verified OK\n"


GOOD = note().bytes.decode()


@pytest.mark.parametrize(
    "spoilt",
    [
        "",
        "\n",
        GOOD.replace("\n\n", "\n"),
        GOOD.replace("odc-ledger/v1", "odc-ledger/v2"),
        GOOD.replace(f"\n{len(ENTRIES)}\n", f"\n0{len(ENTRIES)}\n"),
        GOOD.replace(f"\n{len(ENTRIES)}\n", f"\n-{len(ENTRIES)}\n"),
        GOOD.replace("=\n\n", "=\nextension\n\n"),
        GOOD.replace("— ", "- "),
        GOOD.rstrip("\n"),
        GOOD + "more\n",
        GOOD.partition("\n\n")[0] + "\n\n",
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
    ],
)
def test_another_text_is_no_checkpoint(spoilt: str) -> None:
    with pytest.raises(MalformedMessageError):
        Note.parse(spoilt.encode())


def test_bytes_that_are_no_text_or_too_many_are_refused() -> None:
    with pytest.raises(ProtocolError):
        Note.parse(b"\xff\xfe" + GOOD.encode())
    with pytest.raises(LimitExceededError):
        Note.parse(GOOD.encode() + b"x" * MAX_NOTE_BYTES)


VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "checkpoints.json").read_text())


def judged(case: dict[str, Any]) -> tuple[Note, list[str]]:
    """Return the note of a case, and which of the holders that the reader knows have signed it."""
    parts = case.get("parts") or [[case["text"].encode().hex(), 1]]
    found = Note.parse(b"".join(bytes.fromhex(data) * times for data, times in parts))
    known = {name: load_certificate(bytes.fromhex(der)) for name, der in VECTORS["certificates"].items()}
    return found, [name for name, certificate in known.items() if found.is_signed_by(certificate)]


@pytest.mark.parametrize("case", VECTORS["notes"], ids=lambda case: str(case["name"]))
def test_a_text_is_the_checkpoint_in_the_vectors_or_none(case: dict[str, Any]) -> None:
    if case["verdict"] != "valid":
        with pytest.raises(OdcError) as caught:
            judged(case)
        assert caught.value.code == case["verdict"]
        return
    found, signed_by = judged(case)
    assert signed_by == case["signed_by"]
    entries = [decode(LedgerEntry, bytes.fromhex(entry)) for entry in VECTORS["entries"]]
    assert found.checkpoint == Checkpoint.of(VECTORS["collaboration_id"], entries[: case["size"]])
    assert found.checkpoint.root.hex() == case["root"]
    assert found.bytes.decode() == case["text"]
