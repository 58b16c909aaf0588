"""A late consumer's side: what it prepares from its table, what it sends, what it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import latecomers
from protocol.errors import NotPermittedError, OutOfOrderError
from tests.harness.in_process import HOSPITAL, Consortium, rows
from user_client.custody.round_directory import ANCHOR_FILE, BASIS_FILE, SEALING_KEY_FILE
from user_client.errors import NotPreparedError
from user_client.sdk import PrivacyOptions


def released(consortium: Consortium, **changed: Any) -> Consortium:
    """Take a round whose hospital is late to its release."""
    consortium.until_anchored(late_consumers=[HOSPITAL], **changed)
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.compute()
    return consortium


def align(consortium: Consortium) -> None:
    """Do what the analyst's worker does."""
    uplink = latecomers.claim(consortium.analyst, "worker", 10)
    assert uplink is not None
    latecomers.compute(consortium.analyst, uplink, "worker")


def without_label(seed: int) -> pa.Table:
    return pa.table(rows(seed)).drop_columns(["y"])


@pytest.mark.parametrize("has_labels", [True, False])
def test_it_predicts_like_the_others_and_no_row_leaves(consortium: Consortium, has_labels: bool) -> None:
    released(consortium)
    table = pa.table(rows(5)) if has_labels else without_label(5)
    prepared = consortium.hospital_round.prepare(table)
    assert (prepared.rows, prepared.table_rows, prepared.information) == (0, 40, None)
    assert prepared.payload_bytes == 3 * 3 * 4
    assert consortium.hospital_round.contribute().payload_bytes == prepared.payload_bytes
    align(consortium)
    consortium.hospital_round.receive()
    consortium.lead_round.receive()
    fresh = pa.table(rows(9))
    ours, theirs = (session.round(consortium.id).predict(fresh) for session in consortium.sessions)
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, rtol=0, atol=1e-5)


def test_one_that_lacks_a_column_predicts_without_it(consortium: Consortium) -> None:
    released(consortium, latent_dim=2, absent_columns=[{"party": HOSPITAL, "columns": ["x2"]}])
    consortium.hospital_round.prepare(without_label(5).drop_columns(["x2"]))
    assert np.load(consortium.directory_of(consortium.hospital) / BASIS_FILE).shape == (2, 2)
    consortium.hospital_round.contribute()
    align(consortium)
    consortium.hospital_round.receive()
    fresh = pa.table(rows(9))
    spoilt = fresh.drop_columns(["x2"]).append_column("x2", pa.array(["no number"] * fresh.num_rows))
    ours = consortium.hospital_round.predict(fresh).probabilities
    np.testing.assert_array_equal(consortium.hospital_round.predict(spoilt).probabilities, ours)
    truth = np.array(fresh["y"].to_pylist())
    assert (np.where(ours[:, 1] > 0.5, "yes", "no") == truth).mean() > 0.6


def test_its_basis_fits_its_own_rows(consortium: Consortium) -> None:
    released(consortium, latent_dim=2)
    flat = {**rows(5), "x2": [0.0] * 40}
    consortium.hospital_round.prepare(pa.table(flat).drop_columns(["y"]))
    basis = np.load(consortium.directory_of(consortium.hospital) / BASIS_FILE)
    np.testing.assert_allclose(basis[2], 0, rtol=0, atol=1e-9)


def test_it_prepares_before_the_release_and_sends_after_it(consortium: Consortium) -> None:
    consortium.until_anchored(late_consumers=[HOSPITAL])
    consortium.hospital_round.prepare(consortium.table(5))
    with pytest.raises(OutOfOrderError, match="sends after the release"):
        consortium.hospital_round.contribute()
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.compute()
    consortium.hospital_round.contribute()
    align(consortium)
    assert consortium.hospital_round.receive()


def test_it_accepts_after_the_release_and_the_lead_seals_the_anchor_for_it(consortium: Consortium) -> None:
    consortium.until_joined().publish(late_consumers=[HOSPITAL])
    consortium.lead_round.accept()
    assert consortium.lead_round.create_anchor() == 1
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.compute()
    assert consortium.lead_round.share_anchor() == []
    consortium.hospital_round.accept()
    assert consortium.lead_round.share_anchor() == [HOSPITAL]
    assert consortium.lead_round.share_anchor() == []
    consortium.hospital_round.prepare(consortium.table(5))
    consortium.hospital_round.contribute()
    align(consortium)
    consortium.hospital_round.receive()
    assert len(consortium.hospital_round.predict(pa.table(rows(9))).labels) == 40
    with pytest.raises(NotPermittedError):
        consortium.hospital_round.share_anchor()


def test_a_lead_without_the_key_to_its_anchor_can_share_it_with_nobody(consortium: Consortium) -> None:
    consortium.until_joined().publish(late_consumers=[HOSPITAL])
    consortium.lead_round.accept()
    with pytest.raises(NotPreparedError, match="was not created on this machine"):
        consortium.lead_round.share_anchor()
    consortium.lead_round.create_anchor()
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.compute()
    consortium.hospital_round.accept()
    consortium.lead_round.directory.remove(SEALING_KEY_FILE)
    with pytest.raises(NotPreparedError, match="key to the anchor was erased"):
        consortium.lead_round.share_anchor()


def test_it_evaluates_on_the_rows_that_its_basis_was_not_drawn_from(consortium: Consortium) -> None:
    released(consortium)
    table = consortium.table(5)
    prepared = consortium.hospital_round.prepare(table, PrivacyOptions(hold_out=0.25))
    assert (prepared.rows, prepared.held_out_rows) == (0, 10)
    consortium.hospital_round.contribute()
    align(consortium)
    consortium.hospital_round.receive()
    found = consortium.hospital_round.evaluate(table)
    assert (found.rows, found.kept_back) == (10, True)


def test_it_verifies_the_ledger_with_its_own_steps(consortium: Consortium) -> None:
    released(consortium)
    consortium.hospital_round.prepare(consortium.table(5))
    consortium.hospital_round.contribute()
    align(consortium)
    consortium.hospital_round.receive()
    checked = consortium.hospital_round.fetch_ledger()[1]
    assert {ANCHOR_FILE, "receipt.odc", "downlink.odc"} <= set(checked.checked)


def test_waiting_for_the_downlink_ends_when_it_is_computed(consortium: Consortium) -> None:
    released(consortium)
    consortium.hospital_round.prepare(consortium.table(5))
    consortium.hospital_round.contribute()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            align(consortium)

    assert consortium.hospital_round.receive(wait_s=3600, pause=pause)
    assert len(pauses) == 2


def test_under_nri_dc_it_trains_its_own_model_and_forgets(consortium: Consortium) -> None:
    released(consortium, downlink="anchor-predictions", anchor={"kind": "gaussian", "rows": 60})
    consortium.hospital_round.prepare(without_label(5))
    consortium.hospital_round.contribute()
    assert not (consortium.directory_of(consortium.hospital) / BASIS_FILE).exists()
    align(consortium)
    consortium.hospital_round.receive()
    found = consortium.hospital_round.predict(pa.table(rows(9)))
    assert np.mean(np.array(found.labels) == rows(9)["y"]) > 0.9
