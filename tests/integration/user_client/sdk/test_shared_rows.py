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

from analyst_server.training import knn
from protocol.errors import InputError
from tests.harness.in_process import COLUMNS, PASSPHRASE, Consortium, rows
from user_client.custody.protection import protect
from user_client.custody.round_directory import MODEL_FILE, MODEL_WITH_ROWS_FILE, TRAINED_MODEL_FILE
from user_client.custody.vault import is_sealed
from user_client.errors import ModelRefusedError, NotPreparedError
from user_client.sdk import Round, shared_rows
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
    consortium.until_anchored(**terms)
    for seed, (party, count) in enumerate(zip(parties(consortium), COUNTS, strict=True)):
        party.prepare(table(seed, count, of_numbers="table_schema" in terms), attacks="none")
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    return consortium.hospital_round


def parties(consortium: Consortium) -> list[Round]:
    return [consortium.lead_round, consortium.hospital_round]


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
    expected = np.column_stack([np.concatenate(aligned), labels])
    found = np.column_stack([shared.rows, shared.labels])
    assert shared.rows.shape == (sum(COUNTS), predictor.terms.latent_dim)
    nearest = ((expected[:, None] - found[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert sorted(nearest) == list(range(sum(COUNTS)))  # each is one of them, in whatever order
    atol = 4 * np.abs(expected).max() / 2**16  # they are rounded to 16 bits
    np.testing.assert_allclose(found[nearest], expected, atol=atol)


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
    assert ours.predictor().kind == kind
    ours.remove_trained()
    assert (ours.predict(new).labels, ours.predictor().kind) == (nearest.labels, "knn")
    with pytest.raises(NotPreparedError, match="none to remove"):
        ours.remove_trained()


def test_another_library_can_be_trained_on_the_rows(consortium: Consortium) -> None:
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
    assert f"Model: {kind}, trained here on the rows that the analyst's knn model shares" in exported.card
    assert "scores of the knn model alone, not of this one" in exported.card
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
    with pytest.raises(InputError, match="one of mlp, logistic, averaged; got"):
        played(consortium, **KNN).train(kind)
    assert not (consortium.directory_of(consortium.sessions[1]) / TRAINED_MODEL_FILE).exists()


def test_what_was_measured_with_the_model_before_is_gone(consortium: Consortium) -> None:
    """An interval would be as wide as the errors of another model, and a card would show its scores."""
    ours, more = played(consortium, **NUMBER), table(9, 100, of_numbers=True)
    for change in (lambda: ours.train("ridge"), ours.remove_trained):
        ours.evaluate(more)
        assert ours.predict(more, coverage=0.9).interval is not None
        change()
        assert ours.evaluation is None
        with pytest.raises(InputError, match="0 are known"):
            ours.predict(more, coverage=0.9)


def test_an_evaluation_says_whose_model_it_is_of(consortium: Consortium) -> None:
    ours = played(consortium, **KNN)
    assert ours.evaluate(table(9, 60)).trained is None
    ours.train("logistic")
    assert ours.evaluate(table(9, 60)).trained == "logistic"
    assert ours.evaluation is not None
    assert ours.evaluation.trained == "logistic"


def test_scores_of_our_own_model_are_not_sent_as_those_of_the_common_one(consortium: Consortium) -> None:
    ours = played(consortium, **KNN, returns_scores=True)
    ours.train()
    with pytest.raises(InputError, match="a model of our own"):
        ours.evaluate(table(9, 60), send=True)
    assert ours.evaluate(table(9, 60)).together > 0.9
    ours.remove_trained()
    assert ours.evaluate(table(9, 60), send=True).sent


def test_of_many_rows_some_are_drawn_and_none_of_the_classes_is_missed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rows, "FITTED_ROWS", 20)
    trained = played(consortium, **KNN).train("logistic")
    assert (trained.rows, trained.of_rows) == (20, sum(COUNTS))


@pytest.mark.parametrize("most", [3, 10, 50, 1000])
def test_rows_are_drawn_by_class(most: int) -> None:
    counts = np.zeros((200, 3), np.int64)
    counts[:150, 0], counts[150:199, 1], counts[199, 2] = 4, 2, 1
    distinct = shared_rows.Distinct(np.zeros((200, 1), np.float32), counts, None)
    found = distinct.drawn(most, np.random.default_rng(0))
    assert (found <= counts).all()
    assert found.sum() == min(most, counts.sum())
    assert (found.sum(axis=0) > 0).all()
    if most == 50:  # 600, 98 and 1 of 699
        assert found.sum(axis=0).tolist() == [42, 7, 1]


def test_rows_that_are_equal_come_as_often_as_they_were_sent() -> None:
    rows = np.array([[1.0], [2.0]], np.float32)
    classes = shared_rows.Distinct(rows, np.array([[2, 1], [0, 1]]), None)
    found, labels = classes.expanded(classes.counts)
    assert (found.ravel().tolist(), labels.tolist()) == ([1, 1, 1, 2], [0, 0, 1, 1])
    numbers = shared_rows.Distinct(rows, np.array([[2], [1]]), np.array([0.5, -1.0]))
    found, labels = numbers.expanded(numbers.counts)
    assert (found.ravel().tolist(), labels.tolist()) == ([1, 1, 2], [0.5, 0.5, -1.0])


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (KNN, "the analyst's version is too old"),
        ({"model": {"kind": "auto", "candidates": [{"kind": "knn"}, {"kind": "svm"}]}}, "another model than"),
    ],
)
def test_an_analyst_of_an_earlier_version_names_no_rows(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, terms: Any, why: str
) -> None:
    for name in ("SHARED_ROWS", "SHARED_TARGETS"):
        monkeypatch.setattr(knn, name, f"earlier_{name}")
    ours = played(consortium, terms_schema=2, **{name: terms[name] for name in ("model",)})
    with pytest.raises(InputError, match=why):
        ours.train()
    assert len(ours.predict(table(9, 5)).labels) == 5


