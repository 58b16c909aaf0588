"""Terms with the model knn: the rows of all come back, and each institution trains its own model on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pytest

from protocol.errors import InputError
from tests.harness.in_process import COLUMNS, Consortium, rows
from user_client.custody.round_directory import MODEL_FILE, TRAINED_MODEL_FILE
from user_client.errors import ModelRefusedError, NotPreparedError
from user_client.sdk import Round
from user_client.sdk.export import feeds

KNN: dict[str, Any] = {"terms_schema": 2, "model": {"kind": "knn"}}
NUMBER: dict[str, Any] = {
    **KNN,
    "table_schema": {
        "columns": [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS],
        "label_column": {"kind": "number", "name": "y", "low": 0, "high": 100},
    },
}
COUNTS = (60, 90)


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    made = Consortium(tmp_path, monkeypatch)
    yield made
    made.close()


def table(seed: int, count: int, *, of_numbers: bool = False) -> pa.Table:
    """A table with a class, or with a number that is a line of a column and noise of mean size 0.8."""
    found = rows(seed, count)
    if of_numbers:
        noise = np.random.default_rng(seed).standard_normal(count)
        found["y"] = np.clip(50 + 5 * np.array(found["x0"]) + noise, 0, 100).tolist()
    return pa.table(found)


def played(consortium: Consortium, **terms: Any) -> Round:
    """Play a round of two tables; return the hospital's side of it, received."""
    consortium.until_joined().publish(**terms)
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=True)
    consortium.lead_round.create_anchor()
    for seed, (party, count) in enumerate(zip(parties(consortium), COUNTS, strict=True)):
        party.prepare(table(seed, count, of_numbers="table_schema" in terms), attacks="none")
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    return consortium.hospital_round


def parties(consortium: Consortium) -> list[Round]:
    return [consortium.lead_round, consortium.hospital_round]


def in_order(found: Any, labels: Any) -> Any:
    """Rows with their labels, in an order that does not depend on who sent them when."""
    both = np.column_stack([found, labels])
    return both[np.lexsort(np.round(both, 2).T)]


def test_the_rows_that_come_back_are_those_of_all_institutions(consortium: Consortium) -> None:
    """Each institution finds its own among them by its own G_i: all are in one representation."""
    ours = played(consortium, **KNN)
    shared, predictor = ours.shared_rows(), ours.predictor()
    consortium.lead_round.receive()
    aligned = [
        party.predictor().align(table(seed, count))
        for seed, (party, count) in enumerate(zip(parties(consortium), COUNTS, strict=True))
    ]
    labels = [shared.classes.index(name) for seed, n in enumerate(COUNTS) for name in rows(seed, n)["y"]]
    expected = np.concatenate(aligned)
    assert shared.rows.shape == (sum(COUNTS), predictor.terms.latent_dim)
    np.testing.assert_allclose(
        in_order(shared.rows, shared.labels),
        in_order(expected, labels),
        atol=4 * np.abs(expected).max() / 2**16,  # they are rounded to 16 bits
    )


def test_numbers_come_back_in_their_unit(consortium: Consortium) -> None:
    shared = played(consortium, **NUMBER).shared_rows()
    assert shared.classes == ()
    sent = np.concatenate([table(seed, count, of_numbers=True)["y"] for seed, count in enumerate(COUNTS)])
    np.testing.assert_allclose(np.sort(shared.labels), np.sort(sent), atol=1e-3)


@pytest.mark.parametrize(
    ("terms", "kind", "separates"), [(KNN, "averaged", 0.9), (KNN, "logistic", 0.9), (NUMBER, "ridge", None)]
)
def test_our_own_model_answers_until_it_is_removed(
    consortium: Consortium, terms: Any, kind: str, separates: float | None
) -> None:
    ours, new = played(consortium, **terms), table(9, 300, of_numbers=separates is None)
    nearest = ours.predict(new)
    trained = ours.train(kind)
    assert (trained.kind, trained.rows, trained.of_rows) == (kind, sum(COUNTS), sum(COUNTS))
    found = ours.predict(new)
    if separates is None:
        errors = np.abs(np.array(found.labels) - np.array(new["y"].to_pylist()))
        assert errors.mean() < 1.5
    else:
        assert np.mean(np.array(found.labels) == np.array(new["y"].to_pylist())) > separates
        assert np.abs(found.probabilities - nearest.probabilities).max() > 0.01
    np.testing.assert_array_equal(ours.train(kind) and ours.predict(new).labels, found.labels)
    assert ours.train("knn").kind == "knn"
    assert ours.predict(new).labels == nearest.labels


