"""Tables from PostgreSQL, SQLite and DuckDB, each a real one that its own program has filled."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from protocol.errors import InputError, UnreadableFileError
from tests.harness.postgresql import PASSWORD, PostgreSql, postgresql
from tests.harness.tree import REPOSITORY
from user_client.errors import MissingExtraError
from user_client.tables import Source, digest_of, read_parts, read_table
from user_client.tables.fields import as_text

R_CSV = REPOSITORY / "tests" / "harness" / "tables" / "r.csv"
CREATE = (
    "CREATE TABLE patients (dose NUMERIC, age INTEGER, name TEXT, note TEXT, flag BOOLEAN, day DATE);\n"
    "COPY patients FROM STDIN WITH (FORMAT csv, HEADER);\n"
)
MANY = "SELECT n AS a, 'ward ' || n % 7 AS b FROM generate_series(1, 300000) AS s(n) ORDER BY n"


def texts(table: pa.Table) -> dict[str, list[str | None]]:
    return {name: as_text(table.column(name)).to_pylist() for name in table.column_names}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with postgresql() as found:
        found.psql(CREATE + R_CSV.read_text() + "\\.\n")
        yield found


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def test_what_psql_has_copied_is_read_from_postgresql(server: PostgreSql, password: None) -> None:
    found = texts(read_table(Source(server.url, query="SELECT * FROM patients ORDER BY age DESC")))
    assert found == {
        "dose": ["1.5", "10.75", "0.25"],
        "age": ["71", "43", "8"],
        "name": ["Müller", "O'Neil", "Åse"],
        "note": ["line one\nline two", 'she said "no"', "a; b, c | d"],
        "flag": ["true", "true", "false"],
        "day": ["2024-01-31", "1999-02-28", "2023-12-01"],
    }


def test_a_result_of_postgresql_comes_in_parts(server: PostgreSql, password: None) -> None:
    first, *parts = read_parts(Source(server.url, query=MANY))
    assert (first.num_rows, first.column_names) == (0, ["a", "b"])
    assert len(parts) > 3
    assert pa.concat_tables(parts).column("a").to_pylist() == list(range(1, 300_001))


def test_an_empty_result_has_its_columns(server: PostgreSql, password: None) -> None:
    found = read_table(Source(server.url, query="SELECT age, name FROM patients WHERE age < 0"))
    assert (found.num_rows, found.column_names) == (0, ["age", "name"])


@pytest.mark.parametrize("given", ["", "wrong"])
def test_without_the_password_nothing_is_read(
    server: PostgreSql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", given)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(UnreadableFileError, match="the database cannot be opened") as refused:
        read_table(Source(server.url, query="SELECT 1 AS a"))
    assert "wrong" not in str(refused.value)


def test_the_password_may_stand_in_a_file(
    server: PostgreSql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:*:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    assert texts(read_table(Source(server.url, query="SELECT 1 AS a"))) == {"a": ["1"]}


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM patients RETURNING age",
        "WITH gone AS (DELETE FROM patients RETURNING age) SELECT * FROM gone",
        "SELECT no_such_column FROM patients",
        "SELECT name::integer FROM patients",
        "SELECT 1 / (age - 71) FROM patients ORDER BY age",
        "",
    ],
)
def test_postgresql_is_only_read_and_its_words_are_not_repeated(
    server: PostgreSql, password: None, query: str
) -> None:
    with pytest.raises(UnreadableFileError, match="the database refuses the query") as refused:
        read_table(Source(server.url, query=query))
    assert "ller" not in str(refused.value.to_problem())
    assert read_table(Source(server.url, query="SELECT * FROM patients")).num_rows == 3


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://clinic:hunter2@host/db",
        "postgres://host/db?user=a&password=hunter2",
        "postgresql://host/db?sslpassword=hunter2",
        "PostgreSQL://clinic:hunter2@host/db",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="has a password") as refused:
        Source(url, query="SELECT 1")
    assert "hunter2" not in str(refused.value.to_problem())
    assert "PGPASSFILE" in refused.value.hint


def test_a_url_that_is_not_read_is_refused_and_not_repeated() -> None:
    with pytest.raises(InputError, match=r"nothing of postgresql\+psycopg2:// is read") as refused:
        Source("postgresql+psycopg2://clinic:hunter2@host/db", query="SELECT 1")
    assert "hunter2" not in str(refused.value.to_problem())
    assert "postgresql://HOST/NAME" in refused.value.hint


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed (Debian: apt install sqlite3)")
    path = tmp_path / "a clinic?.db"
    subprocess.run(["sqlite3", path, f".import --csv '{R_CSV}' patients"], check=True)
    return f"sqlite:{path}"


def test_what_sqlite_has_imported_is_read_as_text(sqlite: str) -> None:
    found = read_table(Source(sqlite, query="SELECT dose, day, NULL AS gone, age + 1 AS older FROM patients"))
    assert found.to_pydict() == {
        "dose": ["1.5", "0.25", "10.75"],
        "day": ["2024-01-31", "2023-12-01", "1999-02-28"],
        "gone": [None] * 3,
        "older": ["72", "9", "44"],
    }


def test_whole_numbers_that_sqlite_stores_as_real_have_no_point(tmp_path: Path) -> None:
    path = tmp_path / "patients.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE patients (id REAL)")
        connection.executemany("INSERT INTO patients VALUES (?)", [(12,), (None,), (2.5,), (1e15,)])
        connection.commit()
    found = read_table(Source(f"sqlite:{path}", query="SELECT id FROM patients ORDER BY rowid"))
    assert found.to_pydict() == {"id": ["12", None, "2.5", "1" + "0" * 15]}


@pytest.mark.parametrize("query", ["DELETE FROM patients", "SELECT gone FROM patients", "SELECT 1; SELECT 2"])
def test_sqlite_is_only_read(sqlite: str, query: str) -> None:
    with pytest.raises(UnreadableFileError, match="the database refuses the query"):
        read_table(Source(sqlite, query=query))
    assert read_table(Source(sqlite, query="SELECT * FROM patients")).num_rows == 3


def test_a_binary_field_of_sqlite_is_refused(sqlite: str) -> None:
    with pytest.raises(UnreadableFileError, match="a field of the result is binary"):
        read_table(Source(sqlite, query="SELECT CAST(name AS BLOB) AS b FROM patients"))


def test_a_file_of_sqlite_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="the database cannot be opened"):
        read_table(Source(f"sqlite:{tmp_path / 'none.db'}", query="SELECT 1"))
    assert list(tmp_path.iterdir()) == []


def test_a_long_result_of_sqlite_comes_in_parts(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as made:
        made.execute("CREATE TABLE rows (a)")
        made.executemany("INSERT INTO rows VALUES (?)", ((number,) for number in range(150_000)))
    made.close()
    first, *parts = read_parts(
        Source(f"sqlite:{tmp_path / 'rows.db'}", query="SELECT a FROM rows ORDER BY a")
    )
    assert first.num_rows == 0
    assert [part.num_rows for part in parts] == [65536, 65536, 18928]


def test_duckdb_reads_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(R_CSV.parent)
    with pytest.raises(UnreadableFileError):  # not the query itself, as a variable
        read_table(Source("duckdb:", query="SELECT * FROM config"))
    query = "SELECT dose, day, count(*) OVER () AS n FROM 'r.csv' ORDER BY dose"
    assert texts(read_table(Source("duckdb:", query=query))) == {
        "dose": ["0.25", "1.5", "10.75"],
        "day": ["2023-12-01", "2024-01-31", "1999-02-28"],
        "n": ["3", "3", "3"],
    }


def test_a_database_of_duckdb_is_only_read(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as made:
        made.read_csv(str(R_CSV)).create("patients")
    url = f"duckdb:{tmp_path / 'clinic.duckdb'}"
    assert read_table(Source(url, query="SELECT * FROM patients")).num_rows == 3
    for query in ("DELETE FROM patients", "SELECT gone FROM patients", "SELECT name::INTEGER FROM patients"):
        with pytest.raises(UnreadableFileError, match="the database refuses the query") as refused:
            read_table(Source(url, query=query))
        assert "ller" not in str(refused.value.to_problem())


def test_the_digest_of_a_result_is_that_of_its_rows(sqlite: str) -> None:
    whole = digest_of(Source(sqlite, query="SELECT name, dose FROM patients"))
    assert whole == digest_of(Source(sqlite, query="SELECT name, dose FROM patients WHERE age > 0"))
    assert whole != digest_of(Source(sqlite, query="SELECT name, dose FROM patients WHERE age > 8"))


def test_a_database_needs_a_query_and_a_file_takes_none(sqlite: str) -> None:
    with pytest.raises(InputError, match="--query"):
        read_table(Source(sqlite))
    with pytest.raises(InputError, match="--query goes with"):
        Source(R_CSV, query="SELECT 1")


@pytest.mark.parametrize(
    ("url", "driver"), [("duckdb:", "duckdb"), ("postgresql://h/d", "adbc_driver_postgresql")]
)
def test_a_driver_that_is_not_installed_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(MissingExtraError, match=r"\[sql\]"):
        read_table(Source(url, query="SELECT 1"))


@pytest.mark.parametrize("column", ["[1, 2]", "'\\xFF'::BLOB", "INTERVAL 3 DAY", "{'a': 1}"])
def test_a_result_has_a_digest_whatever_columns_it_has_besides(column: str) -> None:
    """Terms cannot name such a column, and need not: `odc prepare` reads the others."""
    first, same, other = (
        digest_of(Source("duckdb:", query=f"SELECT {number} AS a, {column} AS b")) for number in (1, 1, 2)
    )
    assert first == same != other
