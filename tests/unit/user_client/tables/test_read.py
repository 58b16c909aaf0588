from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from protocol.errors import InputError, UnreadableFileError
from tests.harness.schemas import SECRET, category, number, schema
from user_client.tables import encode_rows, read_parts, read_table, table_from

CSV = b"age,ward,code\n1,a,007\n,b,\n10,NA,1e5\n"
COLUMNS = schema(number(impute=5), category(impute="c"))
ENCODED = np.array([[-0.8, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], dtype=np.float64)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_csv_file_stays_text(tmp_path: Path) -> None:
    found = read_table(write(tmp_path / "rows.csv", CSV))
    assert found.column("code").to_pylist() == ["007", "", "1e5"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.txt", "rows.CSV"])
def test_a_csv_file_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    found = encode_rows(read_table(write(tmp_path / name, CSV)), COLUMNS)
    np.testing.assert_allclose(found, ENCODED, atol=1e-15)


def test_a_compressed_csv_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv.gz", gzip.compress(CSV))
    np.testing.assert_allclose(encode_rows(read_table(path), COLUMNS), ENCODED, atol=1e-15)


def test_a_csv_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "rows.csv", b"\xef\xbb\xbf" + CSV)).column_names[0] == "age"


def test_a_quoted_field_may_hold_a_comma(tmp_path: Path) -> None:
    found = read_table(write(tmp_path / "rows.csv", b'a,b\n"x, y",1\n'))
    assert found.column("a").to_pylist() == ["x, y"]


def test_a_file_with_nothing_but_a_header_has_no_rows(tmp_path: Path) -> None:
    found = read_table(write(tmp_path / "rows.csv", b"age,ward\n"))
    assert encode_rows(found, COLUMNS).shape == (0, 4)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.pq", "rows.PARQUET"])
def test_a_parquet_file_is_read(tmp_path: Path, name: str) -> None:
    rows = pa.table(
        {
            "age": pa.array([1.0, float("nan"), 10.0]),
            "ward": pa.array(["a", "b", None]).dictionary_encode(),
        }
    )
    pyarrow.parquet.write_table(rows, tmp_path / name)
    np.testing.assert_allclose(encode_rows(read_table(tmp_path / name), COLUMNS), ENCODED, atol=1e-15)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"age;ward\n1,5;a\n", "separated by semicolons"),
        (b"age\tward\n1\ta\n", "separated by tabs"),
        ("age,ward\n1,Müller\n".encode("latin-1"), "not UTF-8"),
        (f"age,ward\n1,a\n2,{SECRET},c\n3,b\n".encode(), "line 3 has 3 fields, the header has 2"),
        (b"age,ward\n1\n", "line 2 has 1 fields, the header has 2"),
        (b"age,ward\n" + b"1,a\n" * 400_000 + b"2\n", "line 400002 has 1 fields"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_a_csv_file_of_another_dialect_is_refused_with_a_hint(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(UnreadableFileError, match=why) as refused:
        read_table(path)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.csv", b""),
        ("rows.csv", f"a,b\n{SECRET}\n1,2\n".encode()),
        ("rows.csv", b"a,b\n\xff\xfe,1\n"),
        ("rows.csv", f"a,b\n1,2\n{SECRET},2,3\n".encode()),
        ("rows.csv.gz", b"\x1f\x8b" + SECRET.encode()),
        ("rows.csv.gz", CSV),
        ("rows.parquet", SECRET.encode()),
        ("rows.parquet", b""),
        ("rows.parquet", b"PAR1" + bytes(50) + b"PAR1"),
    ],
)
def test_a_file_that_is_no_table_is_refused_without_quoting_it(
    tmp_path: Path, name: str, data: bytes
) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_table(write(tmp_path / name, data))
    assert SECRET not in str(caught.value.to_problem())


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="no such file"):
        read_table(tmp_path / "rows.csv")


def test_a_pipe_is_told_from_a_missing_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(UnreadableFileError, match="not a regular file"):
        read_table(tmp_path / "rows.csv")


def test_a_directory_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError):
        read_table(tmp_path)


def test_a_table_in_memory_is_taken_as_it_is() -> None:
    rows = pa.table({"age": [1]})
    assert table_from(rows) is rows


def test_columns_in_memory_become_a_table() -> None:
    assert table_from({"age": [1, 2]}).num_rows == 2


