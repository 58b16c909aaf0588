"""Anchors and secret bases of an experiment, made as an institution makes them, but from a known seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import scipy.linalg

from benchmarks.data import Matrix
from protocol.terms import ANCHORS, AnchorKind
from user_client.secret.basis import draw_secret_basis
from user_client.secret.expansion import expand_anchor, haar, uniform

Condition = Literal["SameSpan-Orth", "SameSpan", "DiffSpan-Orth", "DiffSpan"]
CONDITIONS: Final[tuple[Condition, ...]] = ("SameSpan-Orth", "SameSpan", "DiffSpan-Orth", "DiffSpan")
ORTHONORMAL: Final[tuple[Condition, ...]] = ("SameSpan-Orth", "DiffSpan-Orth")


def draw_anchor(kind: AnchorKind, anchor_rows: int, features: int, rng: np.random.Generator) -> Matrix:
    """Return an anchor; a square one has as many rows as features, whatever ``anchor_rows`` says."""
    if ANCHORS[kind].travels_as_matrix:
        raise ValueError(f"a {kind} anchor is not drawn")
    rows = features if ANCHORS[kind].is_square else anchor_rows
    return expand_anchor(kind, rng.bytes, rows=rows, features=features)


def principal_directions(rows: Matrix, latent_dim: int, rng: np.random.Generator) -> Matrix:
    """Return the top right singular vectors of the rows, (m, l), completed at random if there are too few."""
    if latent_dim <= len(rows) < rows.shape[1] // 2:
        # the same span as that of `draw_secret_basis`, without the m x m Gram matrix
        return np.asarray(scipy.linalg.svd(rows, full_matrices=False)[2][:latent_dim].T)
    return draw_secret_basis(rows, latent_dim, rng.bytes)


def turn(directions: Sequence[Matrix], condition: Condition, rng: np.random.Generator) -> list[Matrix]:
    """Return the secret bases F_i of one condition (arXiv:2403.02780v5, Table IV).

    ``F_i = V_j E_i``, where ``j = 1`` for all parties with one span, and ``j = i`` otherwise. ``E_i`` is a
    Haar orthogonal matrix, or, without orthonormality, one with uniformly random entries.

    Parameters
    ----------
    directions : sequence of c (m, l) ndarrays
        `principal_directions` of each party.
    """
    latent_dim = directions[0].shape[1]
    bases = []
    for own in directions:
        span = directions[0] if condition.startswith("SameSpan") else own
        if condition.endswith("-Orth"):
            change = haar(rng.bytes, latent_dim)
        else:
            change = uniform(rng.bytes, latent_dim**2).reshape(latent_dim, latent_dim)
        bases.append(span @ change)
    return bases
