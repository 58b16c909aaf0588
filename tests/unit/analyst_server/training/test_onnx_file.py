from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from analyst_server.training import onnx_file
from analyst_server.training.models import fit, fit_task
from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap
from analyst_server.training.tasks import Numbers, Survival
from tests.harness.problems import (
    MODELS,
    MODELS_OF_NUMBERS,
    MODELS_OF_SURVIVAL,
    WEIGHTED,
    blobs,
    haar,
    numbers,
    survivals,
)

KINDS = pytest.mark.parametrize("kind", list(MODELS))
CLASSES = pytest.mark.parametrize("classes", [2, 3])


@KINDS
@CLASSES
@pytest.mark.parametrize("seed", range(3))
def test_the_file_says_what_the_model_says(kind: str, classes: int, seed: int) -> None:
    rows, labels = blobs(classes, seed=seed)
    model = fit(MODELS[kind], rows, labels, classes)
    assert parity_gap(model, export(model, rows.shape[1]), rows) < PARITY_TOLERANCE


@pytest.mark.parametrize("kind", list(WEIGHTED))
@CLASSES
@pytest.mark.parametrize("seed", range(3))
def test_the_file_says_what_a_model_with_class_weights_says(kind: str, classes: int, seed: int) -> None:
    rows, labels = blobs(classes, rows=300, seed=seed)
    kept = (labels > 0) | (np.arange(300) < 60)  # the first class is rare
    model = fit(WEIGHTED[kind], rows[kept], labels[kept], classes)
    file = export(model, rows.shape[1])
    assert parity_gap(model, file, rows) < PARITY_TOLERANCE
    without = fit(MODELS[kind], rows[kept], labels[kept], classes)
    assert parity_gap(without, file, rows) > PARITY_TOLERANCE


@KINDS
@CLASSES
def test_the_file_says_the_same_of_rows_that_are_nearly_the_same(kind: str, classes: int) -> None:
    """As members with equal rows send them: they differ by the rounding of their rotations."""
    rng = np.random.default_rng(0)
    bare = rng.integers(0, 2, (60, 5)).astype(np.float32)
    rows = np.concatenate(
        [(bare @ turn @ turn.T).astype(np.float32) for turn in (haar(5, rng) for _ in range(4))]
    )
    labels = np.concatenate([rng.permutation(np.arange(60) % classes) for _ in range(4)])
    model = fit(MODELS[kind], rows, labels, classes)
    assert parity_gap(model, export(model, rows.shape[1]), rows) < PARITY_TOLERANCE


