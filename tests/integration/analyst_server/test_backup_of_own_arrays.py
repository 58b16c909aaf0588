"""A backup carries the id that records and arrays share, and copies no arrays that are of other records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.backup import back_up, restore
from analyst_server.blobs import STORE_ID_KEY, id_of
from analyst_server.installation import open_analyst
from analyst_server.services import own_arrays
from analyst_server.settings import Settings
from protocol.errors import InputError
from tests.harness import configuration
from tests.harness.certificates import NOW
from tests.harness.in_process import Consortium

pytestmark = pytest.mark.skipif(configuration.MANY, reason="PostgreSQL and S3 have backups of their own")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    made = Consortium(tmp_path / "consortium", monkeypatch)
    made.until_contributed()
    yield made.settings
    made.close()


def started(settings: Settings) -> str:
    """Do what a start does, and return the id that both sides have then."""
    analyst = open_analyst(settings)
    try:
        own_arrays.settle(analyst)
        assert own_arrays.noted(analyst) == id_of(analyst.blobs)
        return own_arrays.noted(analyst) or ""
    finally:
        analyst.records.dispose()


def test_what_is_restored_has_the_id_and_starts(settings: Settings, tmp_path: Path) -> None:
    known, restored = started(settings), Settings(data_dir=tmp_path / "restored")
    back_up(settings, tmp_path / "safe", now=NOW)
    restore(restored, tmp_path / "safe")
    assert started(restored) == known != ""


def test_what_was_backed_up_before_there_was_an_id_gets_one(settings: Settings, tmp_path: Path) -> None:
    back_up(settings, tmp_path / "safe", now=NOW)
    restored = Settings(data_dir=tmp_path / "restored")
    restore(restored, tmp_path / "safe")
    assert started(restored)


@pytest.mark.parametrize("there", ["nothing", "another store"])
def test_arrays_that_are_not_mounted_are_not_backed_up_as_none(
    settings: Settings, tmp_path: Path, there: str
) -> None:
    started(settings)
    settings.blob_dir.rename(tmp_path / "away")
    if there == "another store":
        settings.blob_dir.mkdir()
        (settings.blob_dir / STORE_ID_KEY).write_text("b" * 32)
    with pytest.raises(InputError, match=f"are not in {settings.blob_dir}") as refused:
        back_up(settings, tmp_path / "safe", now=NOW)
    assert "is it mounted?" in refused.value.hint
    assert not (tmp_path / "safe").exists()
