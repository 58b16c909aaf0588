from __future__ import annotations

from pathlib import Path

import pytest

from protocol.envelope import sign
from protocol.errors import InputError, MalformedMessageError
from protocol.messages import ErasedFile, ForgettingStatement, Receipt
from tests.harness.certificates import NOW, shared_member
from user_client.custody import round_directory
from user_client.custody.home import Home
from user_client.custody.round_directory import MODEL_FILE, PAYLOAD_FILE, RoundDirectory
from user_client.errors import NotPreparedError

ID = "0123456789abcdef" * 2


@pytest.fixture
def directory(tmp_path: Path) -> RoundDirectory:
    return RoundDirectory(Home(tmp_path), ID)


def statement(name: str) -> bytes:
    message = ForgettingStatement(
        collaboration_id=ID,
        terms_digest=bytes(32),
        party="hospital-a",
        uplink_digest=None,
        erased=(ErasedFile(name=name, size_bytes=1, erased_at=NOW),),
    )
    member = shared_member()
    return sign(message, member.key, member.certificate)


def test_a_message_is_read_and_decoded_once(
    directory: RoundDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = statement("basis.npy")
    directory.write(ForgettingStatement, data)
    found, signed = directory.load_signed(ForgettingStatement)
    assert signed == data
    monkeypatch.setattr(round_directory, "read_bytes", lambda path: pytest.fail(f"reads {path} again"))
    assert directory.load(ForgettingStatement) is found
    assert directory.find(ForgettingStatement) is found


@pytest.mark.parametrize("writer", ["ours", "another process"])
def test_a_message_that_was_replaced_is_read_again(directory: RoundDirectory, writer: str) -> None:
    directory.write(ForgettingStatement, statement("basis.npy"))
    assert directory.load(ForgettingStatement).erased[0].name == "basis.npy"
    other = directory if writer == "ours" else RoundDirectory(directory.home, ID)
    other.write(ForgettingStatement, statement("sealing.key"))
    assert directory.load(ForgettingStatement).erased[0].name == "sealing.key"


def test_a_message_that_was_removed_is_not_remembered(directory: RoundDirectory) -> None:
    directory.write(ForgettingStatement, statement("basis.npy"))
    directory.load(ForgettingStatement)
    directory.remove("forgotten.odc", "never.there")
    assert directory.find(ForgettingStatement) is None
    with pytest.raises(NotPreparedError, match="odc forget"):
        directory.load(ForgettingStatement)


def test_a_missing_message_names_the_command_that_brings_it(directory: RoundDirectory) -> None:
    with pytest.raises(NotPreparedError, match="odc contribute") as caught:
        directory.load(Receipt)
    assert caught.value.hint == "run `odc contribute` first"
    with pytest.raises(NotPreparedError, match="odc prepare TABLE"):
        directory.load(Receipt, step="odc prepare TABLE")


def test_a_damaged_message_is_no_message(directory: RoundDirectory) -> None:
    directory.write(Receipt, b"damaged")
    with pytest.raises(MalformedMessageError):
        directory.find(Receipt)


def test_an_id_leads_nowhere_else(tmp_path: Path) -> None:
    elsewhere = RoundDirectory(Home(tmp_path), "../" * 10 + "x")
    with pytest.raises(InputError, match="32 hexadecimal digits"):
        elsewhere.holds(MODEL_FILE)


def test_files_count_as_checked_until_one_changes(directory: RoundDirectory) -> None:
    directory.write(MODEL_FILE, b"model")
    directory.write(PAYLOAD_FILE, b"payload")
    assert not directory.was_checked(MODEL_FILE, PAYLOAD_FILE)
    directory.mark_checked(MODEL_FILE, PAYLOAD_FILE)
    assert directory.was_checked(MODEL_FILE, PAYLOAD_FILE)
    assert not directory.was_checked(MODEL_FILE)
    (directory.path / PAYLOAD_FILE).write_bytes(b"payload, changed")
    assert not directory.was_checked(MODEL_FILE, PAYLOAD_FILE)


def test_unfinished_copies_of_a_file_are_found(directory: RoundDirectory) -> None:
    directory.write(PAYLOAD_FILE, b"payload")
    (directory.path / f".{PAYLOAD_FILE}.77.part").write_bytes(b"pay")
    assert [path.name for path in directory.copies(PAYLOAD_FILE)] == [
        "uplink.payload",
        ".uplink.payload.77.part",
    ]
    roles = {file.name: file.role for file in directory.files()}
    assert roles[".uplink.payload.77.part"] == f"half written: {roles['uplink.payload']}"
