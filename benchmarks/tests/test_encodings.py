from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.encodings import (
    NUMBER_TYPES,
    Work,
    _parts,
    accuracies,
    on_the_wire,
    payload_over_formula,
    works,
)


def small(split: str = "alike") -> Work:
    """Two classes that a line tells apart."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    return Work("small", rng.standard_normal((200, 5)) + 3 * labels[:, None], labels, None, 2, 40, 3, split)


def test_every_number_type_is_measured_on_the_same_rows() -> None:
    found = accuracies(small(), seed=0)
    assert set(found) == set(NUMBER_TYPES)
    assert min(found.values()) > 0.9
    assert accuracies(small(), seed=0) == found


@pytest.mark.parametrize(("number_type", "error"), [("f8", 0), ("f4", 1e-7), ("f2", 1e-3), ("i1", 5e-3)])
def test_the_analyst_gets_what_the_number_type_lets_through(number_type: str, error: float) -> None:
    matrix = np.linspace(-1, 1, 60).reshape(20, 3)
    sent = on_the_wire(matrix, number_type)
    assert sent.itemsize >= 4
    np.testing.assert_allclose(sent, matrix, rtol=0, atol=error)


def test_the_payload_is_that_of_formula_3_with_labels_and_scales() -> None:
    formula = (40 + 5) * 3 * 4
    assert payload_over_formula(small(), "f4") == pytest.approx((formula + 40) / formula)
    assert payload_over_formula(small(), "i1") == pytest.approx((formula / 4 + 40 + 24) / formula)


def test_parties_of_two_classes_have_two_classes_and_no_row_twice() -> None:
    digits = next(work for work in works(None) if work.split == "two classes")
    parts = _parts(digits, digits.labels, np.random.default_rng(0))
    assert all(len(np.unique(digits.labels[part])) == 2 for part in parts)
    assert len(np.unique(np.concatenate(parts))) == digits.parties * digits.rows


def test_mnist_is_measured_where_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mnist").mkdir()
    for part in ("train60k", "t10k"):
        np.savez(tmp_path / "mnist" / f"mnist_{part}.npz", X=np.zeros((4, 6), "u1"), y=np.arange(4))
    with pytest.raises(data.DataFileError, match="expected"):
        list(works(tmp_path))
    names = (f"mnist/mnist_{part}.npz" for part in ("train60k", "t10k"))
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names}
    monkeypatch.setattr(data, "SHA256", digests)
    assert [work.name for work in works(tmp_path)].count("mnist") == 2
