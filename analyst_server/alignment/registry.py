"""The methods by the names the terms use, behind one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_server.alignment._orthogonal import Matrix, Matrix64, haar_orthogonal
from analyst_server.alignment.diagnostics import Diagnostics, diagnose
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.odc import align_odc

METHODS = ("odc", "isotropic")
TARGETS = ("identity", "haar")
ROUNDED_TOLERANCE = 2e-2
"""float32 is good to 1e-6 here, float16 to some 1e-3, 8-bit integers to 1e-2 (worst where m is about 8); a
scaled or wrong basis is off by far more."""


class AnchorRepError(ValueError):
    """One party's anchor representation cannot be aligned."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"anchor representation {index} {reason}")
        self.index, self.reason = index, reason


@dataclass(frozen=True)
class Alignment:
    """The change-of-basis matrices of all parties, in the order given, and how well they agree."""

    changes_of_basis: list[Matrix64]
    diagnostics: Diagnostics


def align(
    method: str,
    anchor_reps: Sequence[Matrix],
    *,
    target: str = "identity",
    anchor_is_isotropic: bool = False,
    rng: np.random.Generator,
) -> Alignment:
    """Align all parties by the named method.

    Parameters
    ----------
    method : {"odc", "isotropic"}
    anchor_reps : sequence of c (a, l) ndarrays
        Same shape for all parties, finite, at least one party.
    target : {"identity", "haar"}
        The orthogonal factor ``O`` of the target; "haar" draws it from ``rng``.
    anchor_is_isotropic : bool
        Whether ``A.T @ A`` is a multiple of the identity by construction.
    rng : numpy.random.Generator
        Repeatable randomness; its seed stands in the terms.

    Raises
    ------
    ValueError
        If a name is unknown or there is no party.
    AnchorRepError
        If shapes differ, an anchor representation is zero or not finite, or one of an isotropic anchor
        is not orthonormal, which ``A.T @ A = I`` and an orthonormal basis would make it.
    """
    if method not in METHODS or target not in TARGETS:
        raise ValueError(f"unknown alignment {method!r} with target {target!r}")
    if not anchor_reps:
        raise ValueError("alignment needs at least one party")
    shape = anchor_reps[0].shape
    for index, rep in enumerate(anchor_reps):
        if rep.shape != shape:
            raise AnchorRepError(index, f"has shape {rep.shape}, expected {shape}")
        norm = float(np.linalg.norm(rep))
        if not np.isfinite(norm) or norm == 0:
            raise AnchorRepError(index, "is zero or not finite")
        if anchor_is_isotropic and not _is_orthonormal(rep):
            raise AnchorRepError(
                index, "is not orthonormal: its basis or its anchor is not what it should be"
            )
    factor = haar_orthogonal(shape[1], rng) if target == "haar" else None
    if method == "odc":
        changes = align_odc(anchor_reps, factor)
    else:
        changes = align_isotropic(anchor_reps, factor, anchor_is_isotropic=anchor_is_isotropic)
    return Alignment(changes, diagnose(anchor_reps, changes))


def _is_orthonormal(rep: Matrix) -> bool:
    """Whether ``A_i.T @ A_i = I`` up to the rounding of the type that came over the wire."""
    gram = rep.T @ rep
    tolerance = 1e-6 if rep.dtype == np.float64 else ROUNDED_TOLERANCE
    return bool(np.abs(gram - np.eye(rep.shape[1])).max() <= tolerance)
