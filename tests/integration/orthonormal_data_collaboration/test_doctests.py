"""The examples in the documentation of the public package are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import orthonormal_data_collaboration

MODULES = [
    "orthonormal_data_collaboration",
    *(
        f"orthonormal_data_collaboration.{found.name}"
        for found in pkgutil.iter_modules(orthonormal_data_collaboration.__path__)
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_what_a_researcher_meets_first_has_an_example() -> None:
    for name in ("simulate", "MemberClassifier"):
        assert ">>> " in getattr(orthonormal_data_collaboration, name).__doc__


def test_every_listed_name_is_there_and_has_a_text() -> None:
    for name in orthonormal_data_collaboration.__all__:
        found = getattr(orthonormal_data_collaboration, name)
        if name in ("CONDITIONS", "Condition"):
            continue
        assert inspect.isclass(found) or inspect.isfunction(found), name
        text = found.__doc__ or ""
        assert text.strip(), name
        assert not text.startswith(f"{name}("), f"{name}: a data class that nobody has described"
