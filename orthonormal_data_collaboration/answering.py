"""What a party holds after a round: from encoded rows to what the model says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from user_client.onnx_model.process import Model
from user_client.sdk.own_map import OwnMap
from user_client.secret.expansion import Matrix64

Answer = Callable[[Matrix64], NDArray[np.floating]]
"""Takes encoded rows, (n, m), and returns probabilities, (n, classes) or (n, times), or numbers, (n, 1)."""


class SharedModel:
    """The model of a round, which all parties have: evaluated by a process of its own, as `odc predict` does.

    It can be copied and pickled; the process starts with the first question.
    """

    def __init__(self, onnx_file: bytes, output: str) -> None:
        self.onnx_file, self._output = onnx_file, output
        self._model: Model | None = None

    def __repr__(self) -> str:
        return f"<SharedModel of {len(self.onnx_file)} bytes>"

    def __getstate__(self) -> dict[str, Any]:
        return {"onnx_file": self.onnx_file, "_output": self._output, "_model": None}

    def __call__(self, rows: Matrix64) -> NDArray[np.float32]:
        """Return what it says of aligned rows, (n, l)."""
        if self._model is None:
            self._model = Model(self.onnx_file)
        return self._model.run(rows.astype(np.float32), self._output)


@dataclass(frozen=True, repr=False)
class Mapped:
    """The model behind what makes aligned rows of encoded ones: F_i G_i, (m, l), or a map of features.

    An own map of the party comes first.
    """

    to_model: Matrix64 | Callable[[Matrix64], Matrix64]
    model: SharedModel
    own_map: OwnMap | None = None

    def __call__(self, rows: Matrix64) -> NDArray[np.float32]:
        rows = rows if self.own_map is None else self.own_map(rows)
        mapped = rows @ self.to_model if isinstance(self.to_model, np.ndarray) else self.to_model(rows)
        return self.model(mapped)
