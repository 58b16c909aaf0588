"""What a latent dimension keeps of the own score, and what fewer would: for whoever drafts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from user_client.secret.expansion import Matrix64
from user_client.secret.signal import OwnScore

SHARES: Final = (1, 3 / 4, 1 / 2, 1 / 4)
"""Of the largest latent dimension shown, those that are compared with it."""


@dataclass(frozen=True)
class Kept:
    """What so many leading axes keep of the own score of a table.

    Attributes
    ----------
    latent_dim : int
    kept : float
        R^2 of the score along these axes for the whole score.
    score : float
        How well the rows' coordinates along these axes alone predict the label, each row without itself.
    measure : {"roc_auc", "concordance"}
        What the score is.
    """

    latent_dim: int
    kept: float
    score: float
    measure: Literal["roc_auc", "concordance"]


def kept_by_fewer(score: OwnScore, axes: Matrix64, *latent_dims: int) -> tuple[Kept, ...]:
    """Return what these latent dimensions keep, and some below the largest, the largest first.

    Parameters
    ----------
    axes : (m, m) ndarray of float64
        Orthonormal columns, the leading ones first.
    """
    most = max(latent_dims)
    found = sorted({*latent_dims, *(math.ceil(share * most) for share in SHARES)}, reverse=True)
    signals = [(latent_dim, score.along(axes[:, :latent_dim])) for latent_dim in found]
    return tuple(
        Kept(latent_dim, signal.kept, signal.projected_auc, signal.measure) for latent_dim, signal in signals
    )
