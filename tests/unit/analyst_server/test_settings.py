from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from analyst_server.settings import Settings, unknown_variables


def test_everything_lies_in_the_data_directory_unless_told_otherwise(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.database == f"sqlite:///{tmp_path / 'odc.sqlite'}"
    assert settings.identity_dir == tmp_path / "identity"
    assert settings.blob_dir == tmp_path / "blobs"


@pytest.mark.parametrize("given", [{}, {"data_dir": Path("analyst-data")}])
def test_a_data_directory_stays_the_same_for_processes_that_work_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, Any]
) -> None:
    monkeypatch.delenv("ODC_ANALYST_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert Settings(**given).blob_dir == tmp_path / "analyst-data" / "blobs"


def test_a_database_elsewhere_is_taken() -> None:
    assert Settings(database_url="postgresql://db/odc").database == "postgresql://db/odc"


def test_a_password_of_the_database_is_not_shown() -> None:
    assert "hunter2" not in repr(Settings(database_url="postgresql://odc:hunter2@db/odc"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "9000"), ("LEASE_S", "20"), ("HOLD_RELEASE", "true"), ("POLL_S", "2"), ("LOG_LEVEL", "DEBUG")],
)
def test_the_environment_sets_every_knob(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"ODC_ANALYST_{name}", value)
    assert getattr(Settings(), name.lower()) != Settings.model_fields[name.lower()].default


def test_a_variable_that_nothing_reads_is_named() -> None:
    given = ["ODC_ANALYST_PORT", "odc_analyst_lease_s", "ODC_ANALYST_HOLD_RELEASES", "ODC_HOME", "PATH"]
    assert unknown_variables(given) == ["ODC_ANALYST_HOLD_RELEASES"]


def test_the_server_keeps_a_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for there_is, left in ((2**32, 2**32 - 2**29), (2**30, 7 * 2**27), (0, 0)):
        monkeypatch.setattr("analyst_server.settings.machine_bytes", lambda found=there_is: found)
        assert Settings().compute_memory_bytes == left


def test_compute_processes_share_the_memory_of_the_machine_unless_told_otherwise() -> None:
    one, four = Settings(), Settings(compute_processes=4)
    assert one.compute_memory_bytes // 4 == four.compute_memory_bytes > 0
    assert Settings(compute_processes=4, compute_memory_mb=512).compute_memory_bytes == 2**29


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 65536),
        ("compute_memory_mb", -1),
        ("lease_s", 1),
        ("max_uplink_bytes", 0),
        ("compute_processes", 0),
        ("poll_s", 0),
        ("log_level", "trace"),
        ("log_level", "notset"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({name: value})
