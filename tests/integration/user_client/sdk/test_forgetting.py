"""Forgetting: what is erased and stated, what is not lost without a word, and whether it is really gone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.codec import decode
from protocol.envelope import Signed, decode_stored
from protocol.messages import ErasedFile, ForgettingStatement
from runtime.files import erase
from tests.harness.in_process import Consortium, rows
from tests.harness.nri import FROM_A_SEED, LEADS_TO_THE_BASIS, NRI, names
from user_client.custody import round_directory
from user_client.custody.home import exclusive
from user_client.custody.round_directory import ANCHOR_FILES, BASIS_FILES
from user_client.errors import BusyError, ConfirmationNeededError, NotPreparedError
from user_client.sdk import forgetting


def plain_round(consortium: Consortium) -> Consortium:
    return consortium.until_released(latent_dim=2)


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


@pytest.mark.parametrize("after", [1, 2, "all"])
def test_a_command_that_is_killed_while_it_erases_states_all_of_it_in_the_end(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, after: int | str
) -> None:
    plain_round(consortium)
    found = consortium.hospital_round
    there = names(consortium) & {*BASIS_FILES, *ANCHOR_FILES}
    erased: list[Path] = []

    def erase_or_die(path: Path) -> int:
        if len(erased) == after:
            raise KeyboardInterrupt
        erased.append(path)
        return erase(path)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(forgetting, "erase", erase_or_die)
        killed.setattr(consortium.hospital, "sign", die)
        with pytest.raises(KeyboardInterrupt):
            found.forget(confirmed=True)
    assert not found.examine().is_forgotten
    assert {file.name for file in found.forget(confirmed=True).erased} == there
    assert found.examine().is_forgotten
    assert "forgetting.json" not in names(consortium)


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
