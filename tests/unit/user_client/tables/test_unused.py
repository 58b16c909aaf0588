"""The columns that terms do not use are read as numbers, whatever they hold."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa

from user_client.tables.unused import MOST_READ, unused_columns


def test_numbers_texts_and_empty_fields_become_numbers_of_the_rows_that_are_asked_for() -> None:
    table = pa.table(
        {
            "used": [1, 2, 3, 4],
            "n": ["3", "", "5", "NA"],
            "t": ["b", None, "a", "b"],
            "empty": pa.nulls(4, pa.string()),
            "list": [[1], [2], [3], [4]],
        }
    )
    names, numbers = unused_columns(table, {"used"}, np.array([0, 1, 2]), [])
    assert names == ["n", "t", "empty", "list"]
    assert numbers["n"].tolist() == [3, 2, 5]
    assert len(set(numbers["t"])) == 3
    assert numbers["t"][1] < min(numbers["t"][0], numbers["t"][2])
    assert not numbers["empty"].any()
    assert "list" not in numbers


def test_of_a_wide_table_the_first_columns_are_read_and_all_are_named() -> None:
    table = pa.table({f"x{i}": [1, 2] for i in range(MOST_READ + 5)})
    names, numbers = unused_columns(table, set(), np.arange(2), [])
    assert len(names) == MOST_READ + 5
    assert len(numbers) == MOST_READ


def test_where_all_columns_are_used_nothing_is_read() -> None:
    assert unused_columns(pa.table({"x": [1]}), {"x"}, np.arange(1), []) == ([], {})


def test_a_note_of_a_million_characters_takes_no_more_than_itself() -> None:
    """As an array of numpy, each of the others would take four megabytes."""
    notes = ["n" * 2**20, *(f"note {row % 7}" for row in range(2000))]
    tracemalloc.start()
    _, found = unused_columns(pa.table({"note": notes}), set(), np.arange(len(notes)), ())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(np.unique(found["note"])) == 8
    assert peak < 100 * 2**20
