"""A data directory that cannot be written, such as that of a snapshot, is backed up without a server."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from analyst_server.backup import back_up, restore
from analyst_server.services import views
from analyst_server.settings import Settings
from protocol.errors import InputError
from tests.harness import configuration
from tests.harness.certificates import NOW
from tests.harness.in_process import Consortium

pytestmark = pytest.mark.skipif(configuration.MANY, reason="PostgreSQL and S3 have backups of their own")
LEFT = ("odc.sqlite-wal", "odc.sqlite-shm")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = Consortium(tmp_path / "consortium", monkeypatch)
    made.until_contributed()
    assert len(views.listing(made.analyst, None)) == 1
    made.close()
    return made.settings


def as_if_killed(directory: Path, *left: str) -> None:
    """Write a row into the log of the records, and leave some of SQLite's files as a killed server does."""
    database = directory / "odc.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("UPDATE collaborations SET title = 'only in the log'")
        connection.commit()
        for name in left:
            shutil.copyfile(directory / name, directory / f"{name}.kept")
        shutil.copyfile(database, directory / "odc.sqlite.kept")
    for kept in directory.glob("*.kept"):
        kept.replace(directory / kept.name.removesuffix(".kept"))


def mounted_read_only(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that sees a directory read-only, whoever it is; skip where that cannot be done."""
    place = shlex.quote(str(directory))
    mounts = f"mount --bind {place} {place} && mount -o remount,bind,ro {place} || exit 99"
    script = f"{mounts}; {shlex.join(command)}"
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed (Debian: apt install util-linux)")
    found = subprocess.run([*apart, "sh", "-c", script], text=True, capture_output=True, check=False)
    if found.returncode == 99 or "unshare failed" in found.stderr:
        pytest.skip("nothing can be mounted here")
    return found


@pytest.mark.parametrize("left", [(), LEFT[:1], LEFT], ids=["ended", "log alone", "killed"])
def test_it_is_copied_and_restored(settings: Settings, tmp_path: Path, left: tuple[str, ...]) -> None:
    if left:
        as_if_killed(settings.data_dir, *left)
    before = sorted(path.name for path in settings.data_dir.iterdir())
    command = ("-m", "analyst_server", "backup", str(tmp_path / "safe"), "--data-dir", str(settings.data_dir))
    found = mounted_read_only(settings.data_dir, sys.executable, *command)
    assert found.returncode == 0, found.stderr
    assert "copied to" in found.stdout
    assert "`odc-analyst audit` will not show this" in found.stderr
    assert sorted(path.name for path in settings.data_dir.iterdir()) == before
    assert sorted(path.name for path in (tmp_path / "safe").iterdir()) == [
        "backup.json",
        "blobs",
        "identity",
        "odc.sqlite",
    ]
    restored = Settings(data_dir=tmp_path / "restored")
    restore(restored, tmp_path / "safe")
    with closing(sqlite3.connect(restored.data_dir / "odc.sqlite")) as connection:
        ((title,),) = connection.execute("SELECT title FROM collaborations").fetchall()
    assert (title == "only in the log") == bool(left)


def test_a_server_that_starts_meanwhile_is_noticed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = shutil.copyfile

    def start(source: Path, target: Path) -> None:
        copied(source, target)
        (settings.data_dir / "odc.sqlite-shm").touch()

    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("shutil.copyfile", start)
    with pytest.raises(InputError, match="a server has started"):
        back_up(settings, tmp_path / "safe", now=NOW)
    assert not (tmp_path / "safe").exists()
