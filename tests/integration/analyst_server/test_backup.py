"""What a backup refuses, and what it does when something changes meanwhile; e2e/ restores whole rounds."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analyst_server.backup import LIST_FILE, back_up, restore
from analyst_server.blobs import DirectoryBlobs
from analyst_server.cli import app
from analyst_server.installation import note_stores, require_noted_stores
from analyst_server.services import end
from analyst_server.settings import Settings
from analyst_server.store import Records
from analyst_server.store.revisions import NEWEST
from protocol.errors import DiskFullError, InputError, StorageError, UnreadableFileError
from runtime.files import write_whole
from tests.harness import configuration
from tests.harness.certificates import NOW
from tests.harness.in_process import Consortium

pytestmark = pytest.mark.skipif(configuration.MANY, reason="PostgreSQL and S3 have backups of their own")


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    made = Consortium(tmp_path / "consortium", monkeypatch)
    yield made
    made.close()


@pytest.fixture
def settings(consortium: Consortium) -> Settings:
    consortium.until_contributed()
    return consortium.settings


@pytest.fixture
def made(settings: Settings, tmp_path: Path) -> Path:
    back_up(settings, tmp_path / "safe", now=NOW)
    return tmp_path / "safe"


def elsewhere(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "restored")


def content(made: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made / LIST_FILE).read_text())
    return found


def test_a_backup_into_a_file_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for target in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="name a new directory"):
            back_up(settings, target, now=NOW)


def test_every_blob_comes_back_as_it_was(settings: Settings, made: Path, tmp_path: Path) -> None:
    restore(elsewhere(tmp_path), made)
    was, is_now = DirectoryBlobs(settings.blob_dir), DirectoryBlobs(elsewhere(tmp_path).blob_dir)
    assert was.whole_keys() == is_now.whole_keys() != []
    assert all(was.read(key) == is_now.read(key) for key in was.whole_keys())


def test_a_directory_that_is_not_empty_takes_no_backup(settings: Settings, made: Path) -> None:
    with pytest.raises(InputError, match="is not empty"):
        back_up(settings, made, now=NOW)


def test_where_no_analyst_is_there_is_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no analyst in"):
        back_up(elsewhere(tmp_path), tmp_path / "safe", now=NOW)
    assert not (tmp_path / "restored").exists()


def test_records_in_another_database_are_not_copied(settings: Settings, tmp_path: Path) -> None:
    elsewhere = settings.model_copy(update={"database_url": "postgresql+psycopg://nobody@localhost/none"})
    with pytest.raises(InputError, match="database of their own") as refused:
        back_up(elsewhere, tmp_path / "safe", now=NOW)
    assert "pg_dump" in refused.value.hint
    with pytest.raises(InputError, match="DATABASE_URL"):
        restore(elsewhere, tmp_path / "safe")


def test_a_backup_that_was_cut_off_is_not_restored(made: Path, tmp_path: Path) -> None:
    (made / LIST_FILE).unlink()
    with pytest.raises(UnreadableFileError, match="not a whole one"):
        restore(elsewhere(tmp_path), made)


@pytest.mark.parametrize("what", ["odc.sqlite", "identity/key.pem", "blobs"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_damaged_backup_is_named_and_nothing_is_restored(
    made: Path, tmp_path: Path, what: str, damage: str
) -> None:
    name = next(name for name in content(made)["files"] if name.startswith(what))
    data = bytearray((made / name).read_bytes())
    data[-1] ^= 1
    (made / name).write_bytes(bytes(data))
    if damage == "gone":
        (made / name).unlink()
    with pytest.raises(UnreadableFileError, match=name):
        restore(elsewhere(tmp_path), made)
    assert not (tmp_path / "restored" / "identity").exists()
    assert not (tmp_path / "restored" / "odc.sqlite").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "blobs/../../outside", "identity/other.pem"])
def test_a_list_that_leads_elsewhere_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    listed = content(made)
    listed["files"][name] = {"bytes": 0, "sha256": "0" * 64}
    (made / LIST_FILE).write_text(json.dumps(listed))
    with pytest.raises(UnreadableFileError, match="none of an analyst"):
        restore(elsewhere(tmp_path), made)


@pytest.mark.parametrize("text", ["{", "[]", '{"files": {}}', '{"made_at": 1, "version": "1", "files": {}}'])
def test_what_is_no_list_is_refused(made: Path, tmp_path: Path, text: str) -> None:
    (made / LIST_FILE).write_text(text)
    with pytest.raises(UnreadableFileError, match=r"no list|lacks"):
        restore(elsewhere(tmp_path), made)


def test_a_log_of_other_records_is_not_read_into_those_of_the_backup(made: Path, tmp_path: Path) -> None:
    target = elsewhere(tmp_path).data_dir
    target.mkdir()
    with closing(sqlite3.connect(tmp_path / "others.sqlite")) as others:
        others.execute("PRAGMA journal_mode=WAL")
        others.execute("CREATE TABLE of_others (value)")
        others.commit()
        for end in ("-wal", "-shm"):  # as a server that was killed leaves them
            shutil.copy(tmp_path / f"others.sqlite{end}", target / f"odc.sqlite{end}")
    restore(elsewhere(tmp_path), made)
    with closing(sqlite3.connect(target / "odc.sqlite")) as restored:
        names = {name for (name,) in restored.execute("SELECT name FROM sqlite_master")}
    assert "collaborations" in names
    assert "of_others" not in names


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
def test_a_note_of_the_stores_that_is_damaged_is_named(
    settings: Settings, tmp_path: Path, content: bytes
) -> None:
    (settings.data_dir / "stores.json").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"stores\.json") as caught:
        back_up(settings, tmp_path / "safe", now=NOW)
    assert "start the server" in caught.value.hint


def test_a_restore_forgets_where_other_records_were(made: Path, tmp_path: Path) -> None:
    target = elsewhere(tmp_path)
    target.data_dir.mkdir()
    note_stores(target.model_copy(update={"database_url": "postgresql://db/odc"}))
    restore(target, made)
    require_noted_stores(target)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql+psycopg://odc:hunter2@db.example/odc", "postgresql://db.example/odc"),
        (
            "postgresql+psycopg://odc:pa/hunter2#[@db.example:5432/odc?x=hunter2",
            "postgresql://db.example/odc",
        ),
        ("", ""),
    ],
)
def test_a_command_without_the_servers_settings_makes_no_backup_of_other_records(
    settings: Settings, tmp_path: Path, url: str, place: str
) -> None:
    served = settings.model_copy(update={"database_url": url})
    note_stores(served)
    if not place:
        back_up(settings, tmp_path / "safe", now=NOW)
        return
    with pytest.raises(InputError, match=f"records are in {place}, and ODC_ANALYST_DATABASE_URL") as caught:
        back_up(settings, tmp_path / "safe", now=NOW)
    assert "hunter2" not in str(caught.value) + (settings.data_dir / "stores.json").read_text()
    note_stores(settings)  # the server was started with its records in the data directory again
    back_up(settings, tmp_path / "safe", now=NOW)


def test_a_restore_that_was_cut_off_begins_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[Path] = []

    def cut_off(path: Path, *parts: Any) -> None:
        if len(copied) == 3:
            raise OSError("cut off")
        copied.append(path)
        write_whole(path, *parts)

    with monkeypatch.context() as patched:
        patched.setattr("analyst_server.backup.write_whole", cut_off)
        with pytest.raises(OSError, match="cut off"):
            restore(elsewhere(tmp_path), made)
    assert len(copied) == 3
    restore(elsewhere(tmp_path), made)
    with pytest.raises(InputError, match="has an analyst in it"):
        restore(elsewhere(tmp_path), made)


def full(code: int = errno.ENOSPC) -> Any:
    """Return what writes whole files until the fourth, which finds no space."""
    written: list[Path] = []

    def writing(path: Path, *parts: Any) -> None:
        if len(written) == 3:
            raise OSError(code, os.strerror(code))
        written.append(path)
        write_whole(path, *parts)

    return writing


@pytest.mark.parametrize("was_there", [False, True])
def test_a_full_disk_is_named_and_keeps_nothing_of_a_backup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    target = tmp_path / "safe"
    if was_there:
        target.mkdir()
    monkeypatch.setattr("analyst_server.backup.write_whole", full())
    with pytest.raises(DiskFullError, match=f"the disk of {target} is full") as caught:
        back_up(settings, target, now=NOW)
    assert "nothing was left of this backup" in caught.value.hint
    assert target.exists() is was_there
    assert not was_there or list(target.iterdir()) == []


def test_what_cannot_be_erased_of_a_backup_is_said(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(_path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(errno.EROFS, "Read-only file system")

    target = tmp_path / "safe"
    monkeypatch.setattr("analyst_server.backup.write_whole", full(errno.EROFS))
    monkeypatch.setattr(shutil, "rmtree", kept)
    with pytest.raises(StorageError, match=f"the disk of {target} cannot be used: read-only") as caught:
        back_up(settings, target, now=NOW)
    assert f"{target} has a part of it" in caught.value.hint


def test_records_that_find_no_space_for_their_copy_name_its_disk(settings: Settings, tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite"
    target.symlink_to("/dev/full")
    records = Records(settings.database)
    with pytest.raises(StorageError, match=str(target)):
        records.copy_to(target)
    records.dispose()


def of_a_later_version(made: Path) -> None:
    """Change a backup into one that a later version has made."""
    with closing(sqlite3.connect(made / "odc.sqlite")) as records:
        records.execute("UPDATE alembic_version SET version_num = '9999'")
        records.commit()
    with_records(made, (made / "odc.sqlite").read_bytes())


def with_records(made: Path, data: bytes) -> None:
    (made / "odc.sqlite").write_bytes(data)
    listed = content(made)
    listed["files"]["odc.sqlite"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (made / LIST_FILE).write_text(json.dumps(listed))


def test_a_backup_of_a_later_version_is_refused_before_anything_is_written(
    made: Path, tmp_path: Path
) -> None:
    of_a_later_version(made)
    before = sorted(made.rglob("*"))
    with pytest.raises(InputError, match="written by a later version"):
        restore(elsewhere(tmp_path), made)
    assert list(elsewhere(tmp_path).data_dir.iterdir()) == []
    assert sorted(made.rglob("*")) == before


@pytest.fixture
def earlier(tmp_path: Path) -> bytes:
    """A database without rows, with the tables of an earlier version."""
    path = tmp_path / "earlier.sqlite"
    records = Records(f"sqlite:///{path}")
    records.migrate("0016")
    records.dispose()
    return path.read_bytes()


def revision(settings: Settings) -> str:
    with closing(sqlite3.connect(settings.data_dir / "odc.sqlite")) as records:
        (found,) = records.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found)


def test_a_restored_backup_of_an_earlier_version_is_upgraded(
    made: Path, earlier: bytes, tmp_path: Path
) -> None:
    """No server has it yet, and commands do not upgrade."""
    with_records(made, earlier)
    where = ["--data-dir", str(elsewhere(tmp_path).data_dir)]
    for words in (["restore", str(made)], ["collaboration", "list"]):
        CliRunner().invoke(app, [*words, *where], catch_exceptions=False)
    assert revision(elsewhere(tmp_path)) == NEWEST


@pytest.mark.parametrize("words", [["collaboration", "list"], ["verify"], ["backup", "COPY"]], ids=" ".join)
def test_no_command_upgrades_the_records_under_a_server_of_an_earlier_version(
    settings: Settings, earlier: bytes, tmp_path: Path, words: list[str]
) -> None:
    beside = elsewhere(tmp_path)
    shutil.copytree(settings.identity_dir, beside.identity_dir)
    (beside.data_dir / "odc.sqlite").write_bytes(earlier)
    given = [word.replace("COPY", str(tmp_path / "copy")) for word in words]
    with pytest.raises(InputError, match="an earlier version of the analyst") as caught:
        CliRunner().invoke(app, [*given, "--data-dir", str(beside.data_dir)], catch_exceptions=False)
    assert "`odc-analyst serve`: it upgrades them" in caught.value.hint
    assert revision(beside) == "0016"
    assert not (tmp_path / "copy").exists()


def test_a_backup_whose_records_are_no_database_is_refused(made: Path, tmp_path: Path) -> None:
    with_records(made, b"no database")
    with pytest.raises(UnreadableFileError, match="no records of an analyst"):
        restore(elsewhere(tmp_path), made)


def test_a_directory_instead_of_a_file_is_named(made: Path, tmp_path: Path) -> None:
    (made / "identity" / "key.pem").unlink()
    (made / "identity" / "key.pem").mkdir()
    with pytest.raises(UnreadableFileError, match=r"key\.pem: Is a directory") as caught:
        restore(elsewhere(tmp_path), made)
    assert "copy it again from where it is kept" in caught.value.hint


def test_a_damaged_list_says_what_to_do_with_a_damaged_backup(made: Path, tmp_path: Path) -> None:
    (made / LIST_FILE).unlink()
    (made / LIST_FILE).mkdir()
    with pytest.raises(UnreadableFileError) as caught:
        restore(elsewhere(tmp_path), made)
    assert "restore another one" in caught.value.hint


def test_a_full_disk_is_named_by_a_restore(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyst_server.backup.write_whole", full())
    with pytest.raises(DiskFullError, match=f"the disk of {elsewhere(tmp_path).data_dir} is full"):
        restore(elsewhere(tmp_path), made)


def test_a_backup_that_cannot_be_noted_is_a_backup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a data directory on a disk that has become read-only."""

    def read_only(_settings: Settings, **_options: Any) -> Any:
        raise StorageError("the analyst's database cannot be used: attempt to write a readonly database")

    monkeypatch.setattr("analyst_server.cli_backup.open_as_operator", read_only)
    given = ["backup", str(tmp_path / "safe"), "--data-dir", str(settings.data_dir)]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0
    assert "copied to" in done.stdout
    assert "will not show this" in done.stderr
    assert "readonly database" in done.stderr
    assert (tmp_path / "safe" / LIST_FILE).exists()


