"""The argument TABLE, and the options that say how to read it: every command with a table has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from protocol.errors import InputError
from runtime.files import read_text
from user_client.tables import PLAIN, Dialect, Source, parse_dialect, read_parts


class _Table(click.ParamType[Source]):
    """A table that a person names: a file, which a shell can complete, or a database."""

    name = "table"

    def convert(
        self, value: str | Source, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> Source:
        return value if isinstance(value, Source) else Source(value)

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


TABLE = _Table()
table_argument = click.argument("table", type=TABLE, help="CSV, Parquet, Excel or Feather file")


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command, whose argument ``table`` is a `Source` that says how it is read."""

    @click.option(
        "--csv",
        metavar="WORDS",
        help="how a CSV file is written, such as semicolons,decimal-comma,windows-1252; what is not said is"
        " guessed, and shown",
    )
    @click.option("--sheet", metavar="NAME", help="sheet of an Excel workbook; needed if it has several")
    @click.option(
        "--query",
        metavar="SQL",
        help="what to ask a database, or @FILE with it; TABLE is then postgresql://..., sqlite:FILE or"
        " duckdb:FILE",
    )
    @wraps(command)
    def with_table(csv: str | None, sheet: str | None, query: str | None, **given: Any) -> None:
        if (table := given["table"]) is not None:
            table = replace(table, sheet=sheet, query=_query(query))
            given["table"] = _shown(table, parse_dialect(csv) if csv else Dialect())
        elif csv or sheet or query:
            raise InputError("--csv, --sheet and --query go with a table: name it as well")
        command(**given)

    return with_table


def _query(said: str | None) -> str | None:
    """Return a query, which may be in a file."""
    return read_text(Path(said[1:])) if said and said.startswith("@") else said


def _shown(table: Source, said: Dialect) -> Source:
    """Return a table as it will be read, after a guess was shown."""
    found = table.guessed(said)
    given, usual = said.words.split(","), PLAIN.words.split(",")
    words = found.dialect.words.split(",")
    guessed = [word for word in words if word not in given]
    if not set(guessed) <= set(usual):
        which = "which" if guessed == words else f"of which {','.join(guessed)}"
        click.echo(
            f"odc: {table.place} is read with --csv {','.join(words)}, {which} is a guess: if it is wrong,"
            " say --csv yourself",
            err=True,
        )
    return found


def columns_if_needed(table: Source | None, *given: Sequence[str]) -> Sequence[str]:
    """Return the columns of a table, if one of the options COLUMN=... has more than one such sign."""
    if table is None or all(text.count("=") < 2 for texts in given for text in texts):  # a pair
        return ()
    columns: list[str] = next(read_parts(table)).column_names
    return columns


def by_column(option: str, given: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Return what is said of each column; raises `InputError`."""
    found: dict[str, str] = {}
    for text in given:
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
