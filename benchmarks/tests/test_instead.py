from __future__ import annotations

import sys

import numpy as np
import pytest
import xgboost
from sklearn.metrics import roc_auc_score

from benchmarks.defaults import trees
from benchmarks.defaults.experiment import Setup, assemble
from benchmarks.defaults.tables import raw_rows
from benchmarks.instead import COUNTS, lead_of_better_alone, mean_lead, rows, run


def _made_up(seed: int, *, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((rows, 4))
    return found, (found[:, 0] * found[:, 1] + 0.3 * rng.standard_normal(rows) > 0).astype(np.int64)


def test_one_institution_alone_boosts_as_the_library_does() -> None:
    train, labels = _made_up(0)
    test, _ = _made_up(1)
    options = {"objective": "binary:logistic", "eta": 0.1, "max_depth": 3, "tree_method": "hist", "seed": 5}
    expected = xgboost.train(
        options | {"base_score": 0.5}, xgboost.DMatrix(train, label=labels), num_boost_round=20
    ).predict(xgboost.DMatrix(test), output_margin=True)
    for number, margins in enumerate(trees._boosted([(train, labels)], test, 3, 0.1, 5), 1):
        if number == 20:
            np.testing.assert_allclose(margins, expected, atol=1e-4)
            break


def test_the_trees_of_a_round_are_grown_for_the_same_margins_and_all_are_appended() -> None:
    parts, (test, _) = [_made_up(seed) for seed in range(3)], _made_up(9)
    together = next(iter(trees._boosted(parts, test, 3, 0.1, 5)))
    each = [next(iter(trees._boosted([part], test, 3, 0.1, 5))) for part in parts]
    np.testing.assert_allclose(together, np.sum(each, axis=0), atol=1e-5)
    assert min(np.abs(together - one).max() for one in each) > 0.01


@pytest.mark.parametrize("way", ["boosting", "forest"])
def test_federated_trees_learn_what_no_line_can_tell_also_from_one_class_each(way: str) -> None:
    pooled, truth = _made_up(0, rows=800)
    test, expected = _made_up(1, rows=400)
    for parts in (
        [(pooled[start::2], truth[start::2]) for start in (0, 1)],
        [(pooled[truth == name], truth[truth == name]) for name in (0, 1)],
    ):
        if way == "boosting":
            found = trees.federated_boosting(parts, test, seed=0)
        else:
            found = trees.federated_forest(parts, 2, test, seed=0)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        mixed = len(np.unique(parts[0][1])) == 2
        # a tree that has seen one class splits nothing
        assert (roc_auc_score(expected, found[:, 1]) > 0.85) is mixed


def test_a_forest_counts_each_institution_by_its_rows() -> None:
    few, many = np.zeros((100, 1)), np.zeros((300, 1))
    parts = [(few, np.zeros(100, dtype=np.int64)), (many, np.ones(300, dtype=np.int64))]
    np.testing.assert_allclose(trees.federated_forest(parts, 2, few[:1], seed=0), [[0.25, 0.75]])


def test_the_error_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(trees.MissingLibraryError, match=r"pip install .*\[bench\]"):
        trees.federated_boosting([_made_up(0)], _made_up(1)[0], seed=0)


def test_raw_rows_are_the_numbers_of_the_table_in_the_order_of_the_encoded_ones() -> None:
    held = assemble(Setup("breast_cancer", "iid", 4), 0, None)
    for party, encoded in zip(held.parties, held.round.parties, strict=True):
        raw = raw_rows(party.table, held.schema)
        np.testing.assert_array_equal(raw[:, 0], party.table[held.schema.columns[0].name].to_numpy())
        assert len(raw) == len(encoded.rows)


def test_every_way_is_scored_on_one_setup() -> None:
    found = run((Setup("breast_cancer", "iid", 4), 0), folder=None)
    assert found.pop("parties") == 4
    assert found.pop("rows") == 454
    assert [found.pop(name) for name in COUNTS[2:]] == [0, 0]
    assert min(found.values()) > 95
    assert max(found.values()) <= 100


def test_a_lead_is_paired_by_seed() -> None:
    each = [{"together": 70.0, "other": 71.0, "parties": 4}, {"together": 90.0, "other": 91.0, "parties": 4}]
    assert mean_lead(each, "other") == 1
    counts = {"rows": 9, "levels added": 1, "rows unscored": 0}
    row = next(row for row in rows(Setup("heart", "sites", 0), [one | counts for one in each])[1:])
    assert (row["lead"], row["lead_half_width"]) == (1.0, 0.0)
    assert row["half_width"] > 100


def test_the_way_of_staying_alone_that_counts_is_the_better_one_of_each_setup() -> None:
    each = [{"together": 80.0, "alone": 77.0, "alone, tuned logistic": 79.0}]
    assert lead_of_better_alone(each) == -1
    assert lead_of_better_alone([each[0] | {"alone": 82.0}]) == 2