def test_a_collaboration_that_ends_meanwhile_is_copied_as_it_ended(
    consortium: Consortium, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the records would name blobs that the copy does not have."""
    plain, looks = DirectoryBlobs.whole_keys, list[int]()

    def ending(blobs: DirectoryBlobs) -> list[str]:
        found = plain(blobs)
        looks.append(len(found))
        if len(looks) == 1:
            end.cancel(consortium.analyst, consortium.id)
        return found

    monkeypatch.setattr(DirectoryBlobs, "whole_keys", ending)
    back_up(settings, tmp_path / "safe", now=NOW)
    assert looks[0] > 0
    assert looks[1:] == [0]
    assert [name for name in content(tmp_path / "safe")["files"] if name.startswith("blobs")] == []


def test_a_collaboration_that_ends_right_after_its_records_were_copied_is_copied_again(
    consortium: Consortium, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, copies = Records.copy_to, list[Path]()

    def ending(records: Records, path: Path) -> None:
        plain(records, path)
        copies.append(path)
        if len(copies) == 1:
            end.cancel(consortium.analyst, consortium.id)

    monkeypatch.setattr(Records, "copy_to", ending)
    back_up(settings, tmp_path / "safe", now=NOW)
    assert len(copies) == 2
    restore(elsewhere(tmp_path), tmp_path / "safe")
    copied = Records(elsewhere(tmp_path).database)
    with copied.begin() as unit:
        assert [row.state for row in unit.collaborations()] == ["cancelled"]
    copied.dispose()
