"""The desk attacks its owner first: what others could find in an uplink, tried before it is sent.

Each attack knows what its attacker would know, and the rows only to count what it found. What it found stays
here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.arrays import dequantise
from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.sdk.apart import apart
from user_client.secret.expansion import Matrix64
from user_client.tables import GROUPS, strata
from user_client.tables.states import column_states

if TYPE_CHECKING:
    from user_client.privacy.held import Uplink

BUDGET_S: Final = 1.5
"""Of one quick attack; a step that has begun is finished."""
THOROUGH_S: Final = 30.0
"""Of the same attack, if it is to be thorough."""
MOST_LINKED: Final = 1000
"""Rows, drawn at random, in which rows are looked for."""
FEWEST_OF_A_CLASS: Final = 3
"""Rows of one class, on both sides, from which moments are taken."""
KNOWN: Final = 5
"""Rows that somebody knows, in no order, and looks for."""
TRIALS: Final = 20
AttackLevel = Literal["none", "quick", "thorough"]
"""How long our own rows are attacked before anything leaves: not at all, a few seconds, or minutes."""
ATTACK_LEVELS: Final = get_args(AttackLevel)
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
    finds : {"rows", "relations", "columns", "links"}
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
    linked_rows : float, optional
        Share of the rows looked for that were found among all of them; None if the attack looks for none.
    seconds : float
    """

    name: str
    attacker: str
    finds: Literal["rows", "relations", "columns", "links"]
    ran: bool
    exact_rows: float | None = None
    right_values: float | None = None
    guessed_rows: float | None = None
    guessed_values: float | None = None
    columns: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    is_complete: bool = True
    relations: int | None = None
    linked_rows: float | None = None
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
    secret_basis : (m, l) ndarray of float64, optional
        None where the map is not linear: attacks that need a basis are then not tried.
    labels : (n,) ndarray
        As they are sent: who knows a row's number looks for it.
    dither : float
        As the manifest states it; 0 without.
    """

    table: pa.Table
    schema: Schema
    rows: Matrix64
    rep: Matrix64
    secret_basis: Matrix64 | None
    labels: NDArray[Any]
    dither: float = 0.0

    @property
    def groups(self) -> NDArray[np.int64]:
        """The class numbers, or the groups of other labels, for attacks that compare distributions."""
        if self.schema.label_column.task == "multilabel":  # the analyst sees every set of labels
            return np.unique(self.labels, return_inverse=True)[1].astype(np.int64)
        return strata(self.labels, self.schema.label_column.task).astype(np.int64)

    @property
    def group_count(self) -> int:
        """How many groups there may be."""
        label = self.schema.label_column
        if label.task == "multilabel":
            return len(np.unique(self.labels))
        return GROUPS.get(label.task, label.outputs)


def decoded(rep: NDArray[Any], scale: NDArray[np.float32] | None) -> Matrix64:
    """Return a representation as the analyst reads it."""
    return (rep if scale is None else dequantise(rep, scale)).astype(np.float64)


def attack(uplink: Exposed, level: AttackLevel = "quick") -> tuple[Attack, ...]:
    """Try attacks on our own uplink: the quick ones, or these with more time and those that link rows."""
    check_level(level)
    if level == "none":
        return ()
    states = column_states(uplink.table, uplink.schema)
    seconds = THOROUGH_S if level == "thorough" else BUDGET_S
    quick = (
        _closest_vector(uplink, states, seconds),
        _orthogonal_lattice(uplink, states, seconds),
        _independent_components(uplink, seconds),
    )
    return (*quick, _population_matching(uplink), _known_rows(uplink)) if level == "thorough" else quick


def check_level(level: str) -> None:
    """Raise `InputError` unless there is such a level of attacks."""
    if level not in ATTACK_LEVELS:
        raise InputError(f"attack must be one of {', '.join(ATTACK_LEVELS)}, got {level}")


def level_of(attacks: Sequence[Attack]) -> AttackLevel:
    """Return which of the levels these attacks are."""
    if any(tried.finds == "links" for tried in attacks):
        return "thorough"
    return "quick" if attacks else "none"


def largest_exact_share(attacks: Sequence[Attack]) -> float:
    """Return the largest share of rows that an attack rebuilt in every column."""
    return max((attack.exact_rows for attack in attacks if attack.exact_rows is not None), default=0.0)


def found_columns(attacks: Sequence[Attack]) -> list[str]:
    """Return the columns that any attack found without the basis, in order."""
    return sorted({name for attack in attacks for name in attack.columns})


# The attacks are loaded when they are tried: their libraries take longer to load than all commands together.


def _closest_vector(uplink: Exposed, states: Sequence[Matrix64], seconds: float) -> Attack:
    from user_client.privacy.closest_vector import closest_vector

    basis = uplink.secret_basis
    found = (
        None
        if basis is None
        else closest_vector(uplink.rows, basis, uplink.rep, states, seed=SEED, seconds=seconds)
    )
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


def _orthogonal_lattice(uplink: Exposed, states: Sequence[Matrix64], seconds: float) -> Attack:
    from user_client.privacy.orthogonal_lattice import orthogonal_lattice

    tried = Attack("orthogonal lattice", "the analyst", "relations", ran=False)
    if uplink.secret_basis is None:
        return tried
    noise = float(np.sqrt(np.mean((uplink.rep - uplink.rows @ uplink.secret_basis) ** 2)))
    found = orthogonal_lattice(uplink.rows, uplink.rep, noise, states, seed=SEED, seconds=seconds)
    if found is None:
        return tried
    tried = replace(tried, ran=True)
    return replace(tried, relations=found.relations, seconds=found.seconds)


def _independent_components(uplink: Exposed, seconds: float) -> Attack:
    from user_client.privacy import components

    tried = Attack("independent components", "the analyst", "columns", ran=False)
    if not components.can_search():
        return tried
    features, values = components.two_valued(uplink.rows)
    if not len(features) and components.has_enough(uplink.rep):
        return replace(tried, ran=True)  # there is no such column that the search could find
    published = components.shares_by_class(values, uplink.groups, uplink.group_count)
    found = apart(  # its libraries take a quarter of the memory that preparing a table does
        components.search_blindly,
        uplink.rep,
        uplink.rows,
        uplink.groups,
        published,
        rng=np.random.default_rng(SEED),
        budget_s=seconds,
    )
    if found is None:
        return tried
    return replace(
        tried,
        ran=True,
        columns=_columns_of(uplink.schema, found.recovered),
        named=_columns_of(uplink.schema, found.named),
        is_complete=found.complete,
        seconds=found.seconds,
    )


def _population_matching(uplink: Exposed) -> Attack:
    """Let half of the rows play a public table, and look for the others in a register of both."""
    from user_client.privacy.matching import match_population, reidentified

    start, rng = time.thread_time(), np.random.default_rng(SEED)
    sent, public = np.array_split(rng.permutation(len(uplink.rows))[:MOST_LINKED], 2)
    groups = uplink.groups
    tried = Attack("population matching", "the analyst with rows of similar people", "links", ran=False)
    shared = np.minimum(*(np.bincount(groups[part], minlength=uplink.group_count) for part in (sent, public)))
    if shared.max() < FEWEST_OF_A_CLASS or uplink.rep.shape[1] < 2:
        return tried
    held = _held(uplink, sent, groups)
    try:
        rotation = match_population([held], uplink.rows[public], groups[public], rng=rng)
        share = reidentified([held], [uplink.rows[sent]], uplink.rows[public], rotation)
    except (np.linalg.LinAlgError, IndexError):  # no spread along some axis: nothing to match
        return tried
    return replace(tried, ran=True, linked_rows=share, seconds=time.thread_time() - start)


def _known_rows(uplink: Exposed) -> Attack:
    from user_client.privacy.linking import locate

    start, rng = time.thread_time(), np.random.default_rng(SEED)
    tried = Attack("known rows", f"the analyst with {KNOWN} rows that it knows", "links", ran=False)
    chosen = rng.permutation(len(uplink.rows))[:MOST_LINKED]
    if len(chosen) < 2 * KNOWN:
        return tried
    held, hits = _held(uplink, chosen, uplink.labels), 0
    for _ in range(TRIALS):
        known = rng.choice(len(chosen), KNOWN, replace=False)
        found = locate(uplink.rows[chosen[known]], uplink.labels[chosen[known]], held)
        hits += int((found == known).sum())
    share = hits / (TRIALS * KNOWN)
    return replace(tried, ran=True, linked_rows=share, seconds=time.thread_time() - start)


def _held(uplink: Exposed, rows: NDArray[np.int64], labels: NDArray[Any]) -> Uplink:
    """Return what the analyst holds of some rows, in the frame of this member alone."""
    from user_client.privacy.held import Uplink

    return Uplink(uplink.rep[rows], np.eye(uplink.rep.shape[1]), labels[rows], uplink.dither)


def _columns_of(schema: Schema, features: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the columns of some encoded features."""
    names = [column.name for column in schema.columns for _ in range(column.width)]
    return tuple(sorted({names[feature] for feature in features}))
