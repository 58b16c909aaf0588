"""Every model of every task says the same in a process that has onnxruntime and none of our packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analyst_server.training.models import fit_task
from analyst_server.training.onnx_file import export
from analyst_server.training.tasks import Classes, Numbers, Several, Survival, Task
from tests.harness.problems import ALL_MODELS, TERMS, Matrix, blobs, numbers, sets_of_labels, survivals
from tests.harness.tree import PACKAGES

CLOSE = 1e-5
"""Closer than `onnx_file.PARITY_TOLERANCE`, the bound that a file has to keep on whatever rows come."""
PROBLEMS: dict[str, tuple[Task, Callable[[int], tuple[Matrix, Matrix]]]] = {
    "2 classes": (Classes(2), lambda seed: blobs(2, seed=seed)),
    "3 classes": (Classes(3), lambda seed: blobs(3, seed=seed)),
    "number": (Numbers(), lambda seed: numbers(seed=seed)),
    "survival": (Survival((0.1, 0.4, 0.8)), lambda seed: survivals(seed=seed)),
    "multilabel": (Several(("a", "b", "c")), lambda seed: sets_of_labels(seed=seed)),
}
KINDS = [
    (kind, problem) for kind, terms in TERMS.items() for problem in PROBLEMS if problem.endswith(terms.tasks)
]

READER = """
import sys
*ours, model, rows, output, out = sys.argv[1:]
sys.modules.update(dict.fromkeys([*ours, "sklearn", "skl2onnx", "onnx"]))  # to import one is an error now
import numpy, onnxruntime
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
(found,) = session.run([output], {"rep": numpy.load(rows)})
numpy.save(out, found)
"""


def read_elsewhere(directory: Path, file: bytes, rows: Matrix, task: Task) -> Matrix:
    """Return what a file says of rows where nothing of ours can be imported."""
    model, given, out = (directory / name for name in ("model.onnx", "rows.npy", "answers.npy"))
    model.write_bytes(file)
    np.save(given, rows)
    command = [sys.executable, "-I", "-c", READER, *PACKAGES, str(model), str(given), task.output, str(out)]
    subprocess.run(command, check=True, timeout=120)
    return np.asarray(np.load(out))


def test_every_kind_of_model_is_tried_on_every_task_it_can_do() -> None:
    assert {(kind, problem.split()[-1]) for kind, problem in KINDS} == {
        (kind, task) for kind, terms in TERMS.items() for task in terms.tasks
    }


@pytest.mark.parametrize(("kind", "problem"), KINDS)
def test_a_file_says_the_same_without_us(kind: str, problem: str, tmp_path: Path) -> None:
    task, drawn = PROBLEMS[problem]
    rows, labels = drawn(0)
    fitted = fit_task(ALL_MODELS[kind], rows, labels, task)
    known_and_new = np.concatenate([rows, drawn(1)[0]])
    found = read_elsewhere(tmp_path, export(fitted, rows.shape[1]), known_and_new, task)
    expected = fitted.predictions(known_and_new)
    assert found.shape == expected.shape == (len(known_and_new), task.width)
    assert np.abs(found - expected).max() < CLOSE
    assert np.ptp(expected, axis=0).min() > 100 * CLOSE  # so that the rows tell files apart


def test_another_file_says_something_else(tmp_path: Path) -> None:
    task, drawn = PROBLEMS["2 classes"]
    fitted, other = (fit_task(ALL_MODELS["logistic"], *drawn(seed), task) for seed in (0, 1))
    rows = drawn(0)[0]
    found = read_elsewhere(tmp_path, export(other, rows.shape[1]), rows, task)
    assert np.abs(found - fitted.predictions(rows)).max() > CLOSE
