"""A process of its own: the same answer, nothing loaded here, and words if it ends without one."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from protocol.errors import InputError
from user_client.privacy.components import shares_by_class
from user_client.sdk.apart import apart


def test_another_process_gives_the_same_answer() -> None:
    rows, labels = np.random.default_rng(0).random((30, 4)) < 0.3, np.arange(30) % 2
    np.testing.assert_array_equal(
        apart(shares_by_class, rows, labels, classes=2), shares_by_class(rows, labels, 2)
    )


def test_it_is_another_process() -> None:
    assert apart(os.getpid) != os.getpid()


def test_what_it_loads_is_not_loaded_here() -> None:
    program = (
        "import sys; from user_client.sdk.apart import apart\n"
        "print(apart(eval, \"__import__('sklearn').__name__\"), 'sklearn' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["sklearn", "False"]


def test_a_process_that_ends_without_an_answer_is_said_in_words() -> None:
    with pytest.raises(InputError, match="ended unexpectedly") as caught:
        apart(os.abort)
    assert "--no-attacks" in str(caught.value.hint)


def test_a_process_that_is_killed_in_the_midst_of_its_answer_is_said_in_words() -> None:
    half = "import os, pickle, sys; os.write(1, pickle.dumps(bytes(300))[:200]); os._exit(1)"
    with pytest.raises(InputError, match="ended unexpectedly"):
        apart(exec, half)
