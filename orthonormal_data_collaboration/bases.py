"""Secret bases under the four conditions of the paper, for experiments: an institution draws its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import ByteSource, haar, uniform

Matrix = NDArray[np.float64]
Condition = Literal["SameSpan-Orth", "SameSpan", "DiffSpan-Orth", "DiffSpan"]
"""Whether all bases have one span, and orthonormal columns (arXiv:2403.02780v5, Table IV)."""
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)
ORTHONORMAL: Final[tuple[Condition, ...]] = ("SameSpan-Orth", "DiffSpan-Orth")


def turned(span: Matrix, condition: Condition, source: ByteSource) -> Matrix:
    """Return ``F_i = V E_i``, (m, l), with a random E_i [1]_.

    Parameters
    ----------
    span : (m, l) ndarray of float64
        V, with orthonormal columns.
    condition : Condition
        E_i is Haar-distributed and orthogonal, or, without orthonormality, has uniform entries in [0, 1).
    source : callable
        Returns bytes.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Table IV.
    """
    order = span.shape[1]
    if condition in ORTHONORMAL:
        return np.asarray(span @ haar(source, order))
    return np.asarray(span @ uniform(source, order**2).reshape(order, order))


def turn(directions: Sequence[Matrix], condition: Condition, rng: np.random.Generator) -> list[Matrix]:
    """Return the secret bases of all parties under one condition.

    Parameters
    ----------
    directions : sequence of c (m, l) ndarrays
        The principal directions of each party; those of the first stand for all, if all have one span.
    """
    has_one_span = condition.startswith("SameSpan")
    return [turned(directions[0] if has_one_span else own, condition, rng.bytes) for own in directions]


def basis_under(condition: Condition) -> Callable[..., Matrix]:
    """Return a function that draws the bases of a round, one party after another, for `sdk.privacy.Draws`.

    With one span, it is that of the party that comes first.
    """
    spans: list[Matrix] = []

    def draw(_rows: Any, _score: Any, latent_dim: int, source: ByteSource, *, axes: Matrix) -> Matrix:
        spans.append(axes[:, :latent_dim])
        span = spans[0] if condition.startswith("SameSpan") else spans[-1]
        return turned(span, condition, source)

    return draw
