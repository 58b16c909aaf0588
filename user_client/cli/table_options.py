"""The argument TABLE, and the options that say how to read it: every command with a table has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from protocol.errors import InputError
from runtime.files import read_text
from user_client.tables import PLAIN, Dialect, Source, parse_dialect


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
