"""The options of a draft that are about some of a table's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

import click

from protocol.errors import InputError
from user_client.tables import Source, read_parts

_WITH_VALUES: Final = ("date", "duration", "ordinal", "impute", "missing_in")
_OPTIONS: Final = (*_WITH_VALUES, "category", "other", "logarithm")


def says_of_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command with a ``table``: ``of_columns`` is what they say, for `draft_terms`.

    It is behind `reads_table`, because some names of columns are told by the table.
    """

    @click.option(
        "--category", multiple=True, help="column of numbers that are names of categories; repeat for more"
    )
    @click.option(
        "--date",
        multiple=True,
        metavar="COLUMN=FORMAT",
        help="how a column of dates is written, such as dd/mm/yyyy, if that cannot be told; repeat for more",
    )
    @click.option(
        "--duration",
        multiple=True,
        metavar="COLUMN=SINCE",
        help="column of dates that becomes the days since the date in another column; repeat for more",
    )
    @click.option(
        "--ordinal",
        multiple=True,
        metavar="COLUMN=LOW,...,HIGH",
        help="column whose levels have this order, the lowest first; repeat for more",
    )
    @click.option(
        "--other",
        multiple=True,
        help="column of which one level takes all rare texts and all that only other institutions have;"
        " repeat for more",
    )
    @click.option(
        "--impute",
        multiple=True,
        metavar="COLUMN=VALUE",
        help="what an empty field of a column counts as, such as smoker=no; repeat for more [the middle]",
    )
    @click.option(
        "--logarithm",
        multiple=True,
        help="column of numbers that are mapped as their logarithms; repeat for more",
    )
    @click.option(
        "--missing-in",
        multiple=True,
        metavar="COLUMN=TEXT",
        help="text that stands for an empty field in one column alone, e.g. smoker=9; repeat for more",
    )
    @wraps(command)
    def with_columns(**given: Any) -> None:
        said = {name: given.pop(name) for name in _OPTIONS}
        command(of_columns=_of_columns(given["table"], said), **given)

    return with_columns


def _of_columns(table: Source | None, said: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what was said of some columns of a table, option by option."""
    columns = _columns_if_needed(table, *(said[name] for name in _WITH_VALUES))
    codes: dict[str, list[str]] = {}
    for code in said["missing_in"]:
        for name, text in _by_column("--missing-in", [code], columns).items():
            codes.setdefault(name, []).append(text)
    in_order = _by_column("--ordinal", said["ordinal"], columns)
    return {
        "missing_in": codes,
        "categories": said["category"],
        "dates": _by_column("--date", said["date"], columns),
        "durations": _by_column("--duration", said["duration"], columns),
        "ordinals": {name: levels.split(",") for name, levels in in_order.items()},
        "others": said["other"],
        "imputes": _by_column("--impute", said["impute"], columns),
        "logarithms": said["logarithm"],
    }


def _columns_if_needed(table: Source | None, *given: Sequence[str]) -> Sequence[str]:
    """Return the columns of a table, if one of the options COLUMN=... has more than one such sign."""
    if table is None or all(text.count("=") < 2 for texts in given for text in texts):  # a pair
        return ()
    columns: list[str] = next(read_parts(table)).column_names
    return columns


def _by_column(option: str, given: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
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
