from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from analyst_server.settings import Settings


def test_everything_lies_in_the_data_directory_unless_told_otherwise(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.database == f"sqlite:///{tmp_path / 'odc.sqlite'}"
    assert settings.identity_dir == tmp_path / "identity"
    assert settings.blob_dir == tmp_path / "blobs"


def test_a_database_elsewhere_is_taken() -> None:
    assert Settings(database_url="postgresql://db/odc").database == "postgresql://db/odc"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "9000"), ("LEASE_S", "20"), ("HOLD_RELEASE", "true"), ("POLL_S", "2"), ("LOG_LEVEL", "DEBUG")],
)
def test_the_environment_sets_every_knob(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"ODC_ANALYST_{name}", value)
    assert getattr(Settings(), name.lower()) != Settings.model_fields[name.lower()].default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 65536),
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
