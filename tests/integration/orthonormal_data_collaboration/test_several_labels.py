"""Several labels of a row at once, in a round that is played in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from orthonormal_data_collaboration import MemberMultiLabelClassifier, Simulation, simulate
from protocol.errors import InputError
from protocol.model_terms import models_for

Pair = tuple[NDArray[Any], NDArray[Any]]
LABELS = ("renal", "cardiac")
FAST: dict[str, Any] = {"latent_dim": 4, "model": "logistic", "random_state": 0}


def drawn(seed: int, rows: int = 120) -> Pair:
    """Return rows of six numbers, and two labels that depend on different ones of them."""
    X = np.random.default_rng(seed).standard_normal((rows, 6))
    return X, np.stack([X[:, 0] + X[:, 1] > 0, X[:, 2] > 0.5], axis=1).astype(int)


def as_table(pair: Pair) -> pa.Table:
    X, y = pair
    columns = {f"x{number}": column for number, column in enumerate(X.T)}
    return pa.table(columns | {name: np.where(of, "yes", "no") for name, of in zip(LABELS, y.T, strict=True)})


@pytest.fixture(scope="module")
def parties() -> dict[str, Pair]:
    return {f"hospital-{seed}": drawn(seed) for seed in range(3)}


@pytest.fixture(scope="module")
def unseen() -> Pair:
    return drawn(9, rows=400)


def aucs(found: Simulation, unseen: Pair) -> list[float]:
    X, y = unseen
    probabilities = found["hospital-1"].predict_proba(X)
    return [float(roc_auc_score(y[:, each], probabilities[:, each])) for each in range(y.shape[1])]


@pytest.mark.parametrize("model", models_for("multilabel"))
def test_every_model_of_several_labels(parties: dict[str, Pair], unseen: Pair, model: str) -> None:
    found = simulate(parties, label=LABELS, random_state=0, model=model)
    assert min(aucs(found, unseen)) > 0.85
    first = found.to_arrow().to_pylist()[0]
    assert first["metric"] == "roc_auc"
    assert first["together"] > 0.8


def test_tables_and_arrays_give_the_same(parties: dict[str, Pair], unseen: Pair) -> None:
    of_arrays = simulate(parties, label=list(LABELS), **FAST)
    of_tables = simulate({name: as_table(pair) for name, pair in parties.items()}, label=LABELS, **FAST)
    X, y = unseen
    member, other = of_arrays["hospital-2"], of_tables["hospital-2"]
    assert isinstance(member, MemberMultiLabelClassifier)
    assert isinstance(other, MemberMultiLabelClassifier)
    np.testing.assert_array_equal(member.predict_proba(X), other.predict_proba(as_table(unseen)))
    assert (member.labels_, member.present_) == (LABELS, ("1", "1"))
    assert (other.labels_, other.present_) == (LABELS, ("yes", "yes"))
    predicted = member.predict(X)
    assert member.score(X, y) == (predicted == y).all(axis=1).mean() > 0.8
    assert other.score(as_table(unseen), np.where(y, "yes", "no")) == member.score(X, y)


def test_labels_without_names_are_numbered(parties: dict[str, Pair], unseen: Pair) -> None:
    member = simulate(parties, **FAST)["hospital-0"]
    assert member.labels_ == ("label_0", "label_1")
    assert member.predict(unseen[0]).shape == unseen[1].shape
    assert member.predict(unseen[0][:0]).shape == (0, 2)


@pytest.mark.parametrize("are_tables", [False, True])
def test_a_clone_plays_the_round_again(parties: dict[str, Pair], unseen: Pair, are_tables: bool) -> None:
    given: dict[str, Any] = (
        {name: as_table(pair) for name, pair in parties.items()} if are_tables else parties
    )
    member = simulate(given, label=LABELS, **FAST)["hospital-1"]
    X, y = parties["hospital-1"]
    again = clone(member)
    if are_tables:
        again.fit(as_table((X, y)), np.where(y, "yes", "no"))
        np.testing.assert_array_equal(again.predict(as_table(unseen)), member.predict(as_table(unseen)))
    else:
        again.fit(X, y)
        np.testing.assert_array_equal(again.predict(unseen[0]), member.predict(unseen[0]))
        assert min(cross_val_score(member, X, y, cv=2)) > 0.6
    assert is_classifier(member)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": ("a", "a")}, "a label is named twice"),
        ({"label": ("a",), "task": "multilabel"}, "has 2 to 16 labels, 1 are named"),
        ({"label": LABELS, "task": "classes"}, "the task classes has one label, 2 are named"),
        ({"label": ("a", "b", "c")}, r"y of hospital-0 is \(120, 2\), and X has 120 rows for 3 labels"),
        ({"label": ("x0", "a")}, "X of hospital-0 has a column 'x0'"),
        ({"label": ("a", 1)}, "label is the name of a column, or the names of several"),
        ({"label": LABELS, "model": "knn"}, "knn"),
        ({"label": LABELS, "sums": {}}, "sums"),
    ],
)
def test_a_wrong_argument_is_named(parties: dict[str, Pair], options: dict[str, Any], says: str) -> None:
    with pytest.raises((InputError, ValueError), match=says):
        simulate(parties, **options)


def test_a_label_that_no_table_has_is_named(parties: dict[str, Pair]) -> None:
    with pytest.raises(InputError, match="the table of hospital-0 has no column 'lung'"):
        simulate({name: as_table(pair) for name, pair in parties.items()}, label=("renal", "lung"))


def test_another_number_of_columns_is_told_without_the_labels(parties: dict[str, Pair]) -> None:
    X, y = drawn(5)
    with pytest.raises(InputError, match="other has 5 columns of X, other names than the first party"):
        simulate({**parties, "other": (X[:, :5], y)}, label=LABELS)


def test_labels_come_in_the_order_of_the_terms(parties: dict[str, Pair], unseen: Pair) -> None:
    found = simulate(parties, label=LABELS, **FAST)
    again = simulate(parties, found.terms, label=LABELS, random_state=0)
    np.testing.assert_array_equal(
        again["hospital-1"].predict(unseen[0]), found["hospital-1"].predict(unseen[0])
    )
    with pytest.raises(InputError, match="in the order of the terms: renal, cardiac"):
        simulate(parties, found.terms, label=LABELS[::-1], random_state=0)