def test_a_library_of_ones_own_can_be_trained_on_the_rows(consortium: Consortium) -> None:
    from sklearn.linear_model import LogisticRegression

    ours = played(consortium, **KNN)
    shared, new = ours.shared_rows(), table(9, 300)
    fitted = LogisticRegression().fit(shared.rows, shared.labels)
    found = np.array(shared.classes)[fitted.predict(ours.predictor().align(new))]
    assert np.mean(found == np.array(new["y"].to_pylist())) > 0.9


@pytest.mark.parametrize(("terms", "kind"), [(KNN, "averaged"), (NUMBER, "averaged"), (NUMBER, "mlp")])
def test_the_exported_file_says_what_our_own_model_says(
    consortium: Consortium, terms: Any, kind: str
) -> None:
    ours = played(consortium, **terms)
    ours.train(kind)
    exported = ours.export()
    assert exported.largest_difference < 1e-5
    assert "our own, trained here on 150 of the rows" in exported.card
    new = table(9, 50).select(COLUMNS)
    session = onnxruntime.InferenceSession(exported.onnx_file)
    answer = session.run(None, feeds(new, ours.predictor().schema))[-1]
    found = ours.predict(new)
    expected = np.array(found.labels)[:, None] if terms is NUMBER else found.probabilities
    np.testing.assert_allclose(answer, expected, atol=1e-3 if terms is NUMBER else 1e-5)


def test_without_shared_rows_nothing_is_trained(consortium: Consortium) -> None:
    consortium.until_released()
    with pytest.raises(NotPreparedError):
        consortium.hospital_round.train()
    consortium.hospital_round.receive()
    with pytest.raises(InputError, match="do not come back") as caught:
        consortium.hospital_round.train()
    assert "knn" in (caught.value.hint or "")


def test_where_the_analyst_has_chosen_another_model_there_are_none(consortium: Consortium) -> None:
    candidates = [{"kind": "logistic"}, {"kind": "knn", "neighbours": 1}]
    ours = played(consortium, terms_schema=2, model={"kind": "auto", "candidates": candidates, "budget_s": 1})
    with pytest.raises(InputError, match="has chosen another model"):
        ours.shared_rows()


@pytest.mark.parametrize("kind", ["ridge", "cox", "svm", "forest"])
def test_a_kind_that_cannot_be_trained_here_is_refused(consortium: Consortium, kind: str) -> None:
    with pytest.raises(InputError, match="one of mlp, logistic, averaged, or knn"):
        played(consortium, **KNN).train(kind)
    assert not (consortium.directory_of(consortium.sessions[1]) / TRAINED_MODEL_FILE).exists()


def altered(consortium: Consortium, change: Any) -> Round:
    """Change the constants of the model that has come, as an analyst could have done before it signed."""
    ours = played(consortium, **KNN)
    file = consortium.directory_of(consortium.sessions[1]) / MODEL_FILE
    model = onnx.load_from_string(file.read_bytes())
    for constant in model.graph.initializer:
        if constant.name in ("shared_rows", "shared_targets"):
            values = onnx.numpy_helper.to_array(constant).copy()
            constant.CopyFrom(onnx.numpy_helper.from_array(change(constant.name, values), constant.name))
    file.write_bytes(model.SerializeToString())
    return ours


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("shared_targets", lambda values: values * np.float32(1e30), "more rows than"),
        ("shared_targets", lambda values: -values, "negative number"),
        ("shared_rows", lambda values: values * np.float32(np.nan), "no numbers"),
        ("shared_targets", lambda values: values[:, 1:], "another width"),
        ("shared_targets", lambda values: values[1:], "no knn model has"),
        ("shared_targets", lambda values: values * np.array([0, 1, 1], np.float32), "none of some class"),
        ("shared_rows", lambda values: values[:, :0], "no knn model has"),
    ],
)
def test_rows_that_no_round_has_are_refused(consortium: Consortium, name: str, change: Any, why: str) -> None:
    ours = altered(consortium, lambda which, values: change(values) if which == name else values)
    with pytest.raises(ModelRefusedError, match=why):
        ours.train()
    assert not (consortium.directory_of(consortium.sessions[1]) / TRAINED_MODEL_FILE).exists()
