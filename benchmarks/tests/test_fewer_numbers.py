from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.defaults.tables import LABEL
from benchmarks.fewer_numbers import Job, drafted_by_lead, run


def _table(seed: int, *, level: str, scale: float = 1.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    labels = np.arange(60) % 2
    kinds = np.where(rng.random(60) < 0.5, "a", "b").astype(object)
    kinds[0] = level
    return pa.table(
        {
            "size": scale * (labels + rng.standard_normal(60)),
            "kind": pa.array(list(kinds), pa.string()),
            LABEL: [f"class {label}" for label in labels],
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_only_levels_come_from_rows_that_are_not_the_leads(seed: int) -> None:
    lead = _table(seed, level="a")
    train = {"first": lead, "second": _table(seed + 10, level="b")}
    plain = drafted_by_lead(train, list(train.values()))
    test = _table(seed + 20, level="seen in tests alone", scale=50.0)
    turned = test.set_column(2, LABEL, pa.array(test[LABEL].to_pylist()[::-1]))
    first, second = (drafted_by_lead(train, [*train.values(), one]) for one in (test, turned))
    assert first == second  # whatever the labels
    columns = {column["name"]: column for column in first["table_schema"]["columns"]}
    assert "seen in tests alone" in columns["kind"]["levels"]
    numbers = {column["name"]: column for column in plain["table_schema"]["columns"]}
    assert columns["size"] == numbers["size"]  # whatever the range
    same = {"table_schema": None, "anchor": None}
    assert {**first, **same} == {**plain, **same}
    assert first["anchor"]["rows"] == plain["anchor"]["rows"] + 1


def test_a_round_of_each_kind_is_played_by_the_leads_terms() -> None:
    row = run(Job("breast_cancer", 0), None)
    scores = [value for name, value in row.items() if name.startswith(("careful_", "others_"))]
    assert len(scores) == 8
    assert min(scores) > 0.9
