"""What the papers prove, over drawn sizes, anchors and bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analyst_server.alignment import align, rdp
from analyst_server.alignment._contract import Solution
from analyst_server.alignment.gopp import align_gopp, descend
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from analyst_server.alignment.registry import METHODS, TARGETS

Matrix = NDArray[Any]

LEAST_SQUARES = [name for name, method in METHODS.items() if method.is_least_squares]
ORTHOGONAL = [name for name, method in METHODS.items() if method.is_orthogonal]


def five_iterations_of_rdp(reps: list[Matrix]) -> Solution:
    """Every step is the same in any order; where it stops in a flat valley depends on the last bit."""
    start = np.stack(align_procrustes(reps).changes_of_basis)
    stacked = np.stack(reps) / np.sqrt(np.mean([np.sum(rep**2) for rep in reps]))
    changes, _ = rdp.descend(rdp.Objective(stacked, rdp.PENALTY, len(reps)), start, rdp.TOLERANCE, 5)
    return Solution(list(changes), stacked.mean(axis=0), "")


SAME_IN_ANY_ORDER: list[Callable[[list[Matrix]], Solution]] = [
    align_imakura,
    align_kawakami,
    align_procrustes,
    align_gopp,
    five_iterations_of_rdp,
]
EXACT = 1e-9
"""Rounding of 1e-16, times the condition of a uniform anchor with few rows to spare."""


@dataclass(frozen=True)
class Scene:
    """Bases F_i = F E_i of one span, and the anchor representations A F_i."""

    bases: list[Matrix]
    turns: list[Matrix]
    reps: list[Matrix]
    rng: np.random.Generator


def orthogonal(order: int, rng: np.random.Generator) -> Matrix:
    q, r = np.linalg.qr(rng.standard_normal((order, order)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def invertible(order: int, rng: np.random.Generator) -> Matrix:
    """Return a matrix of condition number at most ten, so that the tolerance is about the method alone."""
    return np.asarray(orthogonal(order, rng) * rng.uniform(0.2, 2, order) @ orthogonal(order, rng))


@st.composite
def scenes(draw: st.DrawFn, *, orthonormal: bool = True) -> Scene:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    features = draw(st.integers(1, 20))
    latent_dim = draw(st.integers(1, features))
    parties = draw(st.integers(1, 8))
    kind = draw(st.sampled_from(["haar", "gaussian", "uniform"]))
    rows = features if kind == "haar" else 3 * features + draw(st.integers(0, 40))
    if kind == "haar":
        anchor = orthogonal(features, rng)
    else:
        draws = rng.random if kind == "uniform" else rng.standard_normal
        anchor = draws((rows, features))
    basis = orthogonal(features, rng)[:, :latent_dim]
    turn = orthogonal if orthonormal else invertible
    turns = [turn(latent_dim, rng) for _ in range(parties)]
    bases = [basis @ turn for turn in turns]
    return Scene(bases, turns, [anchor @ basis for basis in bases], rng)


def disagreement(bases: list[Matrix], changes: list[Matrix]) -> float:
    mapped = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    return max(float(np.linalg.norm(one - mapped[0]) / np.linalg.norm(mapped[0])) for one in mapped)


@given(scenes(), st.sampled_from(sorted(METHODS)), st.sampled_from(["identity", "haar"]))
def test_orthonormal_bases_of_one_span_agree_exactly_after_every_method(
    scene: Scene, method: str, target: str
) -> None:
    found = align(method, scene.reps, target=target, rng=scene.rng)
    assert disagreement(scene.bases, found.changes_of_basis) < EXACT


@given(scenes(orthonormal=False), st.sampled_from(LEAST_SQUARES), st.sampled_from(sorted(TARGETS)))
def test_any_bases_of_one_span_agree_exactly_after_least_squares(
    scene: Scene, method: str, target: str
) -> None:
    found = align(method, scene.reps, target=target, rng=scene.rng)
    # a random R may be badly conditioned itself, which disagreement is measured against
    assert disagreement(scene.bases, found.changes_of_basis) < 100 * EXACT


@given(scenes())
def test_odc_turns_every_basis_back_by_its_own_turn(scene: Scene) -> None:
    """Theorem IV.3 of arXiv:2403.02780v5, G_i = E_i^T O with F = F_1, whatever the orthogonal O."""
    factor = orthogonal(len(scene.turns[0]), scene.rng)
    changes = align_odc(scene.reps, factor).changes_of_basis
    for turn, change in zip(scene.turns, changes, strict=True):
        from_first = scene.turns[0].T @ turn  # E_i of F_i = F_1 E_i
        np.testing.assert_allclose(change, from_first.T @ factor, rtol=0, atol=1e-10)


@given(scenes(), st.sampled_from(ORTHOGONAL))
def test_the_collaborative_rows_are_the_projected_rows_up_to_a_turn(scene: Scene, method: str) -> None:
    """Inner products of X_i F_i G_i, across parties, are those of X F whatever was chosen for O."""
    rows = [scene.rng.standard_normal((3, len(basis))) for basis in scene.bases]
    found = align(method, scene.reps, target="haar", rng=scene.rng).changes_of_basis
    parts = zip(rows, scene.bases, found, strict=True)
    aligned = np.vstack([own @ basis @ change for own, basis, change in parts])
    projected = np.vstack(rows) @ scene.bases[0]
    scale = max(1.0, float(np.abs(projected).max()) ** 2)
    np.testing.assert_allclose(aligned @ aligned.T, projected @ projected.T, rtol=0, atol=1e-8 * scale)


@st.composite
def noisy_reps(draw: st.DrawFn) -> tuple[list[Matrix], list[int]]:
    """Anchor representations of different spans, and an order to put them in."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    latent_dim, parties = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    rows = draw(st.integers(2 * latent_dim + 2, 60))
    # apart from each other, so that the k-th direction does not depend on the last bit
    common = np.linalg.qr(rng.standard_normal((rows, latent_dim)))[0] * 1.5 ** np.arange(latent_dim)
    noise = 0.1 / np.sqrt(rows)
    reps = [
        (common + noise * rng.standard_normal(common.shape)) @ orthogonal(latent_dim, rng)
        for _ in range(parties)
    ]
    return reps, draw(st.permutations(range(parties)))


def relative(changes: list[Matrix]) -> list[Matrix]:
    """G_i G_j^T for all pairs: the same for answers that differ by one common turn."""
    return [one @ other.T for one in changes for other in changes]


@given(noisy_reps(), st.sampled_from(SAME_IN_ANY_ORDER))
def test_the_order_of_the_parties_does_not_matter(
    drawn: tuple[list[Matrix], list[int]], solve: Callable[[list[Matrix]], Solution]
) -> None:
    reps, order = drawn
    plain = solve(reps).changes_of_basis
    shuffled = solve([reps[i] for i in order]).changes_of_basis
    back: list[Matrix] = [np.empty(0)] * len(reps)
    for place, index in enumerate(order):
        back[index] = shuffled[place]
    for one, other in zip(relative(plain), relative(back), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7 * np.abs(one).max())


@given(noisy_reps())
def test_no_sweep_of_gopp_makes_the_parties_agree_less(drawn: tuple[list[Matrix], list[int]]) -> None:
    reps, _ = drawn
    losses = []
    for sweeps in range(5):
        changes, _, _ = descend(reps, reps[0], trusted=None, max_sweeps=sweeps, tolerance=0)
        aligned = np.stack([rep @ change for rep, change in zip(reps, changes, strict=True)])
        losses.append(float(np.sum((aligned - aligned.mean(axis=0)) ** 2)))
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(losses))
