from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_wine

Pair = tuple[NDArray[Any], NDArray[Any]]


@pytest.fixture(scope="session")
def parties() -> dict[str, Pair]:
    """Three hospitals with a quarter of the wines each."""
    X, y = load_wine(return_X_y=True)
    return {f"hospital-{index}": (X[index::4], y[index::4]) for index in range(3)}


@pytest.fixture(scope="session")
def unseen() -> Pair:
    """The last quarter, which nobody sends."""
    X, y = load_wine(return_X_y=True)
    return X[3::4], np.asarray(y[3::4])
