from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from analyst_server.alignment.suspicion import (
    Suspicion,
    beta_tail,
    chance_moments,
    suspects,
    trusted_parties,
)
from tests.harness.problems import Matrix, anchor, haar, own_span, shared_span

FEATURES, LATENT_DIM = 64, 5
ANCHORS = ("haar", "uniform", "gaussian")
CIRCUMSTANCES = list(product(ANCHORS, ("shared", "own"), (np.float64, np.float32, np.float16)))
Fault = Callable[[Matrix, np.random.Generator], Matrix]

CONTRADICTIONS: dict[str, tuple[Fault, str]] = {
    "scaled": (lambda rep, _rng: 1.5 * rep, ""),
    "stretched": (lambda rep, _rng: rep * np.linspace(1, 3, rep.shape[1]), "orthonormal"),
    "sheared": (lambda rep, _rng: rep @ np.tri(rep.shape[1]) / 2, "orthonormal"),
    "garbage": (lambda rep, rng: rng.standard_cauchy(rep.shape).clip(-1e4, 1e4), "orthonormal"),
    "a column twice": (lambda rep, _rng: rep[:, [0, *range(rep.shape[1] - 1)]], "full-rank"),
    "zero": (lambda rep, _rng: 0 * rep, "full-rank"),
}
"""Faults no honest party can have, and the assumption each breaks ("" where that depends on the anchor)."""


def draw_anchor(kind: str, rng: np.random.Generator) -> Matrix:
    return rng.standard_normal((500, FEATURES)) if kind == "gaussian" else anchor(kind, FEATURES, rng)


def draw_bases(spans: str, rng: np.random.Generator, parties: int = 6) -> list[Matrix]:
    if spans == "own":
        return own_span(rng, parties, latent_dim=LATENT_DIM)
    return shared_span(rng, parties, FEATURES, LATENT_DIM)[0]


def as_sent(rep: Matrix, dtype: type) -> Matrix:
    """Round as the wire does; the analyst computes with float32 where float16 was sent."""
    return rep.astype(np.float16).astype(np.float32) if dtype is np.float16 else rep.astype(dtype)


def play(seed: int, fault: Fault | None = None) -> tuple[int, list[Suspicion]]:
    """Play a round in one of `CIRCUMSTANCES`; return who is at fault and who is suspected."""
    kind, spans, dtype = CIRCUMSTANCES[seed % len(CIRCUMSTANCES)]
    rng = np.random.default_rng(seed)
    matrix = draw_anchor(kind, rng)
    reps = [matrix @ basis for basis in draw_bases(spans, rng)]
    culprit = int(rng.integers(len(reps)))
    if fault is not None:
        reps[culprit] = fault(reps[culprit], rng)
    sent = [as_sent(rep, dtype) for rep in reps]
    return culprit, suspects(sent, anchor_is_isotropic=kind == "haar")


def related(kind: str = "haar", parties: int = 6, seed: int = 0) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    matrix = draw_anchor(kind, rng)
    return [matrix @ basis for basis in draw_bases("own", rng, parties)]


def named(reps: list[Matrix], kind: str = "haar", row_counts: list[int] | None = None) -> list[int]:
    found = suspects(reps, anchor_is_isotropic=kind == "haar", row_counts=row_counts)
    return [suspicion.index for suspicion in found]


# who is named


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_a_party_that_contradicts_arithmetic_is_named_in_each_of_a_hundred_rounds(fault: str) -> None:
    spoil, assumption = CONTRADICTIONS[fault]
    for seed in range(100):
        culprit, found = play(seed, spoil)
        assert [suspicion.index for suspicion in found] == [culprit], seed
        assert found[0].assumption == assumption or not assumption


