"""Denormal numbers count as zero while a model is fitted, and as what they are before and after."""

from __future__ import annotations

import platform
import sys
import threading

import numpy as np
import pytest

from runtime.denormals import tiny_as_zero

DENORMAL = np.array([1e-40, 1.0], np.float32)

on_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="what it changes is a register of x86-64",
)


def halved() -> list[bool]:
    """Whether a product of a denormal number, and one of 1, is above zero."""
    return [bool(each > 0) for each in DENORMAL * np.float32(0.5)]


@on_x86
def test_a_denormal_number_is_zero_inside_and_itself_outside() -> None:
    assert halved() == [True, True]
    with tiny_as_zero():
        assert halved() == [False, True]
        with tiny_as_zero():
            assert halved() == [False, True]
        assert halved() == [False, True]
    assert halved() == [True, True]


@on_x86
def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), tiny_as_zero():
        raise ZeroDivisionError
    assert halved() == [True, True]


@on_x86
def test_a_thread_that_begins_inside_has_it_and_others_have_not() -> None:
    found: dict[str, list[bool]] = {}
    inside, outside = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(60)
        found["other"] = halved()
        outside.set()

    thread = threading.Thread(target=other)
    thread.start()
    with tiny_as_zero():
        inside.set()
        assert outside.wait(60)
        begun = threading.Thread(target=lambda: found.update(begun=halved()))
        begun.start()
        begun.join()
    thread.join()
    assert found == {"other": [True, True], "begun": [False, True]}


def test_elsewhere_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with tiny_as_zero():
        assert halved() == [True, True]
