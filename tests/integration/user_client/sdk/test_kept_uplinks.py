"""The basis of an uplink that may have been received is never lost, whatever is prepared after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import DifferentUplinkError
from runtime.files import sync_directory
from tests.harness.cut_off import complete_first_upload, contribute_and_die
from tests.harness.in_process import PASSPHRASE, Consortium, rows
from tests.harness.nri import NRI
from tests.harness.sums import SUMS, ThreeOfThem
from user_client.custody.home import SECRETS
from user_client.custody.kept_uplinks import KEPT_FILES
from user_client.custody.protection import protect, unprotect
from user_client.custody.round_directory import BASIS_FILE, KEPT_FOLDER, MASK_KEY_FILE, PREPARED_FILE
from user_client.errors import MaskedBeforeError
from user_client.sdk import PrivacyOptions

Again = Callable[[Consortium], object]


@pytest.fixture
def cut_off(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> Consortium:
    """The hospital has sent all bytes of its first table; the lead is through."""
    consortium.until_anchored()
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.hospital_round.prepare(consortium.table(1))
    contribute_and_die(consortium.hospital_round, monkeypatch)
    return consortium


def basis_of(consortium: Consortium) -> bytes:
    return (consortium.directory_of(consortium.hospital) / BASIS_FILE).read_bytes()


def predicts_well(consortium: Consortium) -> bool:
    found = consortium.hospital_round.predict(pa.table(rows(9)))
    return bool(np.mean(np.array(found.labels) == rows(9)["y"]) > 0.9)


def die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def other_table(consortium: Consortium) -> object:
    return consortium.hospital_round.prepare(consortium.table(2))


def other_options(consortium: Consortium) -> object:
    return consortium.hospital_round.prepare(
        consortium.directory / "rows-1.csv", PrivacyOptions(permute_rows=True)
    )


def rows_in_memory(consortium: Consortium) -> object:
    return consortium.hospital_round.prepare(pa.table(rows(1)))


@pytest.mark.parametrize("again", [other_table, other_options, rows_in_memory])
def test_the_basis_of_an_uplink_that_is_completed_afterwards_is_the_one_that_is_used(
    cut_off: Consortium, again: Again
) -> None:
    first = basis_of(cut_off)
    again(cut_off)
    assert basis_of(cut_off) != first
    complete_first_upload(cut_off, cut_off.hospital)
    with pytest.raises(DifferentUplinkError) as caught:
        cut_off.hospital_round.contribute()
    assert "prepared before this one" in caught.value.hint
    assert basis_of(cut_off) == first
    cut_off.compute()
    cut_off.hospital_round.receive()
    assert predicts_well(cut_off)


def test_receiving_alone_finds_the_basis_too(cut_off: Consortium) -> None:
    other_table(cut_off)
    complete_first_upload(cut_off, cut_off.hospital)
    cut_off.compute()
    cut_off.hospital_round.receive()
    assert predicts_well(cut_off)


def test_the_ledger_with_the_kept_uplink_is_ours(cut_off: Consortium) -> None:
    other_table(cut_off)
    complete_first_upload(cut_off, cut_off.hospital)
    _, checked = cut_off.hospital_round.fetch_ledger()
    assert "uplink.odc" in checked.checked


def test_preparing_the_received_table_again_finds_it_back(cut_off: Consortium) -> None:
    prepared, first = cut_off.hospital_round.prepared, basis_of(cut_off)
    other_table(cut_off)
    complete_first_upload(cut_off, cut_off.hospital)
    assert cut_off.hospital_round.prepare(cut_off.directory / "rows-1.csv") == prepared
    assert basis_of(cut_off) == first
    cut_off.hospital_round.contribute()


def test_of_several_the_received_one_is_picked(cut_off: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    first = basis_of(cut_off)
    other_table(cut_off)
    with monkeypatch.context() as patch:  # the second dies before its first byte
        patch.setattr("user_client.sdk.uplink.send_uplink", die)
        with pytest.raises(KeyboardInterrupt):
            cut_off.hospital_round.contribute()
    rows_in_memory(cut_off)
    kept = cut_off.directory_of(cut_off.hospital) / KEPT_FOLDER
    assert len(list(kept.iterdir())) == 2
    complete_first_upload(cut_off, cut_off.hospital)
    with pytest.raises(DifferentUplinkError):
        cut_off.hospital_round.contribute()
    assert basis_of(cut_off) == first
    assert not kept.exists()


def test_once_another_is_received_nothing_is_kept(cut_off: Consortium) -> None:
    other_table(cut_off)
    second = basis_of(cut_off)
    cut_off.hospital_round.contribute()
    assert basis_of(cut_off) == second
    assert not (cut_off.directory_of(cut_off.hospital) / KEPT_FOLDER).exists()
    cut_off.compute()
    cut_off.hospital_round.receive()
    assert predicts_well(cut_off)


def test_what_has_not_begun_to_leave_is_not_kept(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.prepare(consortium.table(2))
    assert not (consortium.directory_of(consortium.hospital) / KEPT_FOLDER).exists()


@pytest.mark.parametrize(
    "moves", range(len(KEPT_FILES) + 1)
)  # all but a file of an earlier version, and two folders
def test_a_move_that_is_cut_off_goes_on(
    cut_off: Consortium, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """Both ways: aside when another is prepared, and back when the receipt is there."""
    first, step = basis_of(cut_off), "user_client.custody.kept_uplinks.sync_directory"

    def dies_after(count: int) -> None:
        left = iter(range(count))

        def sync(path: Path) -> None:
            if next(left, None) is None:
                die()
            sync_directory(path)

        monkeypatch.setattr(step, sync)

    dies_after(moves)
    with pytest.raises(KeyboardInterrupt):
        other_table(cut_off)
    monkeypatch.setattr(step, sync_directory)
    if moves % 2:  # the receipt may come before another is prepared again
        other_table(cut_off)
    complete_first_upload(cut_off, cut_off.hospital)
    cut_off.compute()
    dies_after(max(0, moves - 2))  # the folder is there already
    with suppress(KeyboardInterrupt):  # nothing may have been moved before
        cut_off.hospital_round.receive()
    monkeypatch.setattr(step, sync_directory)
    cut_off.hospital_round.receive()
    assert basis_of(cut_off) == first
    assert predicts_well(cut_off)


def test_what_is_kept_is_sealed_and_opened_with_the_directory(cut_off: Consortium) -> None:
    first = basis_of(cut_off)
    other_table(cut_off)
    protect(cut_off.hospital.home, PASSPHRASE)
    kept = [path for path in cut_off.hospital.home.secrets() if KEPT_FOLDER in path.parts]
    assert {path.name for path in kept} >= {BASIS_FILE, PREPARED_FILE}
    assert first not in {path.read_bytes() for path in kept}
    complete_first_upload(cut_off, cut_off.hospital)
    cut_off.hospital.home.unlock(PASSPHRASE)
    with pytest.raises(DifferentUplinkError):
        cut_off.hospital_round.contribute()
    unprotect(cut_off.hospital.home, PASSPHRASE)
    assert basis_of(cut_off) == first


def test_every_secret_of_an_uplink_is_one_where_it_is_kept_too() -> None:
    in_place = {name for name in KEPT_FILES if f"collaborations/*/{name}" in SECRETS}
    assert in_place == {name for name in KEPT_FILES if f"collaborations/*/{KEPT_FOLDER}/*/{name}" in SECRETS}


def test_forgetting_names_and_erases_what_is_kept(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored(**NRI)
    consortium.hospital_round.prepare(consortium.table(1))
    contribute_and_die(consortium.hospital_round, monkeypatch)
    consortium.hospital_round.prepare(consortium.table(2))
    examined = consortium.hospital_round.examine()
    assert not examined.unknown
    assert sum(name.endswith(BASIS_FILE) for name in examined.held) == 2
    statement = consortium.hospital_round.forget(confirmed=True)
    assert sum(file.name.endswith(BASIS_FILE) for file in statement.erased) == 2
    assert consortium.hospital_round.examine().held == ()


# sums


@pytest.fixture
def summing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreeOfThem]:
    found = ThreeOfThem(tmp_path, monkeypatch)
    yield found
    found.close()


def test_sums_that_were_sent_whole_are_not_prepared_anew(
    summing: ThreeOfThem, monkeypatch: pytest.MonkeyPatch
) -> None:
    summing.until_anchored(**SUMS)
    summing.hospital_round.prepare(summing.table(1))
    directory = summing.directory_of(summing.hospital)
    contribute_and_die(summing.hospital_round, monkeypatch)
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}
    for table in (summing.table(2), pa.table(rows(1))):
        with pytest.raises(MaskedBeforeError):
            summing.hospital_round.prepare(table)
    with pytest.raises(MaskedBeforeError):
        summing.hospital_round.prepare(summing.directory / "rows-1.csv", PrivacyOptions(hold_out=0.3))
    assert before == {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}
    complete_first_upload(summing, summing.hospital)
    with pytest.raises(DifferentUplinkError):
        summing.hospital_round.prepare(summing.directory / "rows-2.csv")
    assert summing.hospital_round.contribute().party == "hospital-a"


def test_no_copy_of_a_kept_basis_stays_on_the_disk(cut_off: Consortium) -> None:
    """A descriptor sees the blocks of a file whose name has gone."""
    with (cut_off.directory_of(cut_off.hospital) / BASIS_FILE).open("rb") as blocks:
        before = blocks.read()
        other_table(cut_off)
        blocks.seek(0)
        assert blocks.read() == bytes(len(before))


def test_the_key_of_a_mask_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = ThreeOfThem(tmp_path, monkeypatch)
    try:
        consortium.until_anchored(**SUMS)
        consortium.hospital_round.prepare(consortium.table(1))
        with (consortium.directory_of(consortium.hospital) / MASK_KEY_FILE).open("rb") as blocks:
            length = len(blocks.read())
            consortium.hospital_round.contribute()
            blocks.seek(0)
            assert blocks.read() == bytes(length)
    finally:
        consortium.close()
