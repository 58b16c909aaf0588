"""Anchors and secret bases of an experiment, made as an institution makes them, but from a known seed."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from benchmarks.data import Matrix
from protocol.anchor_terms import ANCHORS, AnchorKind
from user_client.secret.basis import draw_secret_basis
from user_client.secret.expansion import expand_anchor


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
