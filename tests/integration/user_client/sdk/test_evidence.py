"""Evidence: what an archive holds, that nothing secret is in it, and that its verifier finds every change."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cryptography
import numpy as np
import pyarrow.csv
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.envelope import SealingKey, anchor_info, decode_stored, sign
from protocol.errors import UnreadableFileError
from protocol.evidence import EvidenceIndex
from protocol.identity import Identity, fingerprint, key_digest, public_key
from protocol.messages import DownlinkManifest, ForgettingStatement, Receipt, SealedAnchor
from tests.harness.certificates import NOW
from tests.harness.in_process import HOSPITAL, PASSPHRASE, Consortium
from tests.harness.needles import Needles, of_matrix
from tests.harness.sums import BY_CLASS, NOISY, RANDOM, SUMS, ThreeOfThem
from user_client import evidence_verifier
from user_client.custody.home import Home
from user_client.custody.protection import protect
from user_client.custody.round_directory import ANCHOR_FILES, BASIS_FILES
from user_client.errors import NotPreparedError
from user_client.evidence_verifier import INDEX, NotVerifiedError, verify
from user_client.sdk import (
    Evidence,
    Round,
    Session,
    approve_pending,
    join,
    revoke,
    update_revocations,
)
from user_client.sdk.consortium import unlock_root
from user_client.sdk.evidence import DESK_FILE, STEPS, collect, packed, sealed

SCHEMA_2: dict[str, Any] = {
    "terms_schema": 2,
    "dither": 0.5,
    "rep_dtype": "i1",
    "latent_dim": 2,
    "hold_out": 0.2,
}
TOO_FEW_VALUES = 5
"""A window of fewer different bytes, such as one of labels, turns up by chance."""


@dataclass
class Whole:
    """A round that has ended at the hospital, its evidence, and what must not be in it."""

    consortium: Consortium
    secrets: dict[str, bytes]
    texts: set[str]
    evidence: Evidence

    @property
    def round(self) -> Round:
        return self.consortium.hospital_round

    @property
    def files(self) -> dict[str, bytes]:
        return unzipped(self.evidence.archive)

    def resealed(self, **changed: bytes | None) -> bytes:
        """Return an archive that the hospital has signed over other files."""
        files = collect(self.consortium.hospital, self.round.directory)
        for name, data in changed.items():
            if data is None:
                del files[name.replace("__", ".")]
            else:
                files[name.replace("__", ".")] = data
        return sealed(self.consortium.hospital, self.round.directory, files)

    def verify(self, archive: bytes) -> evidence_verifier.Verified:
        return verify(archive, self.evidence.root_fingerprint)


def unzipped(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def secrets_of(consortium: Consortium) -> tuple[dict[str, bytes], set[str]]:
    """Return every file that must not be shown, and every number that must not be."""
    session, directory = consortium.hospital, consortium.hospital_round.directory
    paths = {*session.home.secrets(), *(directory.path / name for name in (*BASIS_FILES, *ANCHOR_FILES))}
    paths |= {directory.path / name for name in ("model.onnx", "change_of_basis.bin")}
    secrets = {path.name: path.read_bytes() for path in paths if path.exists()}
    anchor = decode_stored(SealedAnchor, secrets.pop("anchor.odc"))  # it has fields that every message has
    info = anchor_info(consortium.id, anchor.terms_digest, HOSPITAL)
    secrets["anchor's ciphertext"] = anchor.ciphertext
    secrets["anchor's seed"] = SealingKey.from_bytes(secrets["sealing.key"]).open(anchor.ciphertext, info)
    key = session.home.key().private_numbers().private_value
    secrets["identity key"] = key.to_bytes(32, "big")
    prepared = json.loads(secrets.pop("prepared.json"))
    texts = {str(value)[:8] for value in prepared["singular_values"]} | {prepared["source"]}
    texts |= {str(prepared[name]["minimum"])[:8] for name in ("hidden_share", "collusion_error")}
    table = pyarrow.csv.read_csv(consortium.directory / "rows-1.csv")
    matrix = np.column_stack([table.column(name) for name in ("x0", "x1", "x2")])
    return {**secrets, **of_matrix("table", matrix)}, texts | {str(value)[:8] for value in matrix.ravel()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        consortium = Consortium(tmp_path_factory.mktemp("whole"), monkeypatch).until_released(**SCHEMA_2)
        stranger = consortium.session("hospital-b")
        join(stranger, consortium.invitation("hospital-b"))
        approve_pending(consortium.lead, PASSPHRASE)
        revoke(consortium.lead, "hospital-b", PASSPHRASE)  # so that there is a list
        update_revocations(consortium.hospital)
        consortium.hospital_round.receive()
        secrets, texts = secrets_of(consortium)
        consortium.hospital_round.forget(confirmed=True)
        consortium.hospital_round.fetch_ledger()
        yield Whole(consortium, secrets, texts, consortium.hospital_round.evidence())
        consortium.close()


def windows(secrets: Mapping[str, bytes]) -> Needles:
    """Patterns by which any 24 consecutive bytes of a secret are found."""
    found = {}
    for name, data in secrets.items():
        for start in range(0, max(len(data) - 15, 1), 8):
            window = data[start : start + 16]
            if len(set(window)) >= TOO_FEW_VALUES:
                found[f"{name} at {start}"] = window
    return Needles(found)


def test_no_secret_and_no_row_is_in_an_archive(whole: Whole) -> None:
    needles, archive = windows(whole.secrets), whole.evidence.archive
    expected = {"key.pem", "basis.npy", "sealing.key", "hold_out.json", "local_model.npz", "release.bin"}
    assert expected | {"uplink.payload", "model.onnx"} <= set(whole.secrets)
    assert {name.partition(" at ")[0] for name in needles.patterns} == set(whole.secrets)
    assert needles.found_in(archive) == set()
    assert [text for text in whole.texts if text.encode() in archive] == []


def test_a_secret_in_an_archive_would_be_found(whole: Whole) -> None:
    needles = windows(whole.secrets)
    for name, data in whole.secrets.items():
        found = needles.found_in(packed({**whole.files, "careless": b"..." + data}))
        assert {each.partition(" at ")[0] for each in found} >= {name}


def test_a_whole_round_is_shown_and_verified(whole: Whole) -> None:
    assert set(whole.files) == {
        *STEPS,
        "root.pem",
        "revocations.crl",
        "plain-words.txt",
        "contents.txt",
        INDEX,
    }
    assert (whole.evidence.absent, whole.evidence.doubts) == ({}, [])
    facts = "\n".join(whole.evidence.facts)
    assert "uplink: 32 rows of 2 numbers (i1); stated: {'dither': 0.5}" in facts
    assert "until 'released'" in facts
    assert "basis.npy" in facts
    assert "fetched before" not in facts


def test_an_archive_is_the_same_each_time_but_for_its_signature(whole: Whole) -> None:
    again = whole.round.evidence().archive
    assert {**unzipped(again), INDEX: b""} == {**whole.files, INDEX: b""}
    with zipfile.ZipFile(io.BytesIO(again)) as opened:
        made = {(info.date_time, info.create_system) for info in opened.infolist()}
        assert made == {((1980, 1, 1, 0, 0, 0), 3)}
        assert opened.namelist() == sorted(opened.namelist())


def test_a_flipped_bit_in_any_file_is_found(whole: Whole) -> None:
    for name, data in whole.files.items():
        for at in (0, len(data) // 2, len(data) - 1):
            flipped = bytearray(data)
            flipped[at] ^= 1
            with pytest.raises(NotVerifiedError):
                whole.verify(packed({**whole.files, name: bytes(flipped)}))


def test_a_flipped_bit_anywhere_in_the_signed_index_is_found(whole: Whole) -> None:
    index = whole.files[INDEX]
    for at in range(0, len(index), 3):
        flipped = bytearray(index)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(NotVerifiedError):
            whole.verify(packed({**whole.files, INDEX: bytes(flipped)}))


def test_a_file_too_few_or_too_many_is_found(whole: Whole) -> None:
    files = whole.files
    for name in files:
        with pytest.raises(NotVerifiedError):
            whole.verify(packed({other: data for other, data in files.items() if other != name}))
    with pytest.raises(NotVerifiedError, match="not those of the index"):
        whole.verify(packed({**files, "another": b""}))


def test_an_archive_of_another_root_is_refused(whole: Whole) -> None:
    with pytest.raises(NotVerifiedError, match=r"root\.pem has the fingerprint"):
        verify(whole.evidence.archive, "00" * 32)
    verify(whole.evidence.archive, whole.evidence.root_fingerprint.upper().replace(" ", ":"))


def test_an_index_that_another_member_signed_is_refused(whole: Whole) -> None:
    index = decode_stored(EvidenceIndex, whole.files[INDEX])
    forged = {**whole.files, INDEX: whole.consortium.lead.sign(index)}
    with pytest.raises(NotVerifiedError, match=rf"not signed by {HOSPITAL}"):
        whole.verify(packed(forged))


def of_the_lead(name: str) -> Callable[[Whole], bytes]:
    return lambda whole: whole.consortium.lead_round.directory.read(name)


def signed_by_us(whole: Whole) -> bytes:
    return whole.consortium.hospital.sign(decode_stored(Receipt, whole.files["receipt.odc"]))


def of_another_uplink(whole: Whole) -> bytes:
    statement = decode_stored(ForgettingStatement, whole.files["forgotten.odc"])
    return whole.consortium.hospital.sign(statement.model_copy(update={"uplink_digest": bytes(32)}))


def desk_of_another_uplink(whole: Whole) -> bytes:
    return json.dumps({**json.loads(whole.files[DESK_FILE]), "uplink_digest": "00" * 32}).encode()


def other_words(whole: Whole) -> bytes:
    return whole.files["plain-words.txt"].replace(b"Warning", b"Remark")


def other_terms(whole: Whole) -> bytes:
    before = whole.consortium.id
    other = whole.consortium.publish(title="Another")
    whole.consortium.id = before
    found = whole.consortium.hospital.round(other)
    found.fetch_terms()
    return found.directory.read("terms.odc")


@pytest.mark.parametrize(
    ("name", "other", "reason"),
    [
        ("acceptance__odc", of_the_lead("acceptance.odc"), f"not signed by {HOSPITAL}"),
        ("uplink__odc", of_the_lead("uplink.odc"), f"not signed by {HOSPITAL}|another uplink_digest"),
        ("receipt__odc", of_the_lead("receipt.odc"), r"receipt\.odc has another"),
        ("receipt__odc", signed_by_us, r"receipt\.odc was not signed by the analyst"),
        ("forgotten__odc", of_another_uplink, "another uplink_digest"),
        ("desk__json", desk_of_another_uplink, "another uplink"),
        ("plain-words__txt", other_words, "not the text that was shown"),
        ("terms__odc", other_terms, r"terms\.odc is not that of the index"),
        ("uplink__odc", lambda _whole: None, "another"),
        ("terms__odc", lambda _whole: None, "malformed: KeyError"),
    ],
)
def test_what_does_not_belong_together_is_found_although_we_signed_it(
    whole: Whole, name: str, other: Callable[[Whole], bytes | None], reason: str
) -> None:
    with pytest.raises(NotVerifiedError, match=reason):
        whole.verify(whole.resealed(**{name: other(whole)}))


def test_a_ledger_that_was_cut_or_patched_is_found(whole: Whole) -> None:
    ledger = whole.files["ledger.odc"]
    for other in (b"", ledger[:-1], ledger + ledger, ledger.replace(b"accept uplink", b"begin  uplink")):
        with pytest.raises(NotVerifiedError):
            whole.verify(whole.resealed(ledger__odc=other))


def test_what_another_key_of_an_analyst_signed_is_found_where_the_terms_name_one(
    consortium: Consortium,
) -> None:
    """The lead may certify a second analyst: its word does not count in a round that has named the first."""
    analyst = consortium.analyst
    consortium.until_released(terms_schema=2, analyst_key=key_digest(public_key(analyst.certificate)))
    found = consortium.hospital_round
    found.receive()
    found.fetch_ledger()
    files, root = collect(consortium.hospital, found.directory), consortium.hospital.home.root()
    second = ec.generate_private_key(ec.SECP256R1())
    identity = Identity(found.terms.consortium_id, "analyst", "analyst")
    certificate = unlock_root(consortium.lead, PASSPHRASE).issue(second.public_key(), identity, now=NOW)
    assert verify(sealed(consortium.hospital, found.directory, files), fingerprint(root.certificate))
    for name, kind in (("receipt.odc", Receipt), ("downlink.odc", DownlinkManifest)):
        by_second = sign(decode_stored(kind, files[name]), second, certificate)
        archive = sealed(consortium.hospital, found.directory, {**files, name: by_second})
        with pytest.raises(NotVerifiedError, match=f"{name}: not by the key that the terms name"):
            verify(archive, fingerprint(root.certificate))


@pytest.mark.parametrize(
    "terms", [SUMS, RANDOM, BY_CLASS, NOISY], ids=["sums", "random", "by-class", "noisy"]
)
def test_a_round_of_sums_is_shown_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terms: dict[str, Any]
) -> None:
    consortium = ThreeOfThem(tmp_path, monkeypatch)
    try:
        consortium.until_released(**terms)
        found = consortium.hospital_round
        found.receive()
        found.fetch_ledger()
        (uplink,) = [fact for fact in found.evidence().facts if fact.startswith("uplink: ")]
        assert "masked sums, " in uplink
    finally:
        consortium.close()


def test_an_archive_says_which_steps_have_not_happened(consortium: Consortium) -> None:
    consortium.until_joined().publish(**SCHEMA_2)
    found = consortium.hospital_round
    with pytest.raises(NotPreparedError, match="odc terms show"):
        found.evidence()
    assert not found.directory.path.exists()

    def there() -> set[str]:
        made = found.evidence()
        verify(made.archive, made.root_fingerprint)
        assert set(made.absent) == set(STEPS) - set(made.files)
        return set(made.files) & set(STEPS)

    found.fetch_terms()
    expected = {"terms.odc"}
    assert there() == expected
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    earlier, _ = found.fetch_ledger()
    expected |= {"acceptance.odc", "ledger.odc"}
    assert there() == expected
    consortium.lead_round.create_anchor()
    found.prepare(consortium.table(1))
    expected |= {"uplink.odc", DESK_FILE}
    assert there() == expected
    found.contribute()
    expected |= {"receipt.odc"}
    assert there() == expected
    assert "it was fetched before the receipt" not in "\n".join(found.evidence().facts)
    found.directory.write("ledger.odc", earlier)
    assert "it was fetched before the receipt" in "\n".join(found.evidence().facts)


def test_a_revoked_certificate_is_a_doubt_but_does_not_keep_us_from_showing_what_we_have(
    consortium: Consortium,
) -> None:
    consortium.until_accepted()
    before = consortium.hospital_round.evidence()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    newest = consortium.lead.home.revocations_path.read_bytes()
    assert before.doubts == []
    assert any("revoked" in doubt for doubt in verify(before.archive, before.root_fingerprint, newest).doubts)
    consortium.hospital.home.revocations_path.write_bytes(newest)
    after = consortium.hospital_round.evidence()
    assert any(f"the certificate of {HOSPITAL} was revoked" in doubt for doubt in after.doubts)


def test_an_archive_can_be_made_and_verified_after_our_certificate_has_ended(consortium: Consortium) -> None:
    consortium.until_accepted()
    consortium.clock.now += 3 * 366 * 86400
    made = consortium.hospital_round.evidence()
    assert made.doubts == [f"the certificate of {HOSPITAL} had ended when this archive was made"]


def test_files_that_do_not_belong_together_are_not_signed(consortium: Consortium) -> None:
    consortium.until_accepted()
    foreign = consortium.lead_round.directory.read("acceptance.odc")
    (consortium.hospital_round.directory.path / "acceptance.odc").write_bytes(foreign)
    with pytest.raises(UnreadableFileError, match=f"do not belong together.*not signed by {HOSPITAL}"):
        consortium.hospital_round.evidence()


def test_a_ledger_that_failed_our_check_is_shown_with_a_doubt(consortium: Consortium) -> None:
    consortium.until_accepted()
    consortium.hospital_round.directory.write("ledger.refused.odc", b"whatever the analyst sent")
    consortium.hospital_round.directory.write("downlink.refused.odc", b"and what came with it")
    made = consortium.hospital_round.evidence()
    assert unzipped(made.archive)["ledger.refused.odc"] == b"whatever the analyst sent"
    assert unzipped(made.archive)["downlink.refused.odc"] == b"and what came with it"
    assert any("failed its check" in doubt for doubt in made.doubts)
    assert any("contradicts the ledger" in doubt for doubt in made.doubts)


@pytest.fixture
def bare(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the verifier where nothing but the standard library and its two libraries can be imported."""
    found = tmp_path / "libraries"
    found.mkdir()
    site = Path(cryptography.__file__).parents[1]
    for name in ("cryptography", "msgpack", "cffi", "pycparser"):
        (found / name).symlink_to(site / name)  # cffi and pycparser are what cryptography needs
    for compiled in site.glob("_cffi_backend*"):
        (found / compiled.name).symlink_to(compiled)
    script = tmp_path / "verify_evidence.py"
    script.write_text(Path(evidence_verifier.__file__).read_text())
    program = (
        "import runpy, sys; sys.path[:] = [path for path in sys.path if 'site-packages' not in path];"
        f" sys.path.append({str(found)!r}); sys.argv = sys.argv[1:];"
        " from importlib.util import find_spec;"
        " assert not any(map(find_spec, ('protocol', 'pydantic', 'numpy')));"
        " runpy.run_path(sys.argv[0], run_name='__main__')"
    )

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", program, str(script), *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_the_verifier_needs_nothing_of_ours(
    whole: Whole, bare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "good.zip").write_bytes(whole.evidence.archive)
    good = bare("good.zip", "--root", whole.evidence.root_fingerprint)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.splitlines()[:-1] == whole.evidence.facts
    assert good.stdout.endswith("VERIFIED: every signature and digest holds\n")
    (tmp_path / "bad.zip").write_bytes(packed({**whole.files, DESK_FILE: b"{}"}))
    bad = bare("bad.zip", "--root", whole.evidence.root_fingerprint)
    assert (bad.returncode, bad.stderr) == (1, "")
    assert bad.stdout == f"NOT VERIFIED: {DESK_FILE} is not the file that was signed\n"


def test_a_protected_directory_shows_the_same(whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole.consortium.hospital.home.path, tmp_path / "home")
    protect(Home(tmp_path / "home"), PASSPHRASE)
    session = Session(tmp_path / "home", whole.consortium.clock, passphrase=lambda: PASSPHRASE)
    shown = session.round(whole.consortium.id).evidence()
    assert {**unzipped(shown.archive), INDEX: b""} == {**whole.files, INDEX: b""}
