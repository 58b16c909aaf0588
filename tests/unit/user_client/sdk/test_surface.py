"""The names of `user_client.sdk` are loaded late, and are there as if they had been imported."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import user_client.sdk
from user_client.sdk import surface


@pytest.mark.parametrize("name", surface.__all__)
def test_a_name_is_what_its_module_defines(name: str) -> None:
    assert getattr(user_client.sdk, name) is getattr(surface, name)
    assert find_spec(f"user_client.sdk.{name}") is None, "a module would hide it once it is imported"


def test_all_names_are_listed() -> None:
    assert dir(user_client.sdk) == sorted(surface.__all__)
    assert user_client.sdk.__all__ == surface.__all__


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        user_client.sdk.nobody  # type: ignore[attr-defined]  # noqa: B018
