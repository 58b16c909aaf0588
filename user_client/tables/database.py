"""Read the result of a query part by part: PostgreSQL, SQLite, and DuckDB, also over files.

No password is in a URL, and no error has the words of a database, which may quote a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from protocol.errors import InputError
from user_client.errors import MissingExtraError
from user_client.tables.fields import EXACT_BELOW
from user_client.tables.files import rows_of_a_part, unreadable

_BATCH_BYTES: Final = 2**20
_BATCH_ROWS: Final = 2**14
_SECRET_PARAMETERS: Final = ("password", "sslpassword")


def is_database(place: str | Path) -> bool:
    """Return whether a table is named by the URL of a database."""
    return isinstance(place, str) and _scheme(place) in _READERS


def refuse_other_url(place: str | Path) -> None:
    """Raise `InputError` for the URL of something that is not read here; the error has its scheme alone."""
    if isinstance(place, str) and "://" in place and not is_database(place):
        error = InputError(f"nothing of {_scheme(place)}:// is read here")
        error.hint = "name a file, or a database as postgresql://HOST/NAME, sqlite:FILE or duckdb:FILE"
        raise error


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def refuse_password(url: str) -> None:
    """Raise `InputError` if a URL has a password; the error does not have it."""
    try:
        parts = urlsplit(url)
        has_password = parts.password is not None or set(parse_qs(parts.query)) & set(_SECRET_PARAMETERS)
    except ValueError:
        raise InputError("the URL of the database is none") from None
    if has_password:
        error = InputError("the URL of the database has a password, which others on this machine can see")
        error.hint = "leave it out: PGPASSWORD, PGPASSFILE or ~/.pgpass has it, as for psql"
        raise error


def query_parts(url: str, query: str) -> Iterator[pa.Table]:
    """Yield the result of a query part by part, the first without rows.

    Raises
    ------
    UnreadableFileError
        If the database cannot be reached, or refuses the query.
    MissingExtraError
        If the driver is not installed.
    """
    scheme = _scheme(url)
    try:
        for batch in _READERS[scheme](f"{scheme}:{url.partition(':')[2]}", query):
            table = _plain(batch)
            at_once = rows_of_a_part(table.num_columns)
            for start in range(0, max(table.num_rows, 1), at_once):
                yield table.slice(start, at_once)
    except ModuleNotFoundError:
        raise MissingExtraError("a database", "sql") from None
    except _Refused as error:
        raise unreadable(url, str(error), error.hint) from None


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without the types of its database, such as numbers of any length, which are text."""
    for index, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            values = pa.chunked_array(
                [chunk.storage for chunk in table.column(index).chunks], field.type.storage_type
            )
            table = table.set_column(index, field.name, values)
    return table


class _Refused(Exception):  # noqa: N818  # never leaves this module
    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _not_reached(error: Exception) -> _Refused:
    return _Refused(
        f"the database cannot be opened ({_code(error)})", "check the URL, the user and the password"
    )


def _not_run(error: Exception, program: str) -> _Refused:
    return _Refused(
        f"the database refuses the query ({_code(error)})", f"{program} shows why: run the query there"
    )


def _code(error: Exception) -> str:
    return str(
        getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None) or type(error).__name__
    )


def _of_postgresql(url: str, query: str) -> Iterator[pa.Table]:
    from adbc_driver_manager import dbapi
    from adbc_driver_postgresql import StatementOptions
    from adbc_driver_postgresql.dbapi import connect

    try:
        connection = connect(url)
    except dbapi.Error as error:
        raise _not_reached(error) from None
    with closing(connection), closing(connection.cursor()) as cursor:
        try:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.adbc_statement.set_options(
                **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
            )
            cursor.execute(query)
            yield from _of_reader(cursor.fetch_record_batch())
        except (dbapi.Error, pa.ArrowException, OSError) as error:
            raise _not_run(error, "psql") from None


def _of_duckdb(url: str, query: str) -> Iterator[pa.Table]:
    import duckdb

    file = url.partition(":")[2]
    # nothing is downloaded, and no name in the query is a variable of this program
    config: dict[str, Any] = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
    try:
        connection = duckdb.connect(file or ":memory:", read_only=bool(file), config=config)
    except (duckdb.Error, OSError) as error:
        raise _not_reached(error) from None
    with closing(connection):
        try:
            result = connection.sql(query)
            if result is None:
                raise _Refused("the query has no result", "ask with SELECT")
            yield from _of_reader(result.to_arrow_reader(_BATCH_ROWS))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise _not_run(error, "duckdb") from None


def _of_reader(reader: Any) -> Iterator[pa.Table]:
    yield reader.schema.empty_table()
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _of_sqlite(url: str, query: str) -> Iterator[pa.Table]:
    """Yield a result as text, because a column of SQLite may hold values of any type."""
    import sqlite3

    path = Path(url.partition(":")[2])
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise _not_reached(error) from None
    with closing(connection):
        try:
            cursor = connection.execute(query)
            names = [each[0] for each in cursor.description or ()]
            schema = pa.schema([(name, pa.string()) for name in names])
            yield schema.empty_table()
            while rows := cursor.fetchmany(rows_of_a_part(len(names))):
                columns = [pa.array(map(_text, column), pa.string()) for column in zip(*rows, strict=True)]
                yield pa.Table.from_arrays(columns, schema=schema)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _not_run(error, "sqlite3") from None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        raise _Refused("a field of the result is binary", "leave its column out of the query")
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_BELOW:
        return str(int(value))  # a column of integers of another program may be one of REAL here
    return None if value is None else str(value)


_READERS: Final[dict[str, Callable[[str, str], Iterator[pa.Table]]]] = {
    "postgresql": _of_postgresql,
    "postgres": _of_postgresql,
    "sqlite": _of_sqlite,
    "duckdb": _of_duckdb,
}
"""By the scheme of the URL."""
