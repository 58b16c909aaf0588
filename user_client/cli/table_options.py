"""The argument TABLE, and the options that say how to read it: every command with a table has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from protocol.errors import InputError
from runtime.files import read_text
from user_client.tables import PLAIN, Dialect, Source, parse_dialect, read_parts


def source_at(text: str) -> Source:
    """Return the table that a person names."""
    return Source(text)


TABLE = {"parser": source_at, "metavar": "TABLE"}
"""How typer makes a `Source` of an argument or option."""
TableArgument = Annotated[Source, typer.Argument(help="CSV, Parquet, Excel or Feather file", **TABLE)]
_CSV = Annotated[
    str | None,
    typer.Option(
        "--csv",
        metavar="WORDS",
        help="how a CSV file is written, such as semicolons,decimal-comma,windows-1252; what is not said is"
        " guessed, and shown",
    ),
]


_SHEET = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="sheet of an Excel workbook; needed if it has several"),
]


_QUERY = Annotated[
    str | None,
    typer.Option(
        "--query",
        metavar="SQL",
        help="what to ask a database, or @FILE with it; TABLE is then postgresql://..., "
        "sqlite:FILE or duckdb:FILE",
    ),
]


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command, whose argument ``table`` is a `Source` that says how it is read."""

    @wraps(command)
    def with_table(**given: Any) -> None:
        words, table = given.pop("csv"), given["table"]
        sheet, query = given.pop("sheet"), given.pop("query")
        if table is not None:
            table = replace(table, sheet=sheet, query=_query(query))
            given["table"] = _shown(table, parse_dialect(words) if words else Dialect())
        elif words or sheet or query:
            raise InputError("--csv, --sheet and --query go with a table: name it as well")
        command(**given)

    return with_parameters(
        with_table, command, [("csv", None, _CSV), ("sheet", None, _SHEET), ("query", None, _QUERY)]
    )


def _query(said: str | None) -> str | None:
    """Return a query, which may be in a file."""
    return read_text(Path(said[1:])) if said and said.startswith("@") else said


def _shown(table: Source, said: Dialect) -> Source:
    """Return a table as it will be read, after a guess was shown."""
    found = table.guessed(said)
    if found.dialect not in (PLAIN, said):
        typer.echo(
            f"odc: {table.place} is read with --csv {found.dialect.words}, which is a guess: if it is wrong,"
            " say --csv yourself",
            err=True,
        )
    return found


def columns_if_needed(table: Source | None, *given: Sequence[str] | None) -> Sequence[str]:
    """Return the columns of a table, if one of the options COLUMN=... has more than one such sign."""
    if table is None or all(text.count("=") < 2 for texts in given for text in texts or ()):  # a pair
        return ()
    columns: list[str] = next(read_parts(table)).column_names
    return columns


def by_column(option: str, given: Sequence[str] | None, columns: Sequence[str]) -> dict[str, str]:
    """Return what is said of each column; raises `InputError`."""
    found: dict[str, str] = {}
    for text in given or ():
        name, said = _split(option, text, columns)
        if not name or not said or name in found:
            raise InputError(f"{option} has the form COLUMN=..., once for each column")
        found[name] = said
    return found


def _split(option: str, text: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return what stands before and behind the ``=`` that ends the name of a column; raises `InputError`.

    A name and what is said of it may have such a sign too. Where no column is meant, the first counts.
    """
    parts = text.split("=")
    splits = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(1, len(parts))]
    known = [split for split in splits if split[0] in columns]
    if len(known) > 1:
        names = " or ".join(f"'{name}'" for name, _ in known)
        raise InputError(f"{option} {text} may be about column {names}: rename one of them in the table")
    return (known or splits or [(text, "")])[0]


def with_parameters(
    wrapper: Callable[..., None],
    command: Callable[..., None],
    added: Iterable[tuple[str, Any, Any]],
    *,
    without: str | None = None,
) -> Callable[..., None]:
    """Give the wrapper of a command the command's parameters but one, and more: names, defaults and types."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own if each.name != without),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, default, annotation in added
        ),
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapper
