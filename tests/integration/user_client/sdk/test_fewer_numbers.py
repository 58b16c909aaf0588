"""An institution that sends fewer numbers of a row than the others: what it prepares and what it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import downlinks
from protocol.errors import InputError, ShapeMismatchError
from protocol.messages import UplinkManifest
from tests.harness.in_process import Consortium, rows
from user_client.custody.round_directory import BASIS_FILE
from user_client.errors import SignalLossError
from user_client.sdk import PrivacyOptions, check_table

FEWER: dict[str, Any] = {"latent_dim": 3, "least_latent_dim": 1, "alignment": {"method": "imakura"}}
TWO = PrivacyOptions(latent_dim=2)


def sent(consortium: Consortium, **changed: Any) -> Consortium:
    consortium.until_anchored(**{**FEWER, **changed})
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.hospital_round.prepare(consortium.table(1), TWO)
    consortium.hospital_round.contribute()
    return consortium


def test_what_leaves_has_as_many_numbers_as_it_has_chosen(consortium: Consortium) -> None:
    consortium.until_anchored(**FEWER)
    prepared = consortium.hospital_round.prepare(consortium.table(1), TWO)
    assert (prepared.latent_dim, prepared.most_latent_dim) == (2, 3)
    assert [array.shape for array in prepared.arrays] == [(40, 2), (3, 2), (40,)]
    assert prepared.formula_bytes == (40 + 3) * 2 * 4
    assert np.load(consortium.directory_of(consortium.hospital) / BASIS_FILE).shape == (3, 2)


def test_without_a_choice_it_sends_the_most(consortium: Consortium) -> None:
    consortium.until_anchored(**FEWER)
    assert consortium.hospital_round.prepare(consortium.table(1)).latent_dim == 3


def test_another_choice_is_prepared_anew_and_the_same_is_not(consortium: Consortium) -> None:
    consortium.until_anchored(**FEWER)
    table = consortium.table(1)
    first = consortium.hospital_round.prepare(table, TWO)
    assert consortium.hospital_round.prepare(table, TWO) == first
    assert consortium.hospital_round.prepare(table, PrivacyOptions(latent_dim=1)).latent_dim == 1


@pytest.mark.parametrize(("chosen", "says"), [(0, "from 1 to 3 numbers of each row, got 0"), (4, "got 4")])
def test_a_number_that_the_terms_do_not_allow_is_refused(
    consortium: Consortium, chosen: int, says: str
) -> None:
    consortium.until_anchored(**FEWER)
    with pytest.raises(InputError, match=says):
        consortium.hospital_round.prepare(consortium.table(1), PrivacyOptions(latent_dim=chosen))


def test_terms_that_leave_no_choice_say_so(consortium: Consortium) -> None:
    consortium.until_anchored(latent_dim=3)
    with pytest.raises(InputError, match="the terms ask for 3 numbers of each row from every institution"):
        consortium.hospital_round.prepare(consortium.table(1), TWO)


def test_both_predict_and_each_gets_a_change_of_basis_of_its_own_shape(consortium: Consortium) -> None:
    sent(consortium).compute()
    shapes = []
    for round_ in (consortium.lead_round, consortium.hospital_round):
        shapes.append(round_.receive().change_of_basis.shape)
        fresh = rows(9, 200)
        right = np.array(round_.predict(pa.table(fresh)).labels) == np.array(fresh["y"])
        assert right.mean() > 0.85
    assert shapes == [(3, 3), (2, 3)]
    told: Any = consortium.lead_round.report()
    assert sorted(each["latent_dim"] for each in told["parties"]) == [2, 3]


def test_a_downlink_for_another_number_of_numbers_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(consortium)
    of_lead = consortium.lead_round.directory.load(UplinkManifest)
    monkeypatch.setattr(downlinks, "stored_manifest", lambda _: of_lead)
    consortium.compute()
    with pytest.raises(ShapeMismatchError, match=r"change of basis: expected \(2, 3\), got \(3, 3\)"):
        consortium.hospital_round.receive()


def test_a_table_is_checked_with_what_each_number_keeps(consortium: Consortium) -> None:
    consortium.until_anchored(**FEWER)
    found = check_table(consortium.hospital_round.fetch_terms(keep=False), pa.table(rows(1, 200)))
    assert [one.latent_dim for one in found.to_choose_from] == [3, 2, 1]
    kept = [one.kept for one in found.to_choose_from]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == pytest.approx(1)


def test_one_that_sends_too_little_of_its_score_is_told_to_send_more(consortium: Consortium) -> None:
    consortium.until_anchored(**FEWER, least_signal=0.99)
    rng = np.random.default_rng(0)
    table = {f"x{index}": (4 - index) * rng.uniform(-1, 1, 300) for index in range(3)}
    table["y"] = np.where(table["x2"] + 0.2 * rng.normal(size=300) > 0, "yes", "no")
    prepared = consortium.hospital_round.prepare(pa.table(table), PrivacyOptions(latent_dim=1))
    assert prepared.signal is not None
    assert prepared.signal.kept < 0.99
    with pytest.raises(SignalLossError) as caught:
        consortium.hospital_round.contribute()
    assert "odc prepare TABLE --latent-dim N` with N up to 3" in caught.value.hint


def test_a_copy_of_a_forgotten_basis_is_known_by_its_own_shape(consortium: Consortium) -> None:
    sent(consortium)
    directory = consortium.directory_of(consortium.hospital)
    (directory / "my-copy.npy").write_bytes((directory / BASIS_FILE).read_bytes())
    consortium.hospital_round.forget(confirmed=True)
    assert "my-copy.npy" in consortium.hospital_round.examine().held
