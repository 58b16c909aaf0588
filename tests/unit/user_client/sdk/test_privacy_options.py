"""What the privacy options take, and what is said of anything else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.errors import InputError
from user_client.sdk import PrivacyOptions

NOISE = {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}
NUMBERS = (*NOISE, "drop_below", "perturb_basis", "dither", "hold_out")


def options(field: str, value: Any) -> PrivacyOptions:
    return PrivacyOptions(**({**NOISE, field: value} if field in NOISE else {field: value}))


@pytest.mark.parametrize("value", ["0.2", "x", [0.2], True, Decimal("0.2")], ids=repr)
@pytest.mark.parametrize("field", NUMBERS)
def test_what_is_no_number_is_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{field} is a number, such as 0.2, got "):
        options(field, value)


@pytest.mark.parametrize("value", [0.25, np.float32(0.25), np.float64(0.25)], ids=repr)
@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_of_python_and_numpy_are_taken(field: str, value: Any) -> None:
    assert getattr(options(field, value), field) == 0.25


@pytest.mark.parametrize("value", ["3", 3.0, 2.5, True, [3]], ids=repr)
def test_a_latent_dimension_is_a_whole_number(value: Any) -> None:
    with pytest.raises(InputError, match=r"^latent_dim is a whole number, such as 10, got "):
        options("latent_dim", value)
    assert options("latent_dim", np.int64(3)).latent_dim == 3


@pytest.mark.parametrize("value", [3, Path("map.onnx"), ["kernel-pca"]], ids=repr)
def test_an_own_map_is_a_text(value: Any) -> None:
    with pytest.raises(InputError, match=r"^own_map is a text: "):
        options("own_map", value)