@pytest.mark.parametrize("fault", ["noise", "another uniform anchor", "shuffled rows"])
def test_a_party_that_agrees_by_chance_alone_is_named_in_each_of_a_hundred_rounds(fault: str) -> None:
    def spoil(rep: Matrix, rng: np.random.Generator) -> Matrix:
        if fault == "shuffled rows":
            return rng.permutation(rep)
        if len(rep) == FEATURES:  # a haar anchor
            return haar(FEATURES, rng)[:, :LATENT_DIM]
        noise = rng.standard_normal if fault == "noise" else rng.random
        drawn = noise(rep.shape)
        return np.asarray(
            rep.mean(axis=0) + (drawn - drawn.mean()) / drawn.std() * (rep - rep.mean(axis=0)).std()
        )

    for seed in range(100):
        culprit, found = play(seed, spoil)
        assert [(one.index, one.assumption) for one in found] == [(culprit, "same-anchor-or-related-span")], (
            seed
        )


def test_nobody_is_named_in_a_hundred_clean_rounds() -> None:
    assert [seed for seed in range(100) if play(seed)[1]] == []


@pytest.mark.parametrize("kind", ANCHORS)
@pytest.mark.parametrize("latent_dim", [1, 8, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("parties", [1, 2, 3, 9])
def test_nobody_is_named_where_honest_parties_have_unrelated_spans(
    parties: int, latent_dim: int, kind: str
) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matrix = draw_anchor(kind, rng)
        bases = [haar(FEATURES, rng)[:, :latent_dim] for _ in range(parties)]
        assert named([matrix @ basis for basis in bases], kind) == []


def test_two_bad_parties_of_seven_are_both_named() -> None:
    reps = related(parties=7)
    rng = np.random.default_rng(1)
    reps[0], reps[4] = rng.permutation(reps[0]), 2 * reps[4]
    assert named(reps) == [0, 4]


def test_bad_parties_among_the_references_are_named() -> None:
    reps = related(parties=20)
    rng = np.random.default_rng(1)
    for index in (0, 3, 7, 15):
        reps[index] = rng.permutation(reps[index])
    assert named(reps) == [0, 3, 7, 15]


def test_another_order_of_the_parties_names_the_same_party() -> None:
    reps = related()
    reps[2] = np.random.default_rng(1).permutation(reps[2])
    assert named(reps[::-1]) == [3]


@pytest.mark.parametrize("exponent", [-500, -30, 30, 500])
@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_the_unit_of_the_anchor_changes_nothing(kind: str, exponent: int) -> None:
    reps = related(kind)
    reps[1] = np.random.default_rng(1).permutation(reps[1])
    assert named([np.ldexp(rep, exponent) for rep in reps], kind) == [1]


def test_dimensions_may_differ() -> None:
    reps = [rep[:, : 5 - index % 3] for index, rep in enumerate(related())]
    assert named(reps) == []
    reps[1] = np.random.default_rng(1).permutation(reps[1])
    assert named(reps) == [1]


def test_the_evidence_has_the_figures() -> None:
    reps = related()
    reps[1], reps[2] = 2 * reps[1], np.random.default_rng(1).permutation(reps[2])
    first, second = suspects(reps, anchor_is_isotropic=True)
    assert first.evidence == "has singular values from 2 to 2, expected all to be 1"
    assert "who share" in second.evidence
    assert "chance alone would share 8%" in second.evidence  # 5 of 64


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_the_size_of_a_scaled_party_is_told(factor: float) -> None:
    reps = related("gaussian")
    reps[3] = factor * reps[3]
    (found,) = suspects(reps, anchor_is_isotropic=False)
    assert (found.assumption, found.index) == ("same-scale", 3)
    told = float(found.evidence.split()[1])
    assert told == pytest.approx(factor, rel=0.1)


# when nobody is named


@pytest.mark.parametrize("kind", ANCHORS)
def test_of_two_that_disagree_nobody_is_named(kind: str) -> None:
    reps = related(kind, parties=2)
    assert named([reps[0], np.random.default_rng(1).permutation(reps[1])], kind) == []


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_of_two_sizes_nobody_is_named(kind: str) -> None:
    one, other = related(kind, parties=2)
    assert named([one, 2 * other], kind) == []
    assert named([one, other * np.linspace(1, 3, LATENT_DIM)], kind) == []


def test_one_party_alone_contradicts_a_haar_anchor() -> None:
    assert named([2 * related()[0]]) == [0]


def test_where_most_parties_are_strangers_nobody_is_named() -> None:
    rng = np.random.default_rng(0)
    reps = [rep if index < 3 else rng.permutation(rep) for index, rep in enumerate(related())]
    assert named(reps) == []


def test_an_anchor_that_is_not_what_was_promised_is_no_fault_of_the_parties() -> None:
    """The anchor is rows of a table instead of random numbers, so no anchor representation is spherical."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((500, FEATURES)) * np.linspace(0.1, 5, FEATURES)
    found = suspects([matrix @ basis for basis in draw_bases("own", rng)], anchor_is_isotropic=False)
    assert [one for one in found if one.assumption == "orthonormal"] == []


@pytest.mark.parametrize("kind", ANCHORS)
@pytest.mark.parametrize("fault", ["scaled", "stretched", "sheared"])
def test_where_maps_need_not_be_linear_lengths_and_angles_are_no_fault(kind: str, fault: str) -> None:
    reps = related(kind)
    reps[2] = CONTRADICTIONS[fault][0](10 * reps[2], np.random.default_rng(0))
    assert named(reps, kind) == [2]
    assert suspects(reps, anchor_is_isotropic=kind == "haar", maps_are_linear=False) == []


def test_where_maps_need_not_be_linear_a_stranger_is_still_one() -> None:
    rng = np.random.default_rng(0)
    reps = related("gaussian")
    reps[1], reps[4] = rng.permutation(reps[1]), 0 * reps[4]
    found = suspects(reps, anchor_is_isotropic=False, maps_are_linear=False)
    assert [(one.index, one.assumption) for one in found] == [
        (1, "same-anchor-or-related-span"),
        (4, "full-rank"),
    ]


def test_sizes_that_differ_everywhere_are_no_fault_of_a_party() -> None:
    reps = [2.0**index * rep for index, rep in enumerate(related("gaussian"))]
    assert named(reps, "gaussian") == []


def test_parties_between_strange_and_related_leave_no_gap_to_judge_by() -> None:
    """Four parties share a span, one lies about 49 degrees from it in every direction, one is a stranger."""
    rng = np.random.default_rng(0)
    directions = haar(30, rng)
    common, stranger = directions[:, :8], haar(30, rng)[:, :8]
    between = np.sqrt(0.43) * common + np.sqrt(0.57) * directions[:, 8:16]
    assert named([common, common, common, common, stranger]) == [4]
    assert named([common, common, common, common, between, stranger]) == []


@pytest.mark.parametrize("count", [0, LATENT_DIM - 1])
def test_the_span_of_a_party_with_fewer_rows_than_dimensions_is_not_judged(count: int) -> None:
    reps = related()
    reps[2] = np.random.default_rng(1).permutation(reps[2])
    assert named(reps, row_counts=[60, 60, count, 60, 60, 60]) == []
    assert named(reps, row_counts=[60, 60, LATENT_DIM, 60, 60, 60]) == [2]


def test_a_party_without_rows_still_needs_an_orthonormal_basis() -> None:
    reps = related()
    reps[2] = 2 * reps[2]
    assert named(reps, row_counts=[60, 60, 0, 60, 60, 60]) == [2]


def test_parties_without_rows_are_not_used_to_judge_others() -> None:
    rng = np.random.default_rng(0)
    consumers = [haar(FEATURES, rng)[:, :LATENT_DIM] for _ in range(12)]
    assert named([*consumers, *related()], row_counts=[0] * 12 + [60] * 6) == []


@pytest.mark.parametrize(("latent_dim", "judged"), [(1, False), (2, True), (32, True), (33, False)])
def test_spans_are_judged_up_to_half_the_dimension(latent_dim: int, judged: bool) -> None:
    rng = np.random.default_rng(0)
    reps = shared_span(rng, 6, FEATURES, latent_dim)[0]
    reps[4] = rng.permutation(reps[4])
    assert named(reps) == [4] * judged


def test_with_few_columns_chance_is_too_close_to_judge() -> None:
    rng = np.random.default_rng(0)
    reps = shared_span(rng, 3, 6, 3)[0]
    assert named([haar(6, rng) @ reps[0], *reps[1:]]) == []


# the distribution of overlaps by chance


@pytest.mark.parametrize(("order", "dimension", "references"), [(1, 10, 1), (3, 12, 1), (4, 20, 3)])
def test_the_chance_of_an_overlap_is_that_of_random_spans(
    order: int, dimension: int, references: int
) -> None:
    rng = np.random.default_rng(0)
    spans = [haar(dimension, rng)[:, :order] for _ in range(references)]
    projector = np.mean([span @ span.T for span in spans], axis=0)
    drawn = np.linalg.qr(rng.standard_normal((20_000, dimension, order)))[0]
    overlaps = np.einsum("kil,ij,kjl->k", drawn, projector, drawn)
    mean, variance = chance_moments(order, dimension, order, float(np.square(projector).sum()))
    assert mean == pytest.approx(overlaps.mean(), rel=0.02)
    assert variance == pytest.approx(overlaps.var(), rel=0.05)
    for quantile in (0.5, 0.9, 0.99, 0.999):
        tail = beta_tail(float(np.quantile(overlaps, quantile)), mean, variance, order)
        assert 0.4 * (1 - quantile) < tail < 2.5 * (1 - quantile)


# who is trusted


@pytest.mark.parametrize(
    ("bad", "row_counts", "trusted"),
    [
        ([], None, [0, 1, 2]),
        ([1], None, [0, 2]),
        ([], [5, 0, 7], [0, 2]),
        ([2], [5, 0, 7], [0]),
        ([0], [5, 0, 0], [1, 2]),
        ([], [0, 0, 0], [0, 1, 2]),
        ([0, 1, 2], [5, 5, 5], [0, 1, 2]),
    ],
    ids=["all", "unsuspected", "with rows", "both", "else without rows", "no rows at all", "else everybody"],
)
def test_the_trusted_have_rows_and_are_not_suspected(
    bad: list[int], row_counts: list[int] | None, trusted: list[int]
) -> None:
    suspicions = [Suspicion(index, "orthonormal", "has") for index in bad]
    assert trusted_parties(3, suspicions, row_counts) == trusted


# fewer numbers of a row


@pytest.mark.parametrize("widths", [(6, 2, 2), (4, 2, 2), (6, 3, 3, 3), (6, 6, 6), (2, 6, 6, 6)])
@pytest.mark.parametrize(("shared", "decay"), [(1.0, 1.5), (1.5, 3.0)])
def test_whoever_sends_more_or_fewer_numbers_than_the_others_is_no_stranger(
    widths: tuple[int, ...], shared: float, decay: float
) -> None:
    accused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        matrix, base = haar(12, rng), haar(12, rng)
        spread = np.sqrt(np.exp(-np.arange(12) / decay))
        reps, counts = [], []
        for width in widths:
            count, own = int(rng.choice([40, 100, 400])), haar(12, rng)
            rows = rng.standard_normal((count, 12)) * spread @ base.T
            rows += shared * rng.standard_normal((count, 12)) * spread @ own.T
            axes = np.linalg.svd(rows, full_matrices=True)[2].T
            reps.append((matrix @ axes[:, :width] @ haar(width, rng)).astype(np.float32))
            counts.append(count)
        accused += len(suspects(reps, anchor_is_isotropic=True, row_counts=counts))
    assert accused == 0
