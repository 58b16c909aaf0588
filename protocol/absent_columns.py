"""Institutions that lack some columns of the table, as the terms say it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import FailFast, Field

from protocol.codec import Message
from protocol.limits import MAX_COLUMNS
from protocol.table_schema import Schema
from protocol.texts import Name, PartyName


class AbsentColumns(Message):
    """One institution, and the columns that it takes part without."""

    party: PartyName
    columns: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=1, max_length=MAX_COLUMNS)


def schema_without(schema: Schema, absent: Collection[str]) -> Schema:
    """Return the schema of a party that lacks some columns: the others, in their order."""
    if not absent:
        return schema
    held = tuple(column for column in schema.columns if column.name not in absent)
    return schema.model_copy(update={"columns": held})


def features_without(schema: Schema, absent: Collection[str]) -> list[int]:
    """Return which of the m encoded features a party has that lacks some columns, in ascending order."""
    found: list[int] = []
    start = 0
    for column in schema.columns:
        if column.name not in absent:
            found += range(start, start + column.width)
        start += column.width
    return found


def check_absent_columns(
    listed: Sequence[AbsentColumns],
    schema: Schema,
    least_name: str,
    least_dim: int,
    *,
    parties: Collection[str],
    senders: Collection[str],
    joined: Collection[str] = (),
) -> None:
    """Raise `ValueError` unless every column is some sender's and every party has enough features.

    Parameters
    ----------
    least_name, least_dim : str, int
        The fewest numbers that a party sends of a row, and what the terms call them.
    parties : collection of str
        All parties of the terms.
    senders : collection of str
        Those of them whose rows train the model.
    joined : collection of str
        Those of them whose rows are joined with others': their numbers are checked with the group.
    """
    names = {column.name for column in schema.columns}
    of_party = {each.party: set(each.columns) for each in listed}
    if len(of_party) != len(listed):
        raise ValueError("absent_columns must name each party once")
    for each in listed:
        if each.party not in parties:
            raise ValueError(f"absent_columns must be of the parties, {each.party} is none")
        if len(of_party[each.party]) != len(each.columns):
            raise ValueError(f"the absent_columns of {each.party} must be distinct")
        if unknown := of_party[each.party] - names:
            raise ValueError(f"absent_columns must be columns of the table, {min(unknown)} is none")
        width = schema_without(schema, of_party[each.party]).width
        if least_dim > width and each.party not in joined:
            raise ValueError(
                f"{least_name} must be at most the {width} encoded features that {each.party} has without its"
                " absent_columns"
            )
    held: set[str] = set()
    for party in senders:
        held |= names - of_party.get(party, set())
    if lost := names - held:
        raise ValueError(f"no institution that sends rows has the column {min(lost)}: leave it out")