@KINDS
@CLASSES
def test_another_file_is_seen(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    model = fit(MODELS[kind], rows, labels, classes)
    other = fit(replace(MODELS[kind], seed=9), rows[:99], np.roll(labels[:99], 1), classes)
    assert parity_gap(model, export(other, rows.shape[1]), rows) > PARITY_TOLERANCE


def test_a_difference_in_the_last_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs(2)
    model = fit(MODELS["logistic"], rows, labels, 2)
    outlier = np.concatenate([rows, 100 * np.ones((1, 5), np.float32)])
    other = fit(MODELS["logistic"], rows, 1 - labels, 2)
    monkeypatch.setattr(onnx_file, "BATCH_ROWS", len(rows))
    only_last = parity_gap(model, export(other, 5), outlier)
    assert only_last >= parity_gap(model, export(other, 5), rows)


def test_the_batches_do_not_change_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs(3)
    model, other = fit(MODELS["mlp"], rows, labels, 3), fit(MODELS["logistic"], rows, labels, 3)
    file = export(other, 5)
    at_once = parity_gap(model, file, rows)
    monkeypatch.setattr(onnx_file, "BATCH_ROWS", 7)
    assert parity_gap(model, file, rows) == pytest.approx(at_once)


@KINDS
@CLASSES
def test_the_file_has_the_input_and_outputs_the_protocol_names(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    file = export(fit(MODELS[kind], rows, labels, classes), 5)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [(entry.name, entry.shape[1], entry.type) for entry in session.get_inputs()] == [
        ("rep", 5, "tensor(float)")
    ]
    assert [entry.name for entry in session.get_outputs()] == ["label", "probabilities"]
    (found,) = session.run(["probabilities"], {"rep": rows})
    assert found.shape == (len(rows), classes)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


OF_NUMBERS = pytest.mark.parametrize("kind", MODELS_OF_NUMBERS)


@OF_NUMBERS
@pytest.mark.parametrize("seed", range(3))
def test_the_file_says_the_same_number_as_the_model(kind: str, seed: int) -> None:
    rows, labels = numbers(seed=seed)
    model = fit_task(MODELS_OF_NUMBERS[kind], rows, labels, Numbers())
    file = export(model, rows.shape[1])
    assert parity_gap(model, file, rows) < 1e-5
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_outputs()] == ["value"]
    (found,) = session.run(["value"], {"rep": rows})
    assert found.shape == (len(rows), 1)
    assert np.corrcoef(found[:, 0], labels)[0, 1] > 0.8  # in the unit of the labels, not of the fit
    assert abs(found.mean() - labels.mean()) < 0.05


@OF_NUMBERS
def test_another_file_of_numbers_is_seen(kind: str) -> None:
    rows, labels = numbers()
    model = fit_task(MODELS_OF_NUMBERS[kind], rows, labels, Numbers())
    other = fit_task(MODELS_OF_NUMBERS[kind], rows, labels + 0.01, Numbers())
    assert parity_gap(model, export(other, rows.shape[1]), rows) > 10 * PARITY_TOLERANCE


@pytest.mark.parametrize("kind", MODELS_OF_SURVIVAL)
@pytest.mark.parametrize("seed", range(3))
def test_the_file_says_the_same_survival_as_the_model(kind: str, seed: int) -> None:
    rows, labels = survivals(seed=seed)
    model = fit_task(MODELS_OF_SURVIVAL[kind], rows, labels, Survival((0.1, 0.4, 0.8)))
    file = export(model, rows.shape[1])
    assert parity_gap(model, file, rows) < 1e-5
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (found,) = session.run(["survival"], {"rep": rows})
    assert found.shape == (len(rows), 3)
    assert (np.diff(found, axis=1) <= 0).all()
    other = fit_task(MODELS_OF_SURVIVAL[kind], rows[::-1], labels, Survival((0.1, 0.4, 0.8)))
    assert parity_gap(model, export(other, rows.shape[1]), rows) > PARITY_TOLERANCE


def test_an_answer_that_is_no_number_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs(2)
    model = fit(MODELS["logistic"], rows, labels, 2)
    file = export(model, rows.shape[1])
    monkeypatch.setattr(type(model), "predictions", lambda *_: np.full((len(rows), 2), np.nan))
    assert parity_gap(model, file, rows) == np.inf


def test_a_row_far_from_all_others_has_an_answer_too() -> None:
    rows, labels = survivals()
    model = fit_task(MODELS_OF_SURVIVAL["cox"], rows, labels, Survival((1e-4, 0.4)))
    far = np.concatenate([rows[:3], 1e6 * rows[:5]])
    assert np.isfinite(model.predictions(far)).all()
    assert parity_gap(model, export(model, rows.shape[1]), far) < 1e-5


_IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np
from analyst_server.training import onnx_file
from analyst_server.training.models import fit
from tests.harness.problems import MODELS, blobs

rows, labels = blobs(2)
file = onnx_file.export(fit(MODELS["mlp"], rows, labels, 2), rows.shape[1])
many = np.zeros((2_000_000, rows.shape[1]), np.float32)
onnx_file.BATCH_ROWS = len(many)
with open("/proc/self/statm") as found:
    used = int(found.read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[1]) * 2**20,) * 2)
try:
    onnx_file.predict(file, "probabilities", many)
except MemoryError:
    print("no memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a bound on the memory of a process")
@pytest.mark.parametrize("megabytes", [1, 60])
def test_too_little_memory_for_a_file_is_told_as_such(megabytes: int) -> None:
    """As a session is made, and as it answers; onnxruntime has errors of its own for both."""
    said = subprocess.run(
        [sys.executable, "-c", _IN_LITTLE_MEMORY, str(megabytes)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert said.stdout.endswith("no memory\n"), said.stderr  # before it, onnxruntime may say it in its words


@pytest.mark.parametrize(
    "said",
    [
        "[ONNXRuntimeError] : 1 : FAIL : Exception during loading: std::bad_alloc",
        "AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 3200000000",
    ],
)
def test_what_onnxruntime_says_of_memory_is_a_memory_error(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object, **_options: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(onnxruntime, "InferenceSession", broken)
    with pytest.raises(MemoryError):
        onnx_file.predict(b"", "probabilities", np.zeros((2, 3)))


def test_a_file_that_is_broken_is_no_matter_of_memory() -> None:
    with pytest.raises(Exception, match="INVALID_PROTOBUF"):
        onnx_file.predict(b"junk", "probabilities", np.zeros((2, 3)))
