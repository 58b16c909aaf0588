from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import AnchorRepError, align, align_to
from analyst_server.alignment._orthogonal import haar_orthogonal
from analyst_server.alignment.diagnostics import diagnose
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.registry import METHODS, TARGETS
from protocol.alignment_terms import LEAST_SQUARES_METHODS, ORTHOGONAL_METHODS, AlignmentTerms
from protocol.arrays import dequantise, quantise
from tests.harness.problems import Matrix, anchor, own_span, shared_span, worst_disagreement

PAIRS = [
    (name, target)
    for name, method in METHODS.items()
    for target in TARGETS
    if target != "invertible" or method.is_least_squares
]


def reps(seed: int = 0, parties: int = 3) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    matrix = rng.random((40, 10))
    return [matrix @ rng.standard_normal((10, 3)) for _ in range(parties)]


def run(method: str = "odc", anchor_reps: Any = None, **options: Any) -> Any:
    given = reps() if anchor_reps is None else anchor_reps
    return align(method, given, rng=np.random.default_rng(7), **options)


@pytest.mark.parametrize("name", ["method", "target"])
def test_the_terms_offer_exactly_the_registered_names(name: str) -> None:
    registered = {"method": tuple(METHODS), "target": tuple(TARGETS)}[name]
    assert AlignmentTerms.model_fields[name].annotation.__args__ == registered  # type: ignore[union-attr]


def test_clients_know_the_methods_whose_change_of_basis_is_orthogonal() -> None:
    assert {name for name, method in METHODS.items() if method.is_orthogonal} == ORTHOGONAL_METHODS


def test_the_terms_know_the_methods_of_least_squares() -> None:
    assert {name for name, method in METHODS.items() if method.is_least_squares} == LEAST_SQUARES_METHODS


