"""What every method guarantees: each is called through `align` with each awkward input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import Alignment, AnchorRepError, align, align_to
from analyst_server.alignment.registry import METHODS
from protocol.arrays import dequantise, quantise
from tests.harness.problems import Matrix, anchor, haar, shared_span, worst_disagreement

LEAST_SQUARES = [name for name, method in METHODS.items() if method.is_least_squares]
ORTHOGONAL = [name for name, method in METHODS.items() if method.is_orthogonal]

every_method = pytest.mark.parametrize("method", METHODS)


def run(method: str, reps: Any, **options: Any) -> Alignment:
    return align(method, reps, rng=np.random.default_rng(0), **options)


def scene(
    parties: int = 4, latent_dim: int = 4, rows: int = 40, features: int = 10, seed: int = 0
) -> tuple[list[Matrix], list[Matrix]]:
    """Return orthonormal bases of one span and their anchor representations."""
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng, parties, features, latent_dim)
    matrix = rng.standard_normal((rows, features))
    return bases, [matrix @ basis for basis in bases]


SIZES = {
    "one party": {"parties": 1},
    "two parties": {"parties": 2},
    "forty parties": {"parties": 40},
    "one dimension": {"latent_dim": 1},
    "every dimension": {"latent_dim": 10},
    "as many rows as features": {"rows": 10},
    "fewer rows than features": {"rows": 6},
    "as many rows as dimensions": {"rows": 4},
    "one of everything": {"parties": 1, "latent_dim": 1, "rows": 1, "features": 1},
}


@every_method
@pytest.mark.parametrize("size", SIZES.values(), ids=list(SIZES))
def test_one_span_is_aligned_whatever_the_size(method: str, size: dict[str, int]) -> None:
    bases, reps = scene(**size)
    assert worst_disagreement(bases, run(method, reps).changes_of_basis) < 1e-9


@every_method
def test_a_haar_anchor_is_aligned_with_as_many_rows_as_features(method: str) -> None:
    rng = np.random.default_rng(0)
    bases, _ = shared_span(rng, features=12, latent_dim=5)
    matrix = anchor("haar", 12, rng)
    found = run(method, [matrix @ basis for basis in bases], anchor_is_isotropic=True)
    assert worst_disagreement(bases, found.changes_of_basis) < 1e-10


@every_method
@pytest.mark.parametrize(
    ("dtype", "unit"), [("f8", 1e250), ("f8", 1e-250), ("f8", 1e6), ("f4", 1e25), ("f4", 1e-25), ("f4", 1e-6)]
)
def test_the_unit_of_the_anchor_does_not_matter(method: str, dtype: str, unit: float) -> None:
    _, reps = scene()
    plain = run(method, reps).changes_of_basis
    scaled = run(method, [(rep * unit).astype(dtype) for rep in reps]).changes_of_basis
    # a least-squares answer undoes the unit, the others do not depend on it
    back = unit if METHODS[method].is_least_squares else 1.0
    for one, other in zip(plain, scaled, strict=True):
        # up to one common turn, for all directions of one span agree equally well
        expected, found = one @ plain[0].T, (other * back) @ (scaled[0] * back).T
        assert np.linalg.norm(found - expected) < (1e-9 if dtype == "f8" else 1e-4) * np.linalg.norm(expected)


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_representations_may_be_mapped_read_only_from_files(
    method: str, dtype: Any, tmp_path: Path
) -> None:
    _, reps = scene()
    mapped: list[Matrix] = []
    for index, rep in enumerate(reps):
        rep.astype(dtype).tofile(tmp_path / str(index))
        mapped.append(np.memmap(tmp_path / str(index), dtype, mode="r", shape=rep.shape))
    in_memory = run(method, [np.array(rep) for rep in mapped])
    from_files = run(method, mapped)
    for one, other in zip(in_memory.changes_of_basis, from_files.changes_of_basis, strict=True):
        np.testing.assert_array_equal(one, other)


@every_method
def test_the_representations_are_not_modified(method: str) -> None:
    _, reps = scene()
    copies = [rep.copy() for rep in reps]
    run(method, reps, target="haar")
    for rep, copy in zip(reps, copies, strict=True):
        np.testing.assert_array_equal(rep, copy)


@every_method
def test_the_same_input_gives_the_same_bytes(method: str) -> None:
    _, reps = scene()
    one, other = run(method, reps, target="haar"), run(method, reps, target="haar")
    for first, second in zip(one.changes_of_basis, other.changes_of_basis, strict=True):
        assert first.tobytes() == second.tobytes()


@every_method
def test_a_party_listed_twice_gets_the_same_answer_twice(method: str) -> None:
    _, reps = scene()
    changes = run(method, [*reps, reps[1]]).changes_of_basis
    np.testing.assert_allclose(changes[1], changes[-1], rtol=0, atol=1e-10)


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_party_that_lost_a_direction_does_not_change_the_others(method: str, dtype: Any) -> None:
    bases, reps = scene(parties=5)
    direction = haar(4, np.random.default_rng(1))[:, :1]
    lost = (reps[2] - reps[2] @ direction @ direction.T).astype(dtype)
    found = run(method, [rep.astype(dtype) for rep in [*reps[:2], lost, *reps[3:]]], trusted=[0, 1, 3, 4])
    kept = [index for index in range(5) if index != 2]
    changes = found.changes_of_basis
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    assert worst_disagreement([bases[i] for i in kept], [changes[i] for i in kept]) < tolerance
    assert np.isfinite(changes[2]).all()
    # the directions it still has are mapped to where the others have them
    there = lost @ changes[2]
    common = reps[0] @ changes[0]
    if METHODS[method].is_least_squares:
        left, values, _ = np.linalg.svd(lost.astype(np.float64), full_matrices=False)
        left = left[:, values > 1e-3 * values[0]]
        np.testing.assert_allclose(there, left @ left.T @ common, rtol=0, atol=100 * tolerance)
    else:
        assert np.linalg.norm(there - common) < 1.01 * np.linalg.norm(direction.T @ reps[2].T)


@every_method
def test_parties_that_all_lost_the_same_direction_agree_on_the_rest(method: str) -> None:
    _, reps = scene(latent_dim=3)
    flat = [np.column_stack([rep, rep @ [1.0, 1.0, 1.0]]) for rep in reps]  # rank 3, l = 4
    for rep, change in zip(flat, run(method, flat).changes_of_basis, strict=True):
        assert np.isfinite(change).all()
        if METHODS[method].is_least_squares:
            np.testing.assert_allclose(
                rep @ change, flat[0] @ run(method, flat).changes_of_basis[0], atol=1e-9
            )


@every_method
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2])
def test_a_party_that_is_zero_or_not_finite_is_named(method: str, bad: float, place: int) -> None:
    _, reps = scene()
    reps[place] = np.full_like(reps[place], bad)
    with pytest.raises(AnchorRepError, match=f"representation {place} is zero or not finite"):
        run(method, reps)


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e18, 1e-18])
def test_a_party_whose_size_would_hide_the_others_is_named(method: str, factor: float, dtype: Any) -> None:
    _, reps = scene()
    reps[1] = reps[1] * factor
    with pytest.raises(AnchorRepError, match=r"representation 1 is \de[-+]1[78] times as large"):
        run(method, [rep.astype(dtype) for rep in reps])


@every_method
@pytest.mark.parametrize("shape", [(40,), (40, 0), (0, 4), (2, 20, 4)])
@pytest.mark.parametrize("place", [0, 1])
def test_anything_but_a_matrix_is_refused_with_its_index(
    method: str, shape: tuple[int, ...], place: int
) -> None:
    _, reps = scene()
    reps[place] = np.ones(shape)
    with pytest.raises(AnchorRepError, match=rf"representation {place} has shape .* expected a matrix"):
        run(method, reps)


@every_method
def test_fewer_rows_than_dimensions_are_refused(method: str) -> None:
    with pytest.raises(AnchorRepError, match="has 3 rows, too few for 4 dimensions"):
        run(method, [np.ones((3, 4))])


@every_method
def test_untrusted_parties_do_not_change_the_answer_of_the_others(method: str) -> None:
    _, reps = scene(parties=5)
    alone = run(method, reps[:4]).changes_of_basis
    rng = np.random.default_rng(5)
    beside = run(method, [*reps[:4], rng.standard_normal(reps[0].shape)], trusted=range(4)).changes_of_basis
    for one, other in zip(alone, beside[:4], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@every_method
def test_an_untrusted_party_of_the_same_span_is_aligned_too(method: str) -> None:
    bases, reps = scene(parties=5)
    found = run(method, reps, trusted=[1, 3])
    assert worst_disagreement(bases, found.changes_of_basis) < 1e-6


@every_method
def test_no_trusted_party_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match="at least one party"):
        run(method, scene()[1], trusted=[])


@pytest.mark.parametrize("method", ORTHOGONAL)
def test_an_orthogonal_method_gives_orthogonal_matrices(method: str) -> None:
    rng = np.random.default_rng(0)
    reps = [rng.standard_normal((30, 6)) for _ in range(5)]
    for change in run(method, reps).changes_of_basis:
        np.testing.assert_allclose(change.T @ change, np.eye(6), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_least_squares_align_unequal_dimensions_to_the_smallest(method: str) -> None:
    rng = np.random.default_rng(0)
    wide, matrix = haar(12, rng), rng.standard_normal((40, 12))
    spans = [wide[:, :3], wide[:, [0, 1, 2, 4]], wide[:, [0, 1, 2, 5, 6]]]
    bases = [span @ rng.standard_normal((span.shape[1],) * 2) for span in spans]
    found = run(method, [matrix @ basis for basis in bases])
    assert [change.shape for change in found.changes_of_basis] == [(3, 3), (4, 3), (5, 3)]


@pytest.mark.parametrize("method", [name for name in METHODS if name not in LEAST_SQUARES])
def test_other_methods_refuse_unequal_dimensions(method: str) -> None:
    _, reps = scene()
    with pytest.raises(AnchorRepError, match=r"representation 1 has shape \(40, 3\), expected \(40, 4\)"):
        run(method, [reps[0], reps[1][:, :3]])


@pytest.mark.parametrize("method", [name for name in METHODS if name not in LEAST_SQUARES])
def test_an_invertible_target_is_refused_where_lengths_are_kept(method: str) -> None:
    with pytest.raises(ValueError, match="would undo"):
        run(method, scene()[1], target="invertible")


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ORTHOGONAL])
def test_methods_that_may_stretch_do_not_ask_for_orthonormal_bases(method: str) -> None:
    _, reps = scene()
    run(method, [2 * rep for rep in reps], anchor_is_isotropic=True)


@pytest.mark.parametrize("method", ORTHOGONAL)
def test_an_untrusted_basis_need_not_be_orthonormal(method: str) -> None:
    rng = np.random.default_rng(0)
    bases, _ = shared_span(rng, features=12, latent_dim=5)
    matrix = anchor("haar", 12, rng)
    reps = [matrix @ basis for basis in bases]
    found = run(method, [*reps[:4], 2 * reps[4]], anchor_is_isotropic=True, trusted=range(4))
    assert worst_disagreement(bases, found.changes_of_basis) < 1e-10


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_least_squares_take_a_common_dimension_above_what_some_send(method: str) -> None:
    rng = np.random.default_rng(0)
    wide, matrix = haar(12, rng), haar(12, rng)
    bases = [wide[:, :3], wide[:, [0, 1, 2, 4]], wide[:, :6]]
    found = align(method, [matrix @ basis for basis in bases], latent_dim=6, rng=rng)
    assert [change.shape for change in found.changes_of_basis] == [(3, 6), (4, 6), (6, 6)]
    shared = wide[:, :3].T
    ways = [shared @ basis @ change for basis, change in zip(bases, found.changes_of_basis, strict=True)]
    for way in ways[1:]:  # a row of what all send becomes the same, whoever has sent it
        np.testing.assert_allclose(way, ways[0], rtol=0, atol=1e-9)
    assert np.linalg.matrix_rank(ways[0]) == 3


def on_the_wire(dtype: str, matrix: Matrix) -> Matrix:
    """Return a matrix as the analyst reads it, at least in single precision."""
    if dtype == "i1":
        return np.asarray(dequantise(*quantise(matrix)))
    return matrix.astype(dtype).astype(np.float64 if dtype == "f8" else np.float32)


ROUNDING = {"i1": 0.5 / 127, "f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-53}


@pytest.mark.parametrize("method", LEAST_SQUARES)
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("seed", range(10))
def test_a_direction_that_no_party_sends_is_zero_for_all(method: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wide, matrix = haar(12, rng), haar(12, rng)
    widths = (2, 3, 3)
    reps = [on_the_wire(dtype, matrix @ wide[:, :width] @ haar(width, rng)) for width in widths]
    found = align(method, reps, latent_dim=8, rounding=ROUNDING[dtype], rng=rng)
    for change, width in zip(found.changes_of_basis, widths, strict=True):
        assert change.shape == (width, 8)
        assert np.linalg.matrix_rank(change, tol=0.05) == width
        assert not change[:, 3:].any()
    assert not found.target_rep[:, 3:].any()
    assert np.isfinite(found.diagnostics.span_angles).all()
    assert max(map(max, found.diagnostics.span_angles)) < 2  # all have what they send in common


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_one_more_party_may_send_fewer_numbers(method: str) -> None:
    bases, reps = scene(parties=4)
    together = run(method, reps[:3])
    fewer = reps[3] @ np.linalg.qr(np.random.default_rng(0).standard_normal((4, 2)))[0]
    change = align_to(method, fewer, together.target_rep, parties=3)
    assert change.shape == (2, bases[0].shape[1])
    residual = fewer @ change - together.target_rep
    np.testing.assert_allclose(fewer.T @ residual, 0, atol=1e-9)
