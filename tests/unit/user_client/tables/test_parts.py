"""Tables that are read and written part by part."""

from __future__ import annotations

import gzip
import io
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from protocol.errors import InputError, UnreadableFileError
from tests.harness.schemas import SECRET
from user_client.tables import Source, parse_dialect, read_parts, read_table, table_writer, without_formulas

LINES = 900_000
"""A CSV file of so many lines has more than one part."""


def test_the_parts_of_a_csv_file_are_the_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"age,code\n" + b"".join(b"%d,007\n" % row for row in range(LINES)))
    first, *parts = read_parts(path)
    assert (first.num_rows, first.column_names) == (0, ["age", "code"])
    assert len(parts) > 1
    assert pa.concat_tables(parts).equals(read_table(path))


def test_the_parts_of_a_parquet_file_are_the_table(tmp_path: Path) -> None:
    rows = pa.table({"age": range(200_000), "ward": pa.array(["a", "b"] * 100_000).dictionary_encode()})
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    first, *parts = read_parts(tmp_path / "rows.parquet")
    assert (first.num_rows, first.column_names) == (0, ["age", "ward"])
    assert len(parts) > 1
    assert pa.concat_tables(parts).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.arrow", "stream.arrow"])
def test_who_watches_is_told_how_much_of_a_file_is_read(tmp_path: Path, name: str) -> None:
    path, told = tmp_path / name, list[tuple[int, int]]()
    rows = pa.table({"age": np.random.default_rng(0).permutation(400_000), "ward": ["ward " * 30] * 400_000})
    with path.open("wb") as file:
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(rows, file)
        elif name.endswith(".arrow"):
            kind = pa.ipc.new_file if name.startswith("rows") else pa.ipc.new_stream
            with kind(file, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=50_000)
        else:
            text = io.BytesIO()
            pyarrow.csv.write_csv(rows, text)
            file.write(gzip.compress(text.getvalue()) if name.endswith(".gz") else text.getvalue())
    source = Source(path, watch=lambda done, total: told.append((done, total)))
    assert sum(part.num_rows for part in read_parts(source)) == 400_000
    assert len(told) > 1
    assert {total for _, total in told} == {path.stat().st_size}
    read = [done for done, _ in told]
    assert read == sorted(read)
    assert read[0] < 0.8 * path.stat().st_size
    assert read[-1] >= 0.99 * path.stat().st_size


def test_a_compressed_file_of_a_header_alone_has_one_part(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"age,ward\n"))
    assert [part.num_rows for part in read_parts(tmp_path / "rows.csv.gz")] == [0]


def test_a_line_of_a_later_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"age,ward\n" + b"1,aaaaaaaa\n" * LINES + f"2,{SECRET},c\n".encode())
    with pytest.raises(UnreadableFileError, match=f"line {LINES + 2} has 3 fields") as refused:
        list(read_parts(path))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.csv", b"age;ward\n1;a\n"),
        ("rows.csv", "age,ward\n1,Müller\n".encode("latin-1")),
        ("rows.csv", b""),
        ("rows.parquet", SECRET.encode()),
    ],
)
def test_what_is_no_table_is_refused_as_when_it_is_read_whole(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError) as whole:
        read_table(path)
    with pytest.raises(UnreadableFileError) as in_parts:
        list(read_parts(path))
    assert (str(in_parts.value), in_parts.value.hint) == (str(whole.value), whole.value.hint)