def test_the_index_of_a_data_frame_is_no_column() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1, 2, 3], "ward": ["a", "b", "a"]})
    for part in (frame[frame.ward == "a"], frame.set_index(pandas.Index([7, 8, 9], name="patient"))):
        assert table_from(part).column_names == ["age", "ward"]


def test_a_column_of_several_kinds_is_named_without_its_values() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="column 'ward' of the data frame has values of several") as caught:
        table_from(pandas.DataFrame({"age": [1, 2], "ward": [1, SECRET]}))
    assert SECRET not in str(caught.value.to_problem())
    assert caught.value.__cause__ is None


def test_categories_of_polars_are_texts() -> None:
    """Polars hands them on as views of texts, which Arrow cannot decode."""
    views = pa.array(["icu", "general"]).cast(pa.string_view())
    ward = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), views)
    found = table_from(pa.table({"age": [1, 2, 3], "ward": ward}))
    assert found.column("ward").type == pa.string()
    assert found.column("ward").to_pylist() == ["general", None, "icu"]


def test_a_lazy_frame_has_to_be_collected() -> None:
    lazy = type("LazyFrame", (), {"columns": ["age"]})()
    with pytest.raises(InputError, match="no rows yet") as caught:
        table_from(lazy)
    assert "collect()" in (caught.value.hint or "")


@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_is_read(tmp_path: Path, as_text: bool) -> None:
    path = write(tmp_path / "rows.csv", CSV)
    assert table_from(str(path) if as_text else path).num_rows == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04" + bytes(300), "Excel workbook"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(300), "Excel workbook"),
        ("age,ward\n1,a\n".encode("utf-16"), "UTF-16"),
        ("age,ward\n1,a\n".encode("utf-16-le"), "UTF-16"),
        (b"", "empty"),
    ],
)
def test_what_is_no_csv_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(UnreadableFileError, match=said) as caught:
        read_table(write(tmp_path / "rows.csv", content))
    assert "save" in caught.value.hint or "export" in caught.value.hint


def all_parts(path: Path) -> pa.Table:
    return pa.concat_tables(read_parts(path))


@pytest.mark.parametrize("read", [read_table, all_parts])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("rows", [2, 120_000])
def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path, line_end: str, rows: int, read: Any) -> None:
    """Arrow takes all that follows for one text: the rows behind it would be missing without a word."""
    lines = ["age,y,comment", *["1,a,ok"] * rows, '2,b,"5 cm wound', *["3,a,ok"] * 9]
    (tmp_path / "rows.csv").write_bytes("".join(line + line_end for line in lines).encode())
    with pytest.raises(UnreadableFileError, match="9 lines before its end, and is never closed") as refused:
        read(tmp_path / "rows.csv")
    assert "wound" not in str(refused.value)


@pytest.mark.parametrize("read", [read_table, all_parts])
@pytest.mark.parametrize(
    "last", ['"two\nlines"', '"two ""x""\nlines ""q"""', '"two\n\n"\n\n', '5" pipe', '"ok']
)
def test_a_last_field_of_several_lines_is_read(tmp_path: Path, last: str, read: Any) -> None:
    (tmp_path / "rows.csv").write_text(f"age,y,comment\n1,a,ok\n2,b,{last}")
    assert read(tmp_path / "rows.csv").num_rows == 2


class TestOneColumn:
    """Of a table of one column an empty line is a row."""

    @pytest.mark.parametrize(
        ("text", "fields"),
        [
            ("x\n1\n\n2\n", ["1", "", "2"]),
            ("x\r\n\r\n1\r\n\r\n", ["", "1", ""]),
            ("\n\nx\n1\n\n2", ["1", "", "2"]),
            ("\ufeffsep=,\n\nx\n\n1\n", ["", "1"]),
            ('x\n""\n\n', ["", ""]),
        ],
    )
    def test_no_row_is_lost(self, tmp_path: Path, text: str, fields: list[str]) -> None:
        path = write(tmp_path / "rows.csv", text.encode())
        assert read_table(path).to_pydict() == {"x": fields}
        assert pa.concat_tables(read_parts(path)).to_pydict() == {"x": fields}

    def test_of_several_an_empty_line_is_none(self, tmp_path: Path) -> None:
        path = write(tmp_path / "rows.csv", b"\n\nx,y\n1,2\n\n3,4\n\n")
        assert read_table(path).to_pydict() == {"x": ["1", "3"], "y": ["2", "4"]}
