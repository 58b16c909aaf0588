"""Excel workbooks, Feather and Arrow files, as Excel's rivals and libraries write them."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.feather
import pytest
from openpyxl import Workbook

from protocol.errors import InputError, UnreadableFileError
from tests.harness.schemas import SECRET
from tests.harness.tree import REPOSITORY
from user_client.errors import MissingExtraError
from user_client.tables import Dialect, Source, read_parts, read_table

TABLES = REPOSITORY / "tests" / "harness" / "tables"
NAMES = ["Müller", "Åse", "O'Neil"]


def workbook(path: Path, *rows: Sequence[object]) -> Path:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("name", ["pandas.xlsx", "gnumeric.xlsx", "openpyxl.xlsm"])
def test_a_workbook_is_read_as_the_text_of_its_cells(name: str) -> None:
    found = read_table(TABLES / name).to_pydict()
    assert found == {
        "dose": ["1.5", "0.25", "10.75"],
        "age": ["71", "8", "43"],
        "name": NAMES,
        "note": ["line one\nline two", "a; b, c | d", 'she said "no"'],
        "flag": ["TRUE", "FALSE", "TRUE"],
        "day": ["2024-01-31", "2023-12-01", "1999-02-28"],
    }


@pytest.mark.parametrize("name", ["xlsxwriter.xlsx", "libreoffice.xlsx"])
def test_dates_formulas_errors_and_empty_cells_of_a_sheet(name: str) -> None:
    found = read_table(Source(TABLES / name, sheet="patients")).to_pydict()
    assert found == {
        "dose": ["1.5", "10.75", "#DIV/0!"],
        "twice": ["3", "21.5", None],
        "day": ["2024-01-31", "1999-02-28", None],
        "seen": ["2024-01-31 13:05:00", "1999-02-28 13:05:00", None],
        "flag": ["TRUE", "FALSE", None],
        "code": ["4006381333931", "4006381333931", None],
    }


@pytest.mark.parametrize(
    ("name", "sheet", "why"),
    [
        ("xlsxwriter.xlsx", None, "it has 2 sheets"),
        ("xlsxwriter.xlsx", "Patients", "it has no sheet 'Patients'"),
        ("openpyxl-unsaved-values.xlsx", None, "row 2 of the sheet has a formula whose value was not saved"),
    ],
)
def test_what_a_workbook_leaves_open_is_refused(name: str, sheet: str | None, why: str) -> None:
    with pytest.raises(UnreadableFileError, match=why):
        read_table(Source(TABLES / name, sheet=sheet))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "the sheet is empty"),
        ([["a", None, "b"], [1, 2, 3]], "has no name for column 2"),
        ([["a"], [1], [2, SECRET]], "row 3 of the sheet has a cell in a column without a name"),
    ],
)
def test_a_sheet_that_is_no_table_is_refused(tmp_path: Path, rows: list[Sequence[object]], why: str) -> None:
    with pytest.raises(UnreadableFileError, match=why) as refused:
        read_table(workbook(tmp_path / "rows.xlsx", *rows))
    assert SECRET not in str(refused.value)


def test_a_date_that_excel_cannot_show_is_an_error_that_nobody_quotes(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    book = Workbook()
    book.active.append(["day"])
    book.active.append([dt.date(2024, 1, 31)])
    book.active["A2"].value = 9e9
    book.active["A2"].number_format = "dd.mm.yyyy"
    book.save(tmp_path / "rows.xlsx")
    assert read_table(tmp_path / "rows.xlsx").to_pydict() == {"day": ["#VALUE!"]}
    assert not recwarn


@pytest.mark.parametrize("data", [b"", SECRET.encode(), b"\xd0\xcf\x11\xe0" + bytes(600)])
def test_a_file_that_is_no_workbook_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rows.xlsx").write_bytes(data)
    with pytest.raises(UnreadableFileError, match="not an Excel workbook"):
        read_table(tmp_path / "rows.xlsx")


@pytest.mark.parametrize("name", ["rows.xls", "rows.ods"])
def test_another_spreadsheet_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(UnreadableFileError) as refused:
        read_table(Source(tmp_path / name).guessed(Dialect()))
    assert "save it as .xlsx or as CSV" in refused.value.hint


def test_a_workbook_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"\[excel\]"):
        read_table(TABLES / "pandas.xlsx")


def test_a_formula_with_an_empty_result_is_an_empty_field(tmp_path: Path) -> None:
    """Such as ``=IF(A2="","",A2)``: what is saved of it is a text without letters, in the form of Excel."""
    path = workbook(tmp_path / "rows.xlsx", ["age", "copy"], [70, '=IF(A2="",A2,"")'])
    with ZipFile(path) as written:
        parts = {name: written.read(name) for name in written.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    formula = re.compile(rb'<c r="B2"[^>]*>(<f>.*?</f>)<v ?/?>(</v>)?</c>')
    parts[sheet], count = formula.subn(rb'<c r="B2" t="str">\1<v></v></c>', parts[sheet])
    assert count == 1
    with ZipFile(path, "w") as saved:
        for name, data in parts.items():
            saved.writestr(name, data)
    assert read_table(path).to_pydict() == {"age": ["70"], "copy": [None]}


def test_a_workbook_with_damaged_data_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "rows.xlsx", ["age"], *[[number] for number in range(500)])
    data = bytearray(path.read_bytes())
    with ZipFile(path) as written:
        begins = written.getinfo("xl/worksheets/sheet1.xml").header_offset
    data[begins + 80 : begins + 120] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match="not an Excel workbook"):
        read_table(path)


def test_a_sheet_goes_with_a_workbook_alone() -> None:
    with pytest.raises(InputError, match="--sheet goes with an Excel workbook"):
        Source(TABLES / "r.csv", sheet="patients").guessed(Dialect())


def test_two_sheets_of_a_workbook_have_two_digests() -> None:
    path = TABLES / "xlsxwriter.xlsx"
    assert Source(path, sheet="patients").file_digest() != Source(path, sheet="notes").file_digest()


def test_a_long_sheet_comes_in_parts(tmp_path: Path) -> None:
    wide = [f"c{number}" for number in range(1024)]
    path = workbook(tmp_path / "rows.xlsx", wide, *[[row] * 1024 for row in range(772)])
    parts = [part.num_rows for part in read_parts(path)]
    assert parts == [0, 768, 4]


@pytest.mark.parametrize(
    "name", ["pandas-lz4.feather", "pandas-zstd.feather", "pyarrow-stream.arrow", "pandas.parquet"]
)
def test_arrow_files_are_read_with_their_types(name: str) -> None:
    found = read_table(TABLES / name).to_pydict()
    assert found["dose"] == [1.5, 0.25, 10.75]
    assert found["name"] == NAMES
    assert found["day"][0] == dt.datetime(2024, 1, 31)


@pytest.mark.parametrize("name", ["rows.feather", "rows.ARROW", "rows.ipc"])
def test_a_large_arrow_file_comes_in_parts(tmp_path: Path, name: str) -> None:
    table = pa.table({"a": range(200_000)})
    pyarrow.feather.write_feather(table, str(tmp_path / name), chunksize=200_000)
    first, *parts = read_parts(tmp_path / name)
    assert (first.num_rows, first.column_names) == (0, ["a"])
    assert len(parts) == 4
    assert pa.concat_tables(parts).to_pydict() == table.to_pydict()


@pytest.mark.parametrize("data", [b"", b"FEA1" + bytes(30), b"ARROW1" + SECRET.encode(), SECRET.encode()])
def test_a_broken_arrow_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rows.feather").write_bytes(data)
    with pytest.raises(UnreadableFileError) as refused:
        read_table(tmp_path / "rows.feather")
    assert SECRET not in str(refused.value)


def test_an_empty_row_between_others_is_one_if_there_is_one_column(tmp_path: Path) -> None:
    path = workbook(tmp_path / "rows.xlsx", [], ["x"], [], [1], [], [None], [2], [], [])
    assert read_table(path).to_pydict() == {"x": [None, "1", None, None, "2"]}
    path = workbook(tmp_path / "rows.xlsx", ["x", "y"], [1, 2], [], [3, 4])
    assert read_table(path).to_pydict() == {"x": ["1", "3"], "y": ["2", "4"]}
