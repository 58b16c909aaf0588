"""Every method against its plain definition, solved the slow way and by other routines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg, optimize

from analyst_server.alignment import rdp
from analyst_server.alignment.gopp import descend
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from tests.harness.problems import Matrix, haar

AGREEMENT = 1e-8
SHAPES = {
    "wide": (40, 5, 12),
    "tall": (200, 4, 6),
    "square": (30, 5, 6),
    "two": (50, 6, 2),
    "line": (20, 1, 7),
}
"""(a, l, c)"""


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def reps(request: pytest.FixtureRequest) -> list[Matrix]:
    """Return anchor representations near one span: a gap after the leading directions, nothing exact."""
    rows, latent_dim, parties = SHAPES[request.param]
    rng = np.random.default_rng(rows)
    common = rng.random((rows, latent_dim))
    return [
        common @ rng.standard_normal((latent_dim, latent_dim)) + 0.1 * rng.standard_normal((rows, latent_dim))
        for _ in range(parties)
    ]


def hard(condition: float, *, spread: float = 0.1, parties: int = 6, rows: int = 60) -> list[Matrix]:
    """Return anchor representations of a given condition number, their common directions equally long."""
    rng = np.random.default_rng(int(condition))
    common = np.linalg.qr(rng.standard_normal((rows, 4)))[0]
    return [
        (common + spread / np.sqrt(rows) * rng.standard_normal((rows, 4)))
        @ haar(4, rng)
        @ np.diag(np.geomspace(1, 1 / condition, 4))
        @ haar(4, rng)
        for _ in range(parties)
    ]


def nearest_orthogonal(matrix: Matrix) -> Matrix:
    """M (M^T M)^(-1/2), from the eigenvalues of M^T M."""
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    return np.asarray(matrix @ vectors @ np.diag(squares**-0.5) @ vectors.T)


def top_left_singular_vectors(reps: list[Matrix]) -> Matrix:
    left, _, _ = linalg.svd(np.hstack(reps), full_matrices=True, lapack_driver="gesvd")
    return np.asarray(left[:, : reps[0].shape[1]])


def slow_odc(reps: list[Matrix]) -> list[Matrix]:
    return [nearest_orthogonal(rep.T @ reps[0]) for rep in reps]


def slow_imakura(reps: list[Matrix]) -> list[Matrix]:
    return [np.linalg.pinv(rep) @ top_left_singular_vectors(reps) for rep in reps]


def slow_procrustes(reps: list[Matrix]) -> list[Matrix]:
    return [nearest_orthogonal(rep.T @ top_left_singular_vectors(reps)) for rep in reps]


def slow_kawakami(reps: list[Matrix], general: bool = False) -> list[Matrix]:
    """The l smallest solutions of S v = lambda D v with v^T D v = 1."""
    order, parties = reps[0].shape[1], len(reps)
    grams = np.hstack(reps).T @ np.hstack(reps)
    scale = linalg.block_diag(*[rep.T @ rep for rep in reps])
    problem = 2 * parties * scale - 2 * grams
    if general:
        values, vectors = linalg.eig(problem, scale)
        vectors = vectors[:, np.argsort(values.real)].real
    else:
        _, vectors = linalg.eigh(problem, scale)
    vectors = vectors[:, :order]
    vectors = vectors / np.sqrt(np.sum(vectors * (scale @ vectors), axis=0))
    return list(vectors.reshape(parties, order, order))


def slow_gopp(reps: list[Matrix], start: Matrix, sweeps: int) -> list[Matrix]:
    changes = [nearest_orthogonal(rep.T @ start) for rep in reps]
    for _ in range(sweeps):
        target = sum(rep @ change for rep, change in zip(reps, changes, strict=True)) / len(reps)
        changes = [nearest_orthogonal(rep.T @ target) for rep in reps]
    return changes


def centred(reps: list[Matrix]) -> list[Matrix]:
    return [rep - np.ones((len(rep), 1)) @ rep.mean(axis=0)[None] for rep in reps]


def slow_isotropic(reps: list[Matrix]) -> list[Matrix]:
    return slow_gopp(centred(reps), centred(reps)[0], 3)


def plain_rdp(reps: list[Matrix], changes: Any, penalty: float) -> float:
    """Equation (24), word for word."""
    aligned = [rep @ change for rep, change in zip(reps, changes, strict=True)]
    disagreement = sum(float(np.sum((one - other) ** 2)) for one in aligned for other in aligned) / 2
    return disagreement + penalty * sum(
        float(np.log(np.linalg.det(change.T @ change))) ** 2 for change in changes
    )


def difference(found: list[Matrix], expected: list[Matrix], common: Matrix) -> float:
    """How far apart two answers are once a common right factor is taken out, relative to their size."""
    return max(
        float(np.linalg.norm(one @ common - other) / np.linalg.norm(other))
        for one, other in zip(found, expected, strict=True)
    )


def common_turn(reps: list[Matrix], found: list[Matrix], expected: list[Matrix]) -> Matrix:
    """The orthogonal factor between two answers: singular vectors are free in their signs."""
    one = np.sum([rep @ change for rep, change in zip(reps, found, strict=True)], axis=0)
    other = np.sum([rep @ change for rep, change in zip(reps, expected, strict=True)], axis=0)
    return nearest_orthogonal(one.T @ other)


def five_sweeps(reps: list[Matrix], start: Matrix) -> list[Matrix]:
    return descend(reps, start, trusted=None, tolerance=0, max_sweeps=5)[0]


FAST: dict[str, Callable[[list[Matrix]], list[Matrix]]] = {
    "odc": lambda reps: align_odc(reps).changes_of_basis,
    "imakura": lambda reps: align_imakura(reps).changes_of_basis,
    "kawakami": lambda reps: align_kawakami(reps).changes_of_basis,
    "procrustes": lambda reps: align_procrustes(reps).changes_of_basis,
    "gopp": lambda reps: five_sweeps(reps, align_procrustes(reps).target.astype(reps[0].dtype)),
    "gopp from odc": lambda reps: five_sweeps(reps, reps[0]),
    "isotropic": lambda reps: align_isotropic(reps, anchor_is_isotropic=False).changes_of_basis,
}
SLOW: dict[str, Callable[[list[Matrix]], list[Matrix]]] = {
    "odc": slow_odc,
    "imakura": slow_imakura,
    "kawakami": slow_kawakami,
    "procrustes": slow_procrustes,
    "gopp": lambda reps: slow_gopp(reps, top_left_singular_vectors(reps), 5),
    "gopp from odc": lambda reps: slow_gopp(reps, reps[0], 5),
    "isotropic": slow_isotropic,
}


@pytest.mark.parametrize("method", FAST)
def test_a_fast_path_agrees_with_the_plain_definition(method: str, reps: list[Matrix]) -> None:
    found, expected = FAST[method](reps), SLOW[method](reps)
    assert difference(found, expected, common_turn(reps, found, expected)) < AGREEMENT


@pytest.mark.parametrize("method", FAST)
def test_single_precision_costs_no_more_than_its_rounding(method: str, reps: list[Matrix]) -> None:
    found = FAST[method]([rep.astype(np.float32) for rep in reps])
    expected = SLOW[method](reps)
    assert difference(found, expected, common_turn(reps, found, expected)) < 1e-4


@pytest.mark.parametrize("condition", [1e1, 1e2, 1e4, 1e5])
@pytest.mark.parametrize("method", ["imakura", "kawakami"])
def test_badly_conditioned_parties_are_solved_as_well_as_their_condition_allows(
    method: str, condition: float
) -> None:
    reps = hard(condition)
    found, expected = (
        FAST[method](reps),
        slow_kawakami_by_qr(reps) if method == "kawakami" else SLOW[method](reps),
    )
    assert difference(found, expected, common_turn(reps, found, expected)) < 1e-13 * condition


def slow_kawakami_by_qr(reps: list[Matrix]) -> list[Matrix]:
    """The QR form, which is accurate whatever the condition of D, by Householder QR and a full SVD."""
    pairs = [np.linalg.qr(rep) for rep in reps]
    right = np.linalg.svd(np.hstack([q for q, _ in pairs]))[2][: reps[0].shape[1]].T
    parts = right.reshape(len(reps), *[reps[0].shape[1]] * 2)
    return [linalg.solve_triangular(r, part) for (_, r), part in zip(pairs, parts, strict=True)]


def test_the_general_eigenvalue_routine_agrees_on_kawakami(reps: list[Matrix]) -> None:
    one, other = slow_kawakami(reps), slow_kawakami(reps, general=True)
    assert difference(one, other, common_turn(reps, one, other)) < AGREEMENT


def test_kawakami_columns_are_the_eigenvectors_themselves(reps: list[Matrix]) -> None:
    """Not only their span is found, but each column up to its sign."""
    found, expected = align_kawakami(reps).changes_of_basis, slow_kawakami(reps)
    signs = common_turn(reps, found, expected)
    np.testing.assert_allclose(np.abs(signs), np.eye(len(signs)), rtol=0, atol=AGREEMENT)


@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_rdp_ends_where_a_plain_optimiser_ends(penalty: float) -> None:
    """BFGS with numerical derivatives, on the double sum as it is printed."""
    rng = np.random.default_rng(3)
    common = rng.standard_normal((12, 2))
    reps = np.stack([common @ haar(2, rng) + 0.3 * rng.standard_normal((12, 2)) for _ in range(3)])
    unit = float(np.mean([np.sum(rep**2) for rep in reps]))
    begin = np.stack(slow_procrustes(list(reps)))
    objective = rdp.Objective(reps / np.sqrt(unit), penalty, len(reps))
    found, _ = rdp.descend(objective, begin, 1e-15, rdp.MAX_ITERATIONS)
    expected = optimize.minimize(
        lambda flat: plain_rdp(list(reps), flat.reshape(3, 2, 2), penalty * unit),
        begin.ravel(),
        jac="3-point",
        method="BFGS",
        options={"gtol": 1e-6 * unit},
    )
    assert expected.success
    assert plain_rdp(list(reps), found, penalty * unit) == pytest.approx(expected.fun, rel=AGREEMENT)
