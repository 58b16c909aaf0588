from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from protocol.errors import InputError
from user_client.cli.main import app
from user_client.cli.options import refuse_to_overwrite, require_writable, write_output


def test_a_file_that_exists_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    refuse_to_overwrite(path, force=False)
    path.write_text("patients")
    with pytest.raises(InputError, match="exists; name another with --out"):
        refuse_to_overwrite(path, force=False)
    refuse_to_overwrite(path, force=True)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*: No such file or directory"):
        write_output(tmp_path / "missing" / "out.csv", b"")


def test_a_place_is_tried_before_something_is_made_for_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    require_writable(tmp_path / "new" / "folder" / "out.json")
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "x", "Not a directory"),
        (tmp_path / "file" / "y" / "x", "Not a directory"),
    ):
        with pytest.raises(InputError, match=f"cannot write {path}: {reason}"):
            require_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_predictions_never_replace_the_table_they_are_for(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("age\n61\n")
    words = ["--home", str(tmp_path / "home"), "predict", str(table), "--out", str(table), "--force"]
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, InputError)
    assert "is the table itself" in found.exception.detail
    assert table.read_text() == "age\n61\n"
