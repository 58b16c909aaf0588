"""The sizes that are played: some for the constants, others for what these predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from analyst_server.services.work import Size

ModelName = Literal["averaged", "logistic"]


@dataclass(frozen=True)
class Points:
    """Sizes of rounds.

    Attributes
    ----------
    institution : tuple of (n, m, l, model)
        That an institution prepares and sends.
    server : tuple of (n, l)
        That the server takes, of 32 features.
    compute : tuple of (Size, model)
        That the analyst aligns and trains.
    """

    institution: tuple[tuple[int, int, int, ModelName], ...]
    server: tuple[tuple[int, int], ...]
    compute: tuple[tuple[Size, ModelName], ...]


def haar(parties: int, rows: int, features: int, latent_dim: int) -> Size:
    """Return a size whose anchor has as many rows as there are features."""
    return Size(parties, rows, features, latent_dim, features)


def gaussian(parties: int, rows: int, features: int, latent_dim: int, anchor_rows: int) -> Size:
    """Return a size with another anchor."""
    return Size(parties, rows, features, latent_dim, anchor_rows, anchor_is_isotropic=False)


CALIBRATION: Final = Points(
    institution=(
        (2000, 20, 6, "logistic"),
        (20_000, 50, 12, "logistic"),
        (100_000, 50, 12, "averaged"),
        (50_000, 10, 5, "averaged"),
        (10_000, 200, 40, "averaged"),
        (3000, 400, 100, "logistic"),
        (200_000, 20, 8, "logistic"),
        (700_000, 30, 10, "logistic"),
        (60_000, 120, 20, "averaged"),
        (1000, 20, 8, "averaged"),
        (5000, 30, 10, "averaged"),
        (50_000, 30, 12, "logistic"),
        (200_000, 50, 20, "averaged"),
        (30_000, 100, 30, "logistic"),
        (400_000, 40, 15, "averaged"),
    ),
    server=((100, 8), (2000, 30), (20_000, 12), (50_000, 24), (150_000, 16)),
    compute=(
        (haar(3, 1000, 20, 8), "averaged"),
        (haar(10, 3000, 40, 15), "averaged"),
        (haar(40, 300, 100, 45), "averaged"),
        (haar(5, 20_000, 30, 10), "averaged"),
        (haar(4, 6000, 300, 60), "averaged"),
        (haar(150, 100, 60, 25), "averaged"),
        (haar(8, 500, 500, 200), "averaged"),
        (haar(6, 5000, 30, 12), "averaged"),
        (haar(25, 1000, 80, 30), "averaged"),
        (haar(60, 200, 150, 70), "averaged"),
        (haar(3, 300_000, 30, 10), "logistic"),
        (haar(10, 50_000, 50, 20), "logistic"),
        (haar(300, 50, 40, 15), "logistic"),
        (haar(5, 1000, 20, 8), "logistic"),
        (haar(20, 2000, 200, 90), "logistic"),
        (haar(12, 300, 150, 70), "logistic"),
        (haar(50, 200, 200, 100), "logistic"),
        (haar(6, 400, 800, 120), "logistic"),
        (haar(4, 100_000, 40, 16), "logistic"),
        (haar(100, 300, 60, 28), "logistic"),
        (haar(10, 800, 400, 150), "logistic"),
        (gaussian(30, 200, 60, 25, 3000), "logistic"),
        (gaussian(20, 500, 50, 20, 1000), "logistic"),
        (gaussian(100, 100, 30, 10, 5000), "logistic"),
        (gaussian(15, 300, 100, 50, 4000), "logistic"),
        (gaussian(40, 100, 150, 70, 1000), "logistic"),
    ),
)
HELD_OUT: Final = Points(
    institution=(
        (4000, 30, 10, "averaged"),
        (40_000, 30, 12, "logistic"),
        (150_000, 40, 15, "averaged"),
        (25_000, 100, 30, "logistic"),
        (400_000, 25, 12, "averaged"),
    ),
    server=((500, 20), (10_000, 16), (80_000, 20)),
    compute=(
        (haar(7, 4000, 35, 14), "averaged"),
        (haar(30, 800, 90, 35), "averaged"),
        (haar(70, 250, 120, 55), "averaged"),
        (haar(5, 80_000, 45, 18), "logistic"),
        (haar(120, 250, 50, 22), "logistic"),
        (haar(12, 700, 350, 130), "logistic"),
        (gaussian(25, 300, 70, 30, 2500), "logistic"),
        (gaussian(60, 200, 40, 16, 800), "averaged"),
    ),
)
"""None of them is among those that the constants are from."""