def test_without_the_secret_basis_nothing_is_trained(consortium: Consortium) -> None:
    ours = played(consortium, **KNN)
    ours.forget(confirmed=True)
    with pytest.raises(NotPreparedError, match="was forgotten"):
        ours.train()


def test_our_own_model_is_explained_too(consortium: Consortium) -> None:
    ours = played(consortium, **KNN)
    nearest = ours.explain(table(9, 40), background="own")
    ours.train("logistic")
    found = ours.explain(table(9, 40), background="own")
    assert [each.shapley for each in found.columns] != [each.shapley for each in nearest.columns]


def altered(consortium: Consortium, change: Any) -> Round:
    """Change the constants of the model that has come, as an analyst could have done before it signed."""
    ours = played(consortium, **KNN)
    file = consortium.directory_of(consortium.sessions[1]) / MODEL_WITH_ROWS_FILE
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
        ("shared_targets", lambda values: values * np.float32(2**26 / 450 + 1), "more rows than"),
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


@pytest.mark.parametrize("kind", ["knn", "svm", "auto"])
def test_rows_of_others_are_sealed_with_the_directory(consortium: Consortium, kind: str) -> None:
    model: dict[str, Any] = {"kind": kind}
    if kind == "auto":
        model["candidates"] = [{"kind": "logistic"}, {"kind": "knn"}]
    ours = played(consortium, terms_schema=2, model=model)
    before = ours.predict(table(9, 30)).probabilities
    file = consortium.directory_of(consortium.hospital) / MODEL_WITH_ROWS_FILE
    assert not (file.parent / MODEL_FILE).exists()
    protect(consortium.hospital.home, PASSPHRASE)
    assert is_sealed(file.read_bytes())
    consortium.hospital.home.unlock(PASSPHRASE)
    np.testing.assert_array_equal(consortium.hospital_round.predict(table(9, 30)).probabilities, before)


def test_a_model_with_rows_of_an_earlier_version_still_predicts(consortium: Consortium) -> None:
    ours = played(consortium, **KNN)
    before = ours.predict(table(9, 30)).probabilities
    file = consortium.directory_of(consortium.hospital) / MODEL_WITH_ROWS_FILE
    file.rename(file.parent / MODEL_FILE)
    np.testing.assert_array_equal(consortium.hospital_round.predict(table(9, 30)).probabilities, before)
    assert ours.shared_rows() is not None
    ours.directory.write_model(ours.directory.read_model(), may_have_rows=True)
    assert not (file.parent / MODEL_FILE).exists()
