"""NRI-DC: predictions for the anchor come back, the basis is forgotten, each party has a model of its own."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.compute.sequence import RoundResult, RoundSpec
from analyst_server.services import rounds
from analyst_server.services.analyst import Analyst
from analyst_server.services.downlinks import result_key
from metering import formulas
from metering.explanation import downlink_formula_bytes
from protocol.codec import decode
from protocol.envelope import Signed, decode_stored
from protocol.errors import DifferentUplinkError, MalformedMessageError, ShapeMismatchError
from protocol.messages import DownlinkManifest, ErasedFile, ForgettingStatement, UplinkManifest
from protocol.terms import Terms
from tests.harness.in_process import HOSPITAL, Consortium, rows
from user_client.custody import round_directory
from user_client.custody.home import exclusive
from user_client.custody.round_directory import (
    ANCHOR_FILE,
    ANCHOR_FILES,
    BASIS_FILES,
    SEALING_KEY_FILE,
)
from user_client.errors import BusyError, ConfirmationNeededError, NotPreparedError
from user_client.sdk import downlink, plain_words, uplink

ANCHOR_ROWS = 120
NRI: dict[str, Any] = {
    "downlink": "anchor-predictions",
    "anchor": {"kind": "gaussian", "rows": ANCHOR_ROWS},
    "latent_dim": 2,
}
FROM_A_SEED = {ANCHOR_FILE, SEALING_KEY_FILE}
LEADS_TO_THE_BASIS = {*BASIS_FILES, *ANCHOR_FILES}


def names(consortium: Consortium) -> set[str]:
    return {path.name for path in consortium.directory_of(consortium.hospital).iterdir()}


def manifest_of(consortium: Consortium, party: str) -> DownlinkManifest:
    with consortium.analyst.records.begin() as unit:
        found = unit.downlink(consortium.id, party)
        assert found is not None
        return decode_stored(DownlinkManifest, found.manifest)


def plain_round(consortium: Consortium) -> Consortium:
    return consortium.until_released(latent_dim=2)


# the round


def test_the_receipt_is_followed_by_forgetting_at_once(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    assert not names(consortium) & {*BASIS_FILES}
    assert names(consortium) >= FROM_A_SEED  # to train on


def test_the_downlink_has_neither_the_change_of_basis_nor_the_model(consortium: Consortium) -> None:
    consortium.until_released(**NRI)
    manifest = manifest_of(consortium, HOSPITAL)
    assert [(spec.name, spec.shape) for spec in manifest.arrays] == [("anchor_predictions", (ANCHOR_ROWS, 2))]


def test_neither_of_them_is_kept_by_the_analyst_to_be_sent(consortium: Consortium) -> None:
    consortium.until_released(**NRI)
    results = consortium.settings.blob_dir / consortium.id / "results"
    sizes = {path.stat().st_size for path in results.iterdir()}
    assert sizes == {ANCHOR_ROWS * 2 * 4}


def test_the_predictions_are_those_of_the_model_for_the_anchor_of_that_party(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_contributed(**NRI)
    kept: dict[str, Any] = {}
    plain, blobs = rounds.finish, consortium.analyst.blobs

    def finish(
        analyst: Analyst, round_id: str, owner: str, spec: RoundSpec, result: RoundResult, **options: Any
    ) -> None:
        kept["changes"] = np.array(result.alignment.changes_of_basis.open(blobs))
        kept["model"] = result.model.onnx_file.open(blobs).tobytes()
        kept["anchor_reps"] = {party.party: np.array(party.anchor_rep.open(blobs)) for party in spec.parties}
        kept["order"] = [party.party for party in spec.parties]
        plain(analyst, round_id, owner, spec, result, **options)

    monkeypatch.setattr(rounds, "finish", finish)
    consortium.compute()
    change = kept["changes"][kept["order"].index(HOSPITAL)]
    expected = downlink.run_model(kept["model"], (kept["anchor_reps"][HOSPITAL] @ change).astype(np.float32))
    spec = manifest_of(consortium, HOSPITAL).anchor_predictions
    blob = blobs.read(result_key(consortium.id, spec))
    found = np.frombuffer(blob, "<f4").reshape(spec.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)  # the ONNX file's own tolerance


def test_nothing_that_leads_to_the_basis_is_left_after_receiving(consortium: Consortium) -> None:
    consortium.until_released(**NRI)
    consortium.hospital_round.receive()
    assert not names(consortium) & LEADS_TO_THE_BASIS
    assert names(consortium) >= {"own_model.npz", "downlink.odc", "forgotten.odc"}
    assert not names(consortium) & {"change_of_basis.bin", "model.onnx"}
    assert consortium.hospital_round.examine().is_forgotten


def test_our_own_model_predicts_what_everybodys_model_would(consortium: Consortium) -> None:
    consortium.until_released(**NRI)
    consortium.hospital_round.receive()
    table = rows(99, 200)
    found = consortium.hospital_round.predict(pa.table(table))
    assert found.probabilities.shape == (200, 2)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.mean(np.array(found.labels) == np.array(table["y"])) > 0.8
    assert consortium.hospital_round.own_model().held_out_agreement > 0.8


def test_receiving_again_shows_the_same_and_asks_nobody(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released(**NRI)
    first = consortium.hospital_round.receive()
    monkeypatch.setattr(consortium.hospital.connection, "stream", None)
    assert consortium.hospital_round.receive() == first


def test_contributing_again_shows_the_receipt(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    consortium.hospital_round.prepare(consortium.directory / "rows-1.csv")
    assert consortium.hospital_round.contribute().party == HOSPITAL
    assert not names(consortium) & {*BASIS_FILES}


def test_another_table_is_refused_after_forgetting(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    with pytest.raises(DifferentUplinkError):
        consortium.hospital_round.prepare(consortium.table(7))


def test_a_command_killed_after_the_receipt_forgets_when_run_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored(**NRI)
    consortium.hospital_round.prepare(consortium.table(1))
    with monkeypatch.context() as patched:
        patched.setattr(uplink, "forget_if_required", lambda *_: None)
        consortium.hospital_round.contribute()
    assert names(consortium) >= {*BASIS_FILES}
    consortium.hospital_round.contribute()
    assert not names(consortium) & {*BASIS_FILES}


def test_a_command_killed_after_training_forgets_when_run_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released(**NRI)
    with monkeypatch.context() as patched:
        patched.setattr(downlink, "forget_if_required", lambda *_: None)
        consortium.hospital_round.receive()
    assert names(consortium) >= FROM_A_SEED
    consortium.hospital_round.receive()
    assert not names(consortium) & LEADS_TO_THE_BASIS


def test_a_command_killed_between_model_and_manifest_receives_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released(**NRI)
    directory = consortium.directory_of(consortium.hospital)
    consortium.lead_round.receive()
    (directory / "own_model.npz").write_bytes(b"half")
    consortium.hospital_round.forget()  # must leave what training needs
    consortium.hospital_round.receive()
    assert consortium.hospital_round.own_model().held_out_agreement > 0.5


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"shape": (ANCHOR_ROWS - 1, 2)}, ShapeMismatchError),
        ({"shape": (ANCHOR_ROWS, 3)}, ShapeMismatchError),
    ],
)
def test_predictions_of_another_shape_are_refused(
    consortium: Consortium, arrays: dict[str, Any], error: type[Exception]
) -> None:
    consortium.until_contributed(**NRI)
    found = consortium.hospital_round.terms
    with pytest.raises(error):
        downlink._check_anchor_predictions(predictions_manifest(found, **arrays), found)


def predictions_manifest(found: Terms, **changed: Any) -> DownlinkManifest:
    spec = {"name": "anchor_predictions", "dtype": "f4", "shape": (ANCHOR_ROWS, 2), "digest": bytes(32)}
    return DownlinkManifest.model_validate(
        {
            "collaboration_id": found.collaboration_id,
            "terms_digest": bytes(32),
            "party": HOSPITAL,
            "uplink_digest": bytes(32),
            "arrays": ({**spec, **changed},),
            "model_parameters": 9,
        },
    )


def test_a_change_of_basis_is_refused_where_the_terms_have_predictions(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analyst may send what it likes: it must not get a client to use it."""
    plain = rounds.spec_of

    def spec_of(*asked: Any, **options: Any) -> RoundSpec:
        return replace(plain(*asked, **options), returns_anchor_predictions=False)

    monkeypatch.setattr(rounds, "spec_of", spec_of)
    consortium.until_released(**NRI)
    with pytest.raises(MalformedMessageError, match="must contain anchor predictions and nothing else"):
        consortium.hospital_round.receive()


