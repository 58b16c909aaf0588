"""Tables are written part by part, and only what fails there is said to be about the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from protocol.errors import InputError
from user_client.tables import table_writer

PART = pa.table({"x": [1.5, 2.0]})


def test_a_file_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with table_writer(path, PART.schema) as write:
        write(PART)
        assert not path.exists()
    assert path.read_text() == '"x"\n1.5\n2\n'
    assert [each.name for each in tmp_path.iterdir()] == ["out.csv"]


def test_what_its_caller_cannot_read_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    def copied() -> None:
        with table_writer(tmp_path / "out.csv", PART.schema) as write:
            write(PART)
            (tmp_path / "rows.csv").read_text()

    with pytest.raises(FileNotFoundError):
        copied()
    assert [*tmp_path.iterdir()] == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"cannot write .*/file/out\.csv: "),
        table_writer(tmp_path / "file" / "out.csv", PART.schema),
    ):
        pytest.fail("there is nothing to write to")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_disk_that_is_full_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def full(_path: Path) -> Iterator[BinaryIO]:
        with Path("/dev/full").open("wb") as file:
            yield file

    monkeypatch.setattr("user_client.tables.write.writing_whole", full)
    large = pa.table({"x": [float(number) for number in range(100_000)]})
    with (
        pytest.raises(InputError, match=rf"cannot write .*/{name}: No space left"),
        table_writer(tmp_path / name, large.schema) as write,
    ):
        write(large)
