"""The desk attacks its owner first: what others could find in an uplink, tried before it is sent.

Each attack knows what its attacker would know, and the rows only to count what it found. What it found stays
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.arrays import dequantise
from protocol.table_schema import Schema
from user_client.secret.expansion import Matrix64
from user_client.tables.states import column_states

BUDGET_S: Final = 1.5
"""Of one attack; a step that has begun is finished."""
SEED: Final = 0
"""Which rows are attacked, and where searches start: the same at every run."""


@dataclass(frozen=True)
class Attack:
    """What one attack has found in our uplink.

    Attributes
    ----------
    name : str
    attacker : str
        Who can do it.
    finds : {"rows", "relations", "columns"}
    ran : bool
        False if a library is missing, or the table is too small or too wide for it.
    exact_rows : float, optional
        Share of the rows that were rebuilt in every column; None if the attack rebuilds no rows.
    right_values : float, optional
        Share of all values that were right.
    guessed_rows, guessed_values : float, optional
        Both for somebody who guesses the most frequent value of every column.
    columns : tuple of str
        Columns of the table of which nearly all rows were told apart, without help of the basis.
    named : tuple of str
        Those that were named rightly too, from figures of the population that anybody can know.
    is_complete : bool
        Whether the time was enough for all that the attack would try.
    relations : int, optional
        Integer relations between the rows; None if the attack looks for none.
    seconds : float
    """

    name: str
    attacker: str
    finds: Literal["rows", "relations", "columns"]
    ran: bool
    exact_rows: float | None = None
    right_values: float | None = None
    guessed_rows: float | None = None
    guessed_values: float | None = None
    columns: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    is_complete: bool = True
    relations: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, repr=False)
class Exposed:
    """An uplink as its attackers see it, and the rows in it.

    Attributes
    ----------
    table : pyarrow.Table
        The table from which the rows were taken: how precisely its numbers are recorded is public.
    schema : Schema
    rows : (n, m) ndarray of float64
    rep : (n, l) ndarray of float64
        X~_i as the analyst decodes it.
    secret_basis : (m, l) ndarray of float64
    labels : (n,) ndarray of int
    """

    table: pa.Table
    schema: Schema
    rows: Matrix64
    rep: Matrix64
    secret_basis: Matrix64
    labels: NDArray[Any]


def decoded(rep: NDArray[Any], scale: NDArray[np.float32] | None) -> Matrix64:
    """Return a representation as the analyst reads it."""
    return (rep if scale is None else dequantise(rep, scale)).astype(np.float64)


def attack(uplink: Exposed) -> tuple[Attack, ...]:
    """Try every quick attack on our own uplink, a few seconds in all."""
    states = column_states(uplink.table, uplink.schema)
    return (
        _closest_vector(uplink, states),
        _orthogonal_lattice(uplink, states),
        _independent_components(uplink),
    )


def largest_exact_share(attacks: Sequence[Attack]) -> float:
    """Return the largest share of rows that an attack rebuilt in every column."""
    return max((attack.exact_rows for attack in attacks if attack.exact_rows is not None), default=0.0)


def found_columns(attacks: Sequence[Attack]) -> list[str]:
    """Return the columns that any attack found without the basis, in order."""
    return sorted({name for attack in attacks for name in attack.columns})


# The attacks are loaded when they are tried: their libraries take longer to load than all commands together.


def _closest_vector(uplink: Exposed, states: Sequence[Matrix64]) -> Attack:
    from user_client.privacy.closest_vector import closest_vector

    found = closest_vector(uplink.rows, uplink.secret_basis, uplink.rep, states, seed=SEED, seconds=BUDGET_S)
    tried = Attack("closest vector", "the analyst with any member", "rows", ran=found is not None)
    if found is None:
        return tried
    return replace(
        tried,
        exact_rows=found.exact_rows,
        right_values=found.right_columns,
        guessed_rows=found.guessed_exact_rows,
        guessed_values=found.guessed_columns,
        is_complete=found.finished,
        seconds=found.seconds,
    )


def _orthogonal_lattice(uplink: Exposed, states: Sequence[Matrix64]) -> Attack:
    from user_client.privacy.orthogonal_lattice import orthogonal_lattice

    noise = float(np.sqrt(np.mean((uplink.rep - uplink.rows @ uplink.secret_basis) ** 2)))
    found = orthogonal_lattice(uplink.rows, uplink.rep, noise, states, seed=SEED, seconds=BUDGET_S)
    tried = Attack("orthogonal lattice", "the analyst", "relations", ran=found is not None)
    if found is None:
        return tried
    return replace(tried, relations=found.relations, seconds=found.seconds)


def _independent_components(uplink: Exposed) -> Attack:
    from user_client.privacy.components import search_blindly, shares_by_class, two_valued

    classes = len(uplink.schema.label_column.classes)
    _, values = two_valued(uplink.rows)
    published = shares_by_class(values, uplink.labels, classes)
    found = search_blindly(
        uplink.rep,
        uplink.rows,
        uplink.labels,
        published,
        rng=np.random.default_rng(SEED),
        budget_s=BUDGET_S,
    )
    tried = Attack("independent components", "the analyst", "columns", ran=found is not None)
    if found is None:
        return tried
    return replace(
        tried,
        columns=_columns_of(uplink.schema, found.recovered),
        named=_columns_of(uplink.schema, found.named),
        is_complete=found.complete,
        seconds=found.seconds,
    )


def _columns_of(schema: Schema, features: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the columns of some encoded features."""
    names = [column.name for column in schema.columns for _ in range(column.width)]
    return tuple(sorted({names[feature] for feature in features}))
