"""A model is data from the analyst: it runs apart from our secrets, and takes no more than a model needs."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import helper

from tests.harness.attacks import got
from tests.harness.models import WIDTH, exported, file_of, hostile, plain
from user_client.errors import ModelRefusedError
from user_client.onnx_model import process
from user_client.onnx_model.process import Model

ROWS = np.random.default_rng(0).standard_normal((7, WIDTH)).astype(np.float32)
OUTPUT = "probabilities"
Children = Callable[[], list[psutil.Process]]


@pytest.fixture
def children() -> Children:
    """The processes that the test has started, and no other test before it."""
    earlier = set(psutil.Process().children())
    return lambda: [each for each in psutil.Process().children() if each not in earlier]


def asked(model: Model) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return model.run(ROWS, OUTPUT)


@pytest.mark.parametrize("attempt", hostile())
def test_what_no_honest_model_does_is_refused(attempt: str) -> None:
    with pytest.raises(ModelRefusedError, match="nothing was predicted"):
        asked(Model(hostile()[attempt]))
    got("hostile model", numbers_read=0)


@pytest.mark.parametrize(
    "attempt", ["reads our file", "turns in a loop for ever", "asks for 4 GB by a shape"]
)
def test_it_is_refused_before_anything_is_evaluated(attempt: str) -> None:
    with pytest.raises(ModelRefusedError):
        Model(hostile()[attempt])


def products(count: int, order: int, *, kept: bool) -> bytes:
    """A model that multiplies large matrices of its own: all operators are allowed."""
    nodes = [helper.make_node("MatMul", ["long", "across"], ["p0"])]
    for number in range(1, count):
        kind, before = ("MatMul", ["long", "across"]) if kept else ("MatMul", [f"p{number - 1}", "p0"])
        nodes.append(helper.make_node(kind, before, [f"p{number}"]))
    if kept:
        nodes.append(helper.make_node("Sum", [f"p{number}" for number in range(count)], ["p"]))
    last = "p" if kept else f"p{count - 1}"
    nodes.append(helper.make_node("ReduceMax", [last], ["most"], keepdims=0))
    nodes.append(helper.make_node("MatMul", ["rep", "w"], ["scores"]))
    nodes.append(helper.make_node("Add", ["scores", "most"], [OUTPUT]))
    ones = np.ones((order, 1), np.float32)
    return file_of(nodes, long=ones, across=ones.T.copy(), w=np.eye(WIDTH, 2, dtype=np.float32))


def test_a_model_that_computes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, children: Children) -> None:
    monkeypatch.setattr(process, "SECONDS", 1)
    model = Model(products(60, 3000, kept=False))
    with pytest.raises(ModelRefusedError, match="asks for more than 1 seconds; nothing was predicted"):
        asked(model)
    assert children() == []


def test_a_model_that_takes_too_much_memory_in_small_parts_is_refused() -> None:
    model = Model(products(30, 4096, kept=True))
    with pytest.raises(ModelRefusedError, match="asks for more memory"):
        asked(model)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 2**10 < 2 * process.MEMORY_BYTES


def test_the_process_of_a_model_has_nothing_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, children: Children
) -> None:
    monkeypatch.setenv("ODC_PASSPHRASE_FILE", "/of/ours")
    with (tmp_path / "basis.npy").open("w+b") as basis:
        os.set_inheritable(basis.fileno(), True)
        model = Model(plain())
        (child,) = children()
        asked(model)
        assert sorted(each.name for each in Path(f"/proc/{child.pid}/fd").iterdir()) == ["0", "1", "2"]
    assert "ODC_PASSPHRASE_FILE" not in child.environ()
    assert child.cwd() == "/"
    limits = {
        "open files": child.rlimit(psutil.RLIMIT_NOFILE),
        "bytes of a file": child.rlimit(psutil.RLIMIT_FSIZE),
        "processes": child.rlimit(psutil.RLIMIT_NPROC),
        "core": child.rlimit(psutil.RLIMIT_CORE),
    }
    assert limits == {"open files": (3, 3), "bytes of a file": (0, 0), "processes": (0, 0), "core": (0, 0)}
    assert child.rlimit(psutil.RLIMIT_AS)[1] < 3 * process.MEMORY_BYTES
    assert child.rlimit(psutil.RLIMIT_CPU)[0] < 2 * process.SECONDS


def test_a_process_that_was_ended_is_followed_by_another(children: Children) -> None:
    model = Model(plain())
    before = asked(model)
    (child,) = children()
    child.kill()
    child.wait()
    np.testing.assert_array_equal(asked(model), before)


def test_nothing_is_left_of_a_model_that_nobody_needs(children: Children) -> None:
    model = Model(plain())
    asked(model)
    del model
    assert children() == []


def test_several_threads_get_the_answers_of_their_own_rows() -> None:
    file, output = exported()["averaged of 3"]
    model = Model(file)
    parts = [ROWS[number % 7 :] + number for number in range(40)]
    expected = [model.run(part, output) for part in parts]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda part: model.run(part, output), parts))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
