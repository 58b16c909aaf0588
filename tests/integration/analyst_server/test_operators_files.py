"""What the operator finds: errors with hints about files that cannot be used, and lines with their time."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from analyst_server import cli
from analyst_server.installation import blobs_of
from analyst_server.settings import Settings
from protocol.errors import CertificateRefusedError, InputError
from tests.harness.enrolments import invitation


@pytest.fixture(autouse=True)
def _data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODC_ANALYST_DATA_DIR", str(tmp_path / "data"))


def error_of(*words: object) -> BaseException | None:
    return CliRunner().invoke(cli.app, [str(word) for word in words]).exception


def test_without_a_key_its_fingerprint_is_refused() -> None:
    error = error_of("key")
    assert isinstance(error, CertificateRefusedError)
    assert "odc-analyst join" in error.hint


def test_a_request_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyst_server.cli.unix_now", lambda: invitation().expires_at - 1)
    path = tmp_path / "invitation.json"
    path.write_text(invitation().to_json())
    error = error_of("join", path, "--out", tmp_path / "nothing" / "request.odc")
    assert isinstance(error, InputError)
    assert "cannot write" in error.detail
    assert "No such file" in error.detail


def test_a_line_of_a_compute_worker_has_the_offset_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[logging.Formatter] = []
    monkeypatch.setattr("analyst_server.cli_compute.set_up", lambda formatter, _level: used.append(formatter))
    assert isinstance(error_of("compute-worker"), InputError)  # no scheduler was named
    record = logging.LogRecord("name", logging.INFO, "path", 1, "message", (), None)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} INFO name: message", used[0].format(record))


def test_a_relative_directory_for_the_arrays_is_refused_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        blobs_of(Settings(data_dir=tmp_path / "data", blob_url="file://relative"))
    assert "file:///PATH" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["serve", "collaboration list", "restore backup", "join invitation.json"])
@pytest.mark.parametrize("below", [".", "below"])
def test_a_file_as_the_data_directory_is_no_directory(tmp_path: Path, words: str, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    error = error_of(*words.split(), "--data-dir", tmp_path / "file" / below)
    assert isinstance(error, InputError)
    assert error.detail.startswith(f"{tmp_path / 'file'} is no directory")
    assert "ODC_ANALYST_DATA_DIR" in error.hint
