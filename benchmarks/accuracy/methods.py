"""The compared ways to align: a method, the anchor it works on, and whether that is centred."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyst_server.alignment import gopp, rdp
from analyst_server.alignment._contract import Matrix
from analyst_server.alignment._orthogonal import haar_orthogonal
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from protocol.anchor_terms import ANCHORS, AnchorKind

Reps = Sequence[Matrix]
SETTLED: Final = 1e-4
"""`gopp` ends when a sweep moves its target by less; scores have stopped changing long before."""
RDP_ITERATIONS: Final = 30
"""If spans differ, the objective falls for hundreds more; scores have stopped changing long before."""


@dataclass(frozen=True)
class Way:
    """How the changes of basis of one cell are found.

    Attributes
    ----------
    method : str
        A key of `METHODS`.
    anchor : AnchorKind
        "public" stands for a matrix that everybody has: rows of another data set.
    centred : bool
        Subtract the column means of every A_i before alignment. `isotropic` decides this itself.
    """

    method: str
    anchor: AnchorKind = "uniform"
    centred: bool = False

    def align(self, anchor_reps: Reps, rng: np.random.Generator) -> list[Matrix]:
        """Return the change-of-basis matrices; ``rng`` is for methods that use random numbers."""
        if self.method == "isotropic":
            is_isotropic = ANCHORS[self.anchor].is_isotropic
            return align_isotropic(anchor_reps, anchor_is_isotropic=is_isotropic).changes_of_basis
        if self.centred:
            anchor_reps = [rep - rep.mean(axis=0) for rep in anchor_reps]
        return METHODS[self.method](anchor_reps, rng)


def _imakura_random(anchor_reps: Reps, rng: np.random.Generator) -> list[Matrix]:
    """Apply an R with uniformly random entries, the same for all parties."""
    latent_dim = anchor_reps[0].shape[1]
    factor = rng.random((latent_dim, latent_dim))
    return [change @ factor for change in align_imakura(anchor_reps).changes_of_basis]


def _odc_random(anchor_reps: Reps, rng: np.random.Generator) -> list[Matrix]:
    factor = haar_orthogonal(anchor_reps[0].shape[1], rng)
    return align_odc(anchor_reps, factor).changes_of_basis


def _kawakami_scaled(anchor_reps: Reps, _: np.random.Generator) -> list[Matrix]:
    """Multiply column k by the share of the parties that have its direction, between 1 / c and 1."""
    found = align_kawakami(anchor_reps)
    squares = np.square(found.target).sum(axis=0)  # 1 / s_k**2, with the singular values s of [Q_1 .. Q_c]
    shares = np.divide(1.0, len(anchor_reps) * squares, out=np.zeros_like(squares), where=squares > 0)
    return [change * shares for change in found.changes_of_basis]


def _gopp(anchor_reps: Reps, _: np.random.Generator) -> list[Matrix]:
    start = align_procrustes(anchor_reps).target
    return gopp.descend(anchor_reps, start, trusted=None, tolerance=SETTLED, max_sweeps=gopp.MAX_SWEEPS)[0]


def _gopp_3(anchor_reps: Reps, _: np.random.Generator) -> list[Matrix]:
    return gopp.descend(anchor_reps, anchor_reps[0], trusted=None, tolerance=0.0, max_sweeps=3)[0]


def _rdp(anchor_reps: Reps, _: np.random.Generator) -> list[Matrix]:
    start = np.stack(align_procrustes(anchor_reps).changes_of_basis).astype(np.float64)
    reps = np.stack(anchor_reps, dtype=np.float64)
    reps /= np.linalg.norm(reps) / np.sqrt(len(reps))
    objective = rdp.Objective(reps, rdp.PENALTY, len(reps))
    return list(rdp.descend(objective, start, rdp.TOLERANCE, RDP_ITERATIONS)[0])


METHODS: Final[Mapping[str, Callable[[Reps, np.random.Generator], list[Matrix]]]] = {
    "imakura": lambda reps, _: align_imakura(reps).changes_of_basis,
    "imakura-random": _imakura_random,
    "kawakami": lambda reps, _: align_kawakami(reps).changes_of_basis,
    "kawakami-scaled": _kawakami_scaled,
    "procrustes": lambda reps, _: align_procrustes(reps).changes_of_basis,
    "odc": lambda reps, _: align_odc(reps).changes_of_basis,
    "odc-random": _odc_random,
    "gopp": _gopp,
    "gopp-3": _gopp_3,
    "rdp": _rdp,
}

OURS: Final = Way("isotropic", "haar")
PAPERS_ODC: Final = Way("odc")
PAPERS_WAYS: Final = tuple(
    Way(method) for method in ("imakura", "kawakami", "procrustes", "odc", "gopp", "rdp")
)
"""The methods of the papers, with the anchor of the papers."""
ON_HAAR_ANCHOR: Final = tuple(Way(method, "haar") for method in ("imakura", "odc", "gopp"))
"""The same with our anchor: what the alignment alone is worth."""
GRID: Final = tuple(
    Way(method, anchor, centred)
    for anchor in ("uniform", "gaussian", "haar")
    for centred in (False, True)
    for method in ("odc", "gopp-3")
)
"""The parts of `isotropic`, each on its own."""
