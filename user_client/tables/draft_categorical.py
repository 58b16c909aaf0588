"""Columns that a table itself calls categories: pandas and Arrow have a type for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any

import pyarrow as pa

from user_client.tables.fields import as_text, column_of, readable
from user_client.tables.figures import MAX_DRAFT_LEVELS, distinct, is_number


def with_types(
    table: pa.Table,
    names: Sequence[str],
    told: Collection[str],
    categories: Collection[str],
    ordinals: Mapping[str, Sequence[str]],
    missing: Sequence[str],
) -> tuple[list[str], dict[str, Sequence[str]], list[str]]:
    """Return categories and ordinals with those that the types of columns say, and remarks on these.

    Numbers of more than `MAX_DRAFT_LEVELS` kinds stay numbers: such a type saves memory, and names nothing.

    Parameters
    ----------
    names : sequence of str
        The columns to draft.
    told : collection of str
        Columns of which a person has said what they are.
    missing : sequence of str
        Texts that stand for an empty field.
    """
    of_type, in_order, remarks = list(categories), dict(ordinals), []
    for name in names:
        values = column_of(table, name)
        if name in told or not _are_categories(table, name):
            continue
        with readable(name, f"leave it out with --exclude {quote(name)}"):
            found = distinct(values, missing)
            order = _order_of(values)
        if len(found) > MAX_DRAFT_LEVELS:
            continue
        if len(order) > 1 and len(order) <= MAX_DRAFT_LEVELS and set(found) <= set(order):
            in_order[name] = order
            remarks.append(f"{name}: the table's type has an order of its categories, which the draft takes")
        elif found and all(map(is_number, found)):
            of_type.append(name)
            remarks.append(f"{name}: the table's type says that its numbers are names of categories")
    return of_type, in_order, remarks


def _are_categories(table: pa.Table, name: str) -> bool:
    """Return whether a column is of such a type, or was one of pandas before it came into a file."""
    if pa.types.is_dictionary(table.schema.field(name).type):
        return True
    columns: list[dict[str, Any]] = (table.schema.pandas_metadata or {}).get("columns", [])
    return any(one.get("name") == name and one.get("pandas_type") == "categorical" for one in columns)


def _order_of(values: pa.ChunkedArray) -> list[str]:
    """Return the categories from the lowest on; none if they have no order."""
    if not (pa.types.is_dictionary(values.type) and values.type.ordered and values.num_chunks):
        return []
    first = values.chunk(0).dictionary
    if not all(chunk.dictionary.equals(first) for chunk in values.chunks):
        return []
    return [text for text in as_text(pa.chunked_array([first])).to_pylist() if text is not None]
