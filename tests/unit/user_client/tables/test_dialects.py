"""CSV files of all dialects, as R, pandas, LibreOffice, Gnumeric and others write them, some packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from protocol.errors import InputError, UnreadableFileError
from tests.harness.schemas import SECRET
from tests.harness.tree import REPOSITORY
from user_client.tables import PLAIN, Dialect, Source, parse_dialect, read_parts, read_table

TABLES = REPOSITORY / "tests" / "harness" / "tables"
NAMES = ["Müller", "Åse", "O'Neil"]
NOTES = ["line one\nline two", "a; b, c | d", 'she said "no"']


def guessed(path: Path, words: str = "") -> Source:
    return Source(path).guessed(parse_dialect(words) if words else Dialect())


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        ("r.csv", "", "commas,decimal-point,utf-8"),
        ("r-csv2-windows-1252.csv", "", "semicolons,decimal-comma,windows-1252"),
        ("r-tabs-utf-16-le.tsv", "utf-16-le", "tabs,decimal-comma,utf-16-le"),
        ("iconv-utf-16.csv", "", "commas,decimal-point,utf-16"),
        ("iconv-utf-16-be.csv", "", "commas,decimal-point,utf-16"),
        ("iconv-latin-1.csv", "", "commas,decimal-point,windows-1252"),
        ("iconv-latin-1.csv", "latin-1", "commas,decimal-point,iso8859-1"),
        ("iconv-mac-roman.csv", "mac-roman", "commas,decimal-point,mac-roman"),
        ("bzip2.csv.bz2", "", "commas,decimal-point,utf-8"),
        ("zstd.csv.zst", "", "commas,decimal-point,utf-8"),
        ("pandas-semicolons-bom.csv.gz", "", "semicolons,decimal-comma,utf-8"),
        ("pandas-tabs.tsv", "", "tabs,decimal-point,utf-8"),
        ("libreoffice-semicolons.csv", "", "semicolons,decimal-point,windows-1252"),
        ("gnumeric-bars-latin-9.csv", "iso8859-15", "bars,decimal-point,iso8859-15"),
        ("sqlite-semicolons.csv", "", "semicolons,decimal-point,utf-8"),
    ],
)
def test_what_a_program_wrote_is_guessed_and_read_alike(name: str, said: str, words: str) -> None:
    source = guessed(TABLES / name, said)
    assert source.dialect.words == words
    whole, in_parts = read_table(source), pa.concat_tables(read_parts(source))
    assert whole.column("dose").to_pylist() == ["1.5", "0.25", "10.75"]
    assert whole.column("name").to_pylist() == NAMES
    assert [note.replace("\r\n", "\n") for note in whole.column("note").to_pylist()] == NOTES
    assert in_parts.equals(whole)


@pytest.mark.parametrize("words", ["semicolons,decimal-comma", "decimal-comma,semicolons,windows-1252"])
def test_what_is_said_is_not_guessed(words: str) -> None:
    said = parse_dialect(words)
    found = guessed(TABLES / "r-csv2-windows-1252.csv", words).dialect
    assert (found.separator, found.decimal, found.encoding) == (";", ",", said.encoding or "windows-1252")


def test_a_separator_that_leaves_one_column_where_another_gives_several_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(
        UnreadableFileError, match="with semicolons it has one column, with commas 3"
    ) as caught:
        guessed(path, "semicolons")
    assert "--csv commas" in caught.value.hint
    path.write_text("a, in units\n1\n")  # a header alone tells of no columns
    assert guessed(path, "semicolons").dialect.separator == ";"


def test_points_between_thousands_are_seen_where_a_number_has_both_marks() -> None:
    source = guessed(TABLES / "r-thousands.csv")
    assert source.dialect.words == "semicolons,decimal-comma,thousands,utf-8"
    assert read_table(source).column("dose").to_pylist() == ["1500.5", "1250", "12000"]


@pytest.mark.parametrize("words", ["", "thousands", "no-thousands"])
def test_what_may_be_thousands_or_fractions_is_not_guessed(words: str) -> None:
    with pytest.raises(UnreadableFileError, match="thousands or fractions") as refused:
        guessed(TABLES / "r-ambiguous.csv", words)
    assert "--csv decimal-comma or --csv decimal-point" in refused.value.hint


@pytest.mark.parametrize(
    ("words", "doses"),
    [
        ("decimal-comma,thousands", ["1500", "2250", "12000"]),
        ("decimal-comma,no-thousands", ["1.500", "2.250", "12.000"]),
        ("decimal-point", ["1.500", "2.250", "12.000"]),
    ],
)
def test_who_says_what_a_point_is_gets_that(words: str, doses: list[str]) -> None:
    assert read_table(guessed(TABLES / "r-ambiguous.csv", words)).column("dose").to_pylist() == doses


def test_a_point_that_may_group_thousands_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "1,5;x\n" * 400_000 + f"1.234;{SECRET}\n")
    source = guessed(path)
    with pytest.raises(UnreadableFileError, match="column 'a', data row 400001: a point") as whole:
        read_table(source)
    with pytest.raises(UnreadableFileError) as in_parts:
        list(read_parts(source))
    assert str(in_parts.value) == str(whole.value)
    assert "1.234;" not in str(whole.value)
    assert "--csv thousands" in whole.value.hint


@pytest.mark.parametrize("field", ["1,5", "1.5", "1.234", "1,234"])
def test_a_fraction_after_the_beginning_that_had_none_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "1;x\n" * 100_000 + f"{field};x\n")
    with pytest.raises(UnreadableFileError, match="column 'a', data row 100001: whether its numbers"):
        read_table(guessed(path))
    assert read_table(guessed(path, "decimal-point")).column("a")[-1].as_py() == field


def test_only_numbers_are_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    fields = [
        "1,5",
        " -2,5 ",
        "1,5E-3",
        "31.12.2024",
        "3,5 mg",
        "1,2,3",
        "E11,9",
        "2024,",
        "0.123",
        "1.234,5",
    ]
    path.write_text("a\n" + "".join(f"{field}\n" for field in fields))
    found = read_table(Source(path, Dialect(";", ",", None, "utf-8"))).column("a").to_pylist()
    assert found == ["1.5", " -2.5 ", "1.5E-3", *fields[3:9], "1234.5"]


def test_commas_between_thousands_are_taken_out_if_a_person_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n"1,234",x\n"12,345.5","a, b"\n')
    assert guessed(path).dialect == PLAIN
    assert read_table(Source(path)).column("a").to_pylist() == ["1,234", "12,345.5"]
    found = read_table(guessed(path, "thousands"))
    assert found.to_pydict() == {"a": ["1234", "12345.5"], "b": ["x", "a, b"]}


def test_the_line_that_tells_excel_the_separator_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("sep=;\na,b;c\n1;2\n")
    assert read_table(guessed(path)).to_pydict() == {"a,b": ["1"], "c": ["2"]}


def test_a_quoted_line_end_may_stand_where_two_parts_meet(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + '1,"x\ny"\n' * 300_000)
    parts = list(read_parts(path))
    assert len(parts) > 2
    assert pa.concat_tables(parts).column("b").unique().to_pylist() == ["x\ny"]
    assert sum(part.num_rows for part in parts) == 300_000


@pytest.mark.parametrize(
    ("data", "why", "hint"),
    [
        (b"a,b;c,d\n1,5;2,5\n", "several characters", "commas or semicolons"),
        ("a;b\n1;x\n".encode("utf-16-le"), "null bytes", "utf-16-le"),
        (b"a;b\n1;\x81\n", "neither UTF-8 nor Windows-1252", "--csv mac-roman"),
        (b"a;b\n1,5;2.5\n", "decimal commas and with decimal points", "--csv decimal-comma or"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "ROWS.CSV.GZ"])
def test_what_the_beginning_does_not_tell_is_asked_for(
    tmp_path: Path, name: str, data: bytes, why: str, hint: str
) -> None:
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    with pytest.raises(UnreadableFileError, match=why) as refused:
        guessed(tmp_path / name)
    assert hint in refused.value.hint


def test_text_that_is_in_another_encoding_after_the_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a;b\n" + b"1;x\n" * 100_000 + "1;Müller\n".encode("windows-1252"))
    with pytest.raises(UnreadableFileError, match="its text is not UTF-8") as refused:
        read_table(guessed(path))
    assert "--csv windows-1252" in refused.value.hint
    assert read_table(guessed(path, "windows-1252")).column("b")[-1].as_py() == "Müller"


def test_bytes_that_the_said_encoding_does_not_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a;b\n" + b"1;x\n" * 100_000 + b"1;\x81\n")
    with pytest.raises(UnreadableFileError, match="its text is not windows-1252"):
        list(read_parts(guessed(path, "windows-1252")))


@pytest.mark.parametrize("words", ["commas,semicolons", "decimals", "base64", "utf-8,latin-1", ""])
def test_words_that_say_nothing_or_two_things_are_refused(words: str) -> None:
    with pytest.raises(InputError, match="--csv"):
        parse_dialect(words)


def test_words_of_csv_go_with_a_csv_file_alone() -> None:
    with pytest.raises(InputError, match="--csv goes with a CSV file"):
        guessed(Path("rows.parquet"), "semicolons")


def test_a_file_that_is_not_there_is_reported_before_it_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="no such file"):
        guessed(tmp_path / "rows.csv")


def test_one_file_read_in_two_ways_has_two_digests() -> None:
    path = TABLES / "r-ambiguous.csv"
    digests = {
        Source(path).file_digest(),
        *(guessed(path, f"decimal-comma,{words}").file_digest() for words in ("thousands", "no-thousands")),
    }
    assert len(digests) == 3
    assert Source(path).file_digest() == Source(path, PLAIN).file_digest()


def test_a_dialect_in_python_is_plain_where_it_says_nothing() -> None:
    source = Source(TABLES / "pandas-semicolons-bom.csv.gz", parse_dialect("semicolons,decimal-comma"))
    assert read_table(source).column("dose").to_pylist() == ["1.5", "0.25", "10.75"]
    assert read_table(Source(TABLES / "r.csv", Dialect(decimal="."))).column("name").to_pylist() == NAMES