def test_predictions_that_are_no_probabilities_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_contributed(**NRI)
    plain, blobs = rounds.finish, consortium.analyst.blobs

    def spoil(
        analyst: Analyst, round_id: str, owner: str, spec: RoundSpec, result: RoundResult, **options: Any
    ) -> None:
        predictions = result.model.anchor_predictions
        assert predictions is not None
        blobs.write(predictions.key, (predictions.open(blobs) * np.float32(np.nan)).tobytes())
        plain(analyst, round_id, owner, spec, result, **options)

    monkeypatch.setattr(rounds, "finish", spoil)
    consortium.compute()
    with pytest.raises(MalformedMessageError, match="probabilities that add up to 1"):
        consortium.hospital_round.receive()
    assert "own_model.npz" not in names(consortium)


# what is said and counted


def test_the_terms_say_what_comes_back_and_what_is_erased(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    text = plain_words(consortium.hospital_round.terms)
    assert f"{ANCHOR_ROWS} anchor rows ({ANCHOR_ROWS * 2 * 4} bytes)" in text
    assert "Other institutions see the model" not in text
    assert "It erases the basis" in text
    assert "uniform anchor" not in text


def test_few_anchor_rows_are_warned_of(consortium: Consortium) -> None:
    consortium.until_accepted(**{**NRI, "anchor": {"kind": "gaussian", "rows": 59}})
    found = consortium.hospital_round.terms
    assert "trained on 59 anchor rows" in plain_words(found)
    enough = found.model_copy(update={"anchor": found.anchor.model_copy(update={"rows": 60})})
    assert "few anchor rows" not in plain_words(enough)


@pytest.mark.parametrize("given", [{}, NRI])
def test_rows_are_permuted_and_the_basis_perturbed_under_nri_alone(
    consortium: Consortium, given: dict[str, Any]
) -> None:
    consortium.until_contributed(**given)
    manifest = consortium.hospital_round.directory.load(UplinkManifest)
    assert manifest.privacy.permute_rows == bool(given)
    assert manifest.privacy.perturb_basis == (0.05 if given else None)


def test_the_predictions_stand_for_formula_4(consortium: Consortium) -> None:
    consortium.until_accepted(**NRI)
    found = consortium.hospital_round.terms
    expected = formulas.anchor_predictions(anchor_rows=ANCHOR_ROWS, classes=2, bits=32)
    assert downlink_formula_bytes(found, 10**6) == expected == ANCHOR_ROWS * 2 * 4


# forgetting


def test_the_statement_names_what_was_erased_when_and_of_which_uplink(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    statement = consortium.hospital_round.forget()
    assert {file.name for file in statement.erased} == {*BASIS_FILES}
    assert all(file.size_bytes > 0 for file in statement.erased)
    assert {file.erased_at for file in statement.erased} == {consortium.clock()}
    receipt = consortium.hospital_round.contribute()
    assert statement.uplink_digest == receipt.uplink_digest


def test_forgetting_the_anchor_later_keeps_what_was_stated(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    first = consortium.hospital_round.forget()
    consortium.compute()
    consortium.clock.now += 100
    consortium.hospital_round.receive()
    both = consortium.hospital_round.forget()
    assert both.erased[: len(first.erased)] == first.erased
    later = both.erased[len(first.erased) :]
    assert {(file.name, file.erased_at) for file in later} == {
        (name, consortium.clock()) for name in FROM_A_SEED
    }


def test_nothing_is_lost_without_a_word(consortium: Consortium) -> None:
    plain_round(consortium)
    before = names(consortium)
    with pytest.raises(ConfirmationNeededError, match="predict"):
        consortium.hospital_round.forget()
    assert names(consortium) == before


def test_an_uplink_that_is_not_sent_is_not_erased_without_a_word(consortium: Consortium) -> None:
    consortium.until_anchored(**NRI)
    consortium.hospital_round.prepare(consortium.table(1))
    with pytest.raises(ConfirmationNeededError, match="not acknowledged"):
        consortium.hospital_round.forget()
    statement = consortium.hospital_round.forget(confirmed=True)
    assert statement.uplink_digest is None
    consortium.hospital_round.prepare(consortium.directory / "rows-1.csv")  # the anchor was kept
    assert consortium.hospital_round.examine().held == ("basis.npy", "uplink.payload")


def test_without_the_basis_an_ordinary_round_predicts_no_more(consortium: Consortium) -> None:
    plain_round(consortium)
    consortium.hospital_round.receive()
    consortium.hospital_round.forget(confirmed=True)
    assert not names(consortium) & LEADS_TO_THE_BASIS
    with pytest.raises(NotPreparedError, match="secret basis was forgotten on 20") as caught:
        consortium.hospital_round.predict(pa.table(rows(9)))
    assert "cannot be recovered" in caught.value.hint


def test_without_the_basis_the_downlink_of_an_ordinary_round_is_of_no_use(consortium: Consortium) -> None:
    plain_round(consortium)
    consortium.hospital_round.forget(confirmed=True)
    with pytest.raises(NotPreparedError, match="secret basis was forgotten on 20"):
        consortium.hospital_round.receive()


def test_there_must_be_something_to_forget(consortium: Consortium) -> None:
    consortium.until_accepted(**NRI)
    with pytest.raises(NotPreparedError, match="nothing to forget"):
        consortium.hospital_round.forget(confirmed=True)


def test_forgetting_waits_for_a_command_at_work(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    with exclusive(consortium.directory_of(consortium.hospital)), pytest.raises(BusyError):
        consortium.hospital_round.forget()


def test_what_a_killed_command_left_half_written_is_erased_too(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    directory = consortium.directory_of(consortium.hospital)
    (directory / ".basis.npy.77.part").write_bytes(b"half a basis")
    assert ".basis.npy.77.part" in consortium.hospital_round.examine().held
    consortium.hospital_round.forget()
    assert consortium.hospital_round.examine().held == ()


# looking whether it is gone


@pytest.fixture
def forgotten(consortium: Consortium) -> Consortium:
    return consortium.until_contributed(**NRI)


def test_every_file_has_a_role(forgotten: Consortium) -> None:
    found = forgotten.hospital_round.examine()
    assert {file.name for file in found.files} == names(forgotten)
    assert all(file.role for file in found.files)


def test_every_file_of_a_round_has_a_role() -> None:
    named = {value for name, value in vars(round_directory).items() if name.endswith("_FILE")}
    assert named | {".lock"} == set(round_directory.ROLES)


def test_an_unknown_file_is_named(forgotten: Consortium) -> None:
    directory = forgotten.directory_of(forgotten.hospital)
    (directory / "notes").mkdir()
    (directory / "notes" / "todo.txt").write_text("remember")
    found = forgotten.hospital_round.examine()
    assert (found.unknown, found.is_forgotten) == (("notes/todo.txt",), False)


def test_the_basis_brought_back_from_a_backup_is_found(consortium: Consortium) -> None:
    consortium.until_anchored(**NRI)
    consortium.hospital_round.prepare(consortium.table(1))
    directory = consortium.directory_of(consortium.hospital)
    backup = {name: (directory / name).read_bytes() for name in BASIS_FILES}
    consortium.hospital_round.contribute()
    (directory / "basis.npy").write_bytes(backup["basis.npy"])
    (directory / "old.npy").write_bytes(backup["basis.npy"])
    (directory / "old.bin").write_bytes(backup["uplink.payload"])
    found = consortium.hospital_round.examine()
    assert (found.held, found.unknown) == (("basis.npy", "old.bin", "old.npy"), ())
    assert not found.is_forgotten


def test_a_damaged_file_of_numpys_is_unknown(forgotten: Consortium) -> None:
    directory = forgotten.directory_of(forgotten.hospital)
    buffer = io.BytesIO()
    np.save(buffer, np.eye(3))
    (directory / "damaged.npy").write_bytes(buffer.getvalue()[:20])
    assert forgotten.hospital_round.examine().unknown == ("damaged.npy",)


def test_a_statement_somebody_else_signed_is_not_believed(forgotten: Consortium) -> None:
    path = forgotten.directory_of(forgotten.hospital) / "forgotten.odc"
    statement = decode_stored(ForgettingStatement, path.read_bytes())
    path.write_bytes(forgotten.lead.sign(statement))
    assert not forgotten.hospital_round.examine().is_forgotten


def test_a_changed_statement_is_not_believed(forgotten: Consortium) -> None:
    path = forgotten.directory_of(forgotten.hospital) / "forgotten.odc"
    signed = decode(Signed, path.read_bytes())
    path.write_bytes(path.read_bytes().replace(signed.signature[-8:], bytes(8)))
    found = forgotten.hospital_round.examine()
    assert not found.statement_is_ours
    path.write_bytes(b"no message at all")
    assert forgotten.hospital_round.examine().statement is None


def test_a_statement_of_another_uplink_is_not_believed(forgotten: Consortium) -> None:
    path = forgotten.directory_of(forgotten.hospital) / "forgotten.odc"
    statement = decode_stored(ForgettingStatement, path.read_bytes())
    path.write_bytes(forgotten.hospital.sign(statement.model_copy(update={"uplink_digest": bytes(32)})))
    assert not forgotten.hospital_round.examine().is_forgotten


def test_the_statement_holds_after_the_certificate_has_ended(forgotten: Consortium) -> None:
    forgotten.clock.now += 100 * 365 * 86400
    assert forgotten.hospital_round.examine().is_forgotten


def test_a_statement_without_files_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ForgettingStatement(
            collaboration_id="a" * 32, terms_digest=bytes(32), party="x", uplink_digest=None, erased=()
        )
    assert ErasedFile(name="basis.npy", size_bytes=0, erased_at=0).size_bytes == 0


def test_a_round_that_will_not_be_released_is_given_up_with_its_anchor(consortium: Consortium) -> None:
    consortium.until_contributed(**NRI)
    consortium.hospital_round.forget(confirmed=True)
    assert not names(consortium) & LEADS_TO_THE_BASIS
    assert consortium.hospital_round.examine().is_forgotten
    consortium.compute()
    with pytest.raises(NotPreparedError, match="key to the anchor was erased"):
        consortium.hospital_round.receive()