PART = pa.table({"patient": ["007", "a,b"], "score": [0.25, 1.5]})


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_what_is_written_in_parts_is_read_again(tmp_path: Path, name: str) -> None:
    with table_writer(tmp_path / name, PART.schema) as write:
        write(PART)
        write(PART)
    found = read_table(tmp_path / name)
    assert found.column("patient").to_pylist() == ["007", "a,b"] * 2
    assert [float(each) for each in found.column("score").to_pylist()] == [0.25, 1.5] * 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("semicolons,decimal-comma,windows-1252", '"größe";"1,5";"0,25"'),
        ("tabs,decimal-comma,no-thousands,utf-16", '"größe"\t"1.5"\t"0,25"'),
        ("bars,decimal-point", '"größe"|"1.5"|0.25'),
    ],
)
def test_a_table_is_written_as_another_is(tmp_path: Path, words: str, line: str) -> None:
    dialect = parse_dialect(words)
    part = pa.table({"column": ["größe", None], "text": ["1.5", "a.b"], "score": [0.25, 1e-7]})
    with table_writer(tmp_path / "out.csv", part.schema, dialect) as write:
        write(part)
        write(part)
    text = (tmp_path / "out.csv").read_bytes().decode(dialect.encoding or "utf-8")
    assert text.splitlines()[1] == text.splitlines()[3] == line
    found = read_table(Source(tmp_path / "out.csv", dialect))
    assert found.column("column").to_pylist() == ["größe", "", "größe", ""]
    assert found.column("text").to_pylist() == ["1.5", "a.b"] * 2
    assert [float(each) for each in found.column("score").to_pylist()] == [0.25, 1e-7] * 2


def test_a_letter_that_the_encoding_does_not_have_is_refused(tmp_path: Path) -> None:
    part = pa.table({"column": ["\u03b1"]})
    with (
        pytest.raises(InputError, match="in windows-1252, as the table is written") as caught,
        table_writer(tmp_path / "out.csv", part.schema, parse_dialect("windows-1252")) as write,
    ):
        write(part)
    assert "\u03b1" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_only_its_owner_reads_what_is_written(tmp_path: Path, name: str) -> None:
    with table_writer(tmp_path / name, PART.schema) as write:
        write(PART)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_no_text_is_left_for_a_spreadsheet_to_compute() -> None:
    part = pa.table({"prediction": ["=1+1", "-1", "yes"], "x": [1, 2, 3]})
    assert without_formulas(part, "prediction").column("prediction").to_pylist() == ["'=1+1", "-1", "yes"]
    assert without_formulas(part, "x") is part


def test_a_file_that_is_not_finished_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")

    def write_half() -> None:
        with table_writer(out, PART.schema) as write:
            write(PART)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("before", [0, LINES])
def test_a_row_longer_than_a_part_is_read_with_all_others(before: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [b"%d,007\n" % row for row in range(before)]
    path.write_bytes(b"age,code\n" + b"".join(lines) + b"1,%s\n" % (b"x" * 3 * 2**20) + b"2,008\n" * LINES)
    first, *parts = read_parts(path)
    assert (first.num_rows, first.column_names) == (0, ["age", "code"])
    assert pa.concat_tables(parts).equals(read_table(path))


class SlowFile(io.FileIO):
    """A file that takes its time, and knows whether it was closed while another thread read from it."""

    reading = 0
    was_closed_meanwhile = False

    def read(self, size: int | None = -1, /) -> bytes:
        self.reading += 1
        time.sleep(0.05)
        self.was_closed_meanwhile |= self.closed
        self.reading -= 1
        return super().read(size)


def test_a_csv_file_is_not_closed_while_it_is_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is opened next would have its descriptor, and lose what is read to nobody."""
    path, opened = tmp_path / "rows.csv", list[SlowFile]()
    path.write_bytes(b"age,code\n" + b"2,008\n" * LINES)

    def slowly(name: str) -> pa.NativeFile:
        opened.append(SlowFile(name))
        return pa.PythonFile(opened[-1], mode="r")

    monkeypatch.setattr(pa, "OSFile", slowly)
    parts = read_parts(path)
    next(parts)
    next(parts)
    del parts
    until(lambda: not any(file.reading for file in opened))
    assert not any(file.was_closed_meanwhile for file in opened)
    for file in opened:
        file.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a process has open")
def test_no_csv_file_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"age,code\n" + b"2,008\n" * LINES)
    parts = read_parts(path)
    next(parts)
    next(parts)
    assert is_open(path)
    del parts
    until(lambda: not is_open(path))
    read_table(path)
    assert len(list(read_parts(path))) > 1
    until(lambda: not is_open(path))


def is_open(path: Path) -> bool:
    """Return whether this process has a file open."""
    found = set[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder itself
            found.add(str(descriptor.readlink()))
    return str(path) in found


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)
