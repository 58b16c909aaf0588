"""NRI-DC: predictions for the anchor come back, the basis is forgotten, each party has a model of its own."""

from __future__ import annotations

import struct
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
from protocol.envelope import decode_stored
from protocol.errors import DifferentUplinkError, MalformedMessageError, ShapeMismatchError
from protocol.messages import DownlinkManifest, UplinkManifest
from tests.harness.in_process import HOSPITAL, Consortium, downlink_bytes, replay, rows
from tests.harness.nri import ANCHOR_ROWS, FROM_A_SEED, LEADS_TO_THE_BASIS, NRI, names
from user_client.custody.round_directory import BASIS_FILES
from user_client.errors import ConnectionFailedError
from user_client.onnx_model.process import Model
from user_client.sdk import downlink, plain_words, uplink


def manifest_of(consortium: Consortium, party: str) -> DownlinkManifest:
    with consortium.analyst.records.begin() as unit:
        found = unit.downlink(consortium.id, party)
        assert found is not None
        return decode_stored(DownlinkManifest, found.manifest)


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
    blobs = consortium.analyst.blobs
    sizes = {
        len(blobs.read(key)) for key in blobs.whole_keys() if key.startswith(f"{consortium.id}/results/")
    }
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
    expected = Model(kept["model"]).run(
        (kept["anchor_reps"][HOSPITAL] @ change).astype(np.float32), "probabilities"
    )
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


def test_a_command_killed_after_the_receipt_forgets_even_if_the_analyst_is_down_then(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_down(*_: object) -> bool:
        raise ConnectionFailedError("no answer")

    consortium.until_anchored(**NRI)
    consortium.hospital_round.prepare(consortium.table(1))
    with monkeypatch.context() as patched:
        patched.setattr(uplink, "forget_if_required", lambda *_: None)
        consortium.hospital_round.contribute()
    monkeypatch.setattr(uplink, "is_asked_for_again", is_down)
    with pytest.raises(ConnectionFailedError):
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


@pytest.mark.parametrize("shape", [(ANCHOR_ROWS - 1, 2), (ANCHOR_ROWS, 3)])
def test_predictions_of_another_shape_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    consortium.until_released(**NRI)
    sent = downlink_bytes(consortium)
    (length,) = struct.unpack_from("<I", sent)
    manifest = manifest_of(consortium, HOSPITAL)
    predictions = manifest.anchor_predictions.model_copy(update={"shape": shape})
    signed = consortium.analyst.sign(manifest.model_copy(update={"arrays": (predictions,)}))
    replay(monkeypatch, consortium, struct.pack("<I", len(signed)) + signed + sent[4 + length :])
    with pytest.raises(ShapeMismatchError):
        consortium.hospital_round.receive()


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
