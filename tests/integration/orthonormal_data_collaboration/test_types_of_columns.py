"""What the types of data frames and arrays say of columns and labels."""

from __future__ import annotations

import numpy as np
import pytest

from orthonormal_data_collaboration import simulate

pd = pytest.importorskip("pandas")


def test_a_category_of_pandas_is_drafted_as_one_and_told() -> None:
    rng = np.random.default_rng(0)
    code, order = rng.integers(0, 4, 120), rng.integers(0, 3, 120)
    levels = ["low", "mid", "high"]
    frame = pd.DataFrame(
        {
            "code": pd.Categorical(code),
            "grade": pd.Categorical(np.array(levels)[order], levels, ordered=True),
            "x": rng.normal(size=120),
            "y": np.where((code % 2 == 0) ^ (rng.random(120) < 0.1), "yes", "no"),
        }
    )
    found = simulate({"a": frame, "b": frame}, label="y", model="logistic", random_state=0)
    columns = {column.name: column for column in found["a"].schema_.columns}
    assert (columns["code"].kind, columns["grade"].kind) == ("levels", "ordinal")
    assert vars(columns["grade"])["levels"] == tuple(levels)
    assert any(remark.startswith("code: the table's type says") for remark in found.remarks)


def test_an_empty_text_of_an_array_is_an_empty_field() -> None:
    rows = np.array([["a", 1.0], ["b", 2.0], ["a", 3.5]] * 30, dtype=object)
    rows[3, 0] = np.nan
    pair = (rows, np.arange(90) % 2)
    found = simulate({"p": pair, "q": pair}, model="logistic", random_state=0)
    assert vars(found["p"].schema_.columns[0])["levels"] == ("a", "b")


@pytest.mark.parametrize(("given", "kind"), [("boolean", "b"), ("bool[pyarrow]", "b"), ("Int64", "i")])
def test_labels_that_may_be_missing_keep_their_type(given: str, kind: str) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    labels = rows[:, 0] > 0
    found = simulate({"a": (rows, pd.Series(labels).astype(given))}, model="logistic", random_state=0)
    assert found["a"].classes_.dtype.kind == kind