def test_odc_by_name_is_odc() -> None:
    for one, other in zip(run("odc").changes_of_basis, align_odc(reps()).changes_of_basis, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_isotropic", [True, False])
def test_isotropic_by_name_is_isotropic(is_isotropic: bool) -> None:
    given = [np.linalg.qr(rep)[0] for rep in reps()]
    rng = np.random.default_rng(0)
    found = align("isotropic", given, anchor_is_isotropic=is_isotropic, rng=rng).changes_of_basis
    expected = align_isotropic(given, anchor_is_isotropic=is_isotropic).changes_of_basis
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_a_haar_target_turns_all_parties_alike(method: str) -> None:
    plain, turned = run(method).changes_of_basis, run(method, target="haar").changes_of_basis
    common = np.linalg.solve(plain[0], turned[0])
    np.testing.assert_allclose(common.T @ common, np.eye(3), rtol=0, atol=1e-10)
    for one, other in zip(plain, turned, strict=True):
        np.testing.assert_allclose(one @ common, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("method", "target", "words"),
    [
        ("odc", "identity", "A_1"),
        ("odc", "haar", "A_1 times haar"),
        ("imakura", "invertible", "U times invertible"),
        ("procrustes", "identity", "U"),
    ],
)
def test_the_target_is_described_in_words(method: str, target: str, words: str) -> None:
    found = run(method, target=target)
    assert found.target == words
    assert found.seconds > 0


def test_the_same_seed_draws_the_same_target() -> None:
    one, other = run(target="haar"), run(target="haar")
    np.testing.assert_array_equal(one.changes_of_basis[0], other.changes_of_basis[0])


def test_another_seed_draws_another_target() -> None:
    one = align("odc", reps(), target="haar", rng=np.random.default_rng(1)).changes_of_basis[0]
    other = align("odc", reps(), target="haar", rng=np.random.default_rng(2)).changes_of_basis[0]
    assert np.abs(one - other).max() > 0.01


def test_an_identity_target_draws_nothing() -> None:
    rng = np.random.default_rng(7)
    align("odc", reps(), rng=rng)
    assert rng.integers(2**62) == np.random.default_rng(7).integers(2**62)


def test_the_diagnostics_are_those_of_the_result() -> None:
    found = run("isotropic")
    assert found.diagnostics == diagnose(reps(), found.changes_of_basis)


@pytest.mark.parametrize("options", [{"method": "best"}, {"target": "random"}])
def test_an_unknown_name_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown alignment"):
        run(**options)


def test_no_party_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one party"):
        run(anchor_reps=[])


@pytest.mark.parametrize("shape", [(40, 4), (39, 3)])
def test_another_shape_is_refused_with_its_index(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"representation 3 has shape .* expected \(40, 3\)"):
        run(anchor_reps=[*reps(), np.ones(shape)])


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_zero_or_not_finite_representation_is_refused_with_its_index(bad: float) -> None:
    with pytest.raises(ValueError, match="representation 3 is zero or not finite"):
        run(anchor_reps=[*reps(), np.full((40, 3), bad)])


@pytest.mark.parametrize(("method", "target"), PAIRS)
@pytest.mark.parametrize(("parties", "latent_dim"), [(1, 3), (4, 1), (1, 1)])
def test_the_smallest_rounds_are_aligned(parties: int, latent_dim: int, target: str, method: str) -> None:
    rng = np.random.default_rng(0)
    bases, _ = shared_span(rng, parties, 10, latent_dim)
    matrix = rng.random((50, 10))
    found = run(method, [matrix @ basis for basis in bases], target=target)
    assert worst_disagreement(bases, found.changes_of_basis) < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_a_drawn_target_is_orthogonal(seed: int) -> None:
    drawn = haar_orthogonal(12, np.random.default_rng(seed))
    np.testing.assert_allclose(drawn.T @ drawn, np.eye(12), rtol=0, atol=1e-13)


def test_drawn_targets_prefer_no_direction() -> None:
    """The mean of Haar matrices is zero, and each entry of order n has variance 1 / n."""
    rng = np.random.default_rng(0)
    drawn = np.stack([haar_orthogonal(4, rng) for _ in range(4000)])
    assert np.abs(drawn.mean(axis=0)).max() < 5 * 0.5 / np.sqrt(4000)  # five standard errors
    np.testing.assert_allclose(drawn.var(axis=0), 0.25, rtol=0, atol=0.03)


@pytest.mark.parametrize("spoil", [lambda rep: 2 * rep, lambda rep: rep + 0.1], ids=["scaled", "shifted"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_under_a_haar_anchor_a_basis_that_is_not_orthonormal_is_named_by_its_index(
    spoil: Any, dtype: type
) -> None:
    given: list[Matrix] = [np.linalg.qr(rep)[0].astype(dtype) for rep in reps()]
    given[1] = spoil(given[1])
    with pytest.raises(AnchorRepError, match="representation 1 is not orthonormal"):
        align("odc", given, anchor_is_isotropic=True, rng=np.random.default_rng(0))


@pytest.mark.parametrize("rows", [2, 4, 8, 16, 64])
def test_scaled_8_bit_integers_are_orthonormal_enough(rows: int) -> None:
    """Where an anchor has few rows, rounding turns its columns most."""
    for seed in range(50):
        turned = haar_orthogonal(rows, np.random.default_rng(seed))
        given = [dequantise(*quantise(turned)), dequantise(*quantise(turned.T))]
        align("odc", given, anchor_is_isotropic=True, rng=np.random.default_rng(0))


def test_half_precision_is_orthonormal_enough() -> None:
    given = [np.linalg.qr(rep)[0].astype(np.float16).astype(np.float32) for rep in reps()]
    align("odc", given, anchor_is_isotropic=True, rng=np.random.default_rng(0))


@pytest.mark.parametrize(("method", "target"), PAIRS)
def test_one_more_party_gets_what_it_would_have_got_without_a_part_in_the_target(
    method: str, target: str
) -> None:
    rng = np.random.default_rng(4)
    bases, _ = shared_span(rng, parties=4)
    # the descent of rdp starts elsewhere; it ends at the same place where the parties can agree
    matrix = anchor("uniform", 30, rng)
    anchor_reps = [matrix @ one for one in bases] if method == "rdp" else own_span(rng, 4)
    together = run(method, anchor_reps, target=target, trusted=[0, 1, 2])
    alone = align_to(method, anchor_reps[3], together.target_rep, parties=3)
    np.testing.assert_allclose(alone, together.changes_of_basis[3], rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("method", METHODS)
def test_one_more_party_gets_the_same_in_any_unit(method: str, scale: float) -> None:
    anchor_reps = [scale * rep for rep in reps(parties=4)]
    together = run(method, anchor_reps)
    alone = align_to(method, anchor_reps[3], together.target_rep, parties=4)
    expected = run(method, reps(parties=4)).target_rep
    expected = align_to(method, reps(parties=4)[3], expected, parties=4)
    factor = scale if METHODS[method].is_least_squares else 1
    np.testing.assert_allclose(factor * alone, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("rep", "reason"), [(np.ones((5, 3)), "has shape"), (np.zeros((40, 3)), "is zero or not finite")]
)
def test_one_more_party_that_cannot_be_aligned_is_refused(rep: Matrix, reason: str) -> None:
    with pytest.raises(AnchorRepError, match=reason):
        align_to("odc", rep, run("odc").target_rep, parties=3)
