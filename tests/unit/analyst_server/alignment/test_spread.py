"""Anchor representations that are worked on by groups of parties: the numbers of one list."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.alignment import Alignment, AnchorRepError, SpreadReps, Work, align
from analyst_server.alignment.registry import METHODS
from analyst_server.alignment.suspicion import suspects

Matrix = NDArray[Any]


class Groups(SpreadReps):
    """Groups of two parties; what is called for one has to travel by its name."""

    def __init__(self, reps: Sequence[Matrix]) -> None:
        self.reps = list(reps)
        self.read = 0

    def __len__(self) -> int:
        return len(self.reps)

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        return self.reps[index]

    @property
    def shapes(self) -> Sequence[tuple[int, ...]]:
        return [rep.shape for rep in self.reps]

    @property
    def dtypes(self) -> Sequence[np.dtype[Any]]:
        return [rep.dtype for rep in self.reps]

    def by_group(
        self,
        work: Work,
        *shared: Matrix,
        own: Sequence[Matrix] | None = None,
        of: Sequence[int] | None = None,
    ) -> list[tuple[Matrix, ...]]:
        work = pickle.loads(pickle.dumps(work))  # noqa: S301  # our own bytes
        chosen = list(range(len(self)) if of is None else of)
        found = []
        for start in range(0, len(chosen), 2):
            part = slice(start, start + 2)
            reps = [self.reps[index] for index in chosen[part]]
            found.append(work(reps, None if own is None else own[part], *shared))
        return found

    def added(self, work: Work, *, own: Sequence[Matrix], of: Sequence[int]) -> Matrix:
        return np.asarray(sum(found for (found,) in self.by_group(work, own=own, of=of)))


def reps_of(seed: int, *, haar: bool = False, parties: int = 5) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    rows, features, order = (40, 40, 6) if haar else (60, 14, 6)
    anchor = (
        np.linalg.qr(rng.standard_normal((rows, features)))[0] if haar else rng.uniform(size=(rows, features))
    )
    bases = [rng.standard_normal((features, order)) + 5 * np.eye(features, order) for _ in range(parties)]
    return [anchor @ np.linalg.qr(basis)[0] for basis in bases]


def aligned(method: str, reps: Sequence[Matrix], **options: Any) -> Alignment:
    return align(method, reps, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("trusted", [None, [1, 2, 4]])
@pytest.mark.parametrize("is_haar", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_groups_find_the_numbers_of_a_list(method: str, is_haar: bool, trusted: list[int] | None) -> None:
    reps = reps_of(1, haar=is_haar)
    options: dict[str, Any] = {"trusted": trusted, "anchor_is_isotropic": is_haar}
    here, there = aligned(method, reps, **options), aligned(method, Groups(reps), **options)
    np.testing.assert_allclose(there.changes_of_basis, here.changes_of_basis, rtol=0, atol=1e-9)
    np.testing.assert_allclose(there.target_rep, here.target_rep, rtol=0, atol=1e-9)
    for one, other in zip(vars(here.diagnostics).values(), vars(there.diagnostics).values(), strict=True):
        # degrees: an angle near 0 is as exact as the square root of a rounding
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)
    assert there.target == here.target


@pytest.mark.parametrize("method", ["odc", "isotropic"])
def test_the_methods_of_one_pass_read_the_first_party_alone(method: str) -> None:
    groups = Groups(reps_of(2))
    aligned(method, groups)
    assert groups.read == 1


@pytest.mark.parametrize("is_haar", [False, True])
def test_groups_suspect_whom_a_list_suspects(is_haar: bool) -> None:
    reps = reps_of(3, haar=is_haar, parties=9)
    reps[3] = np.random.default_rng(9).standard_normal(reps[3].shape)
    reps[6] = reps[6][np.random.default_rng(8).permutation(len(reps[6]))]
    here = suspects(reps, anchor_is_isotropic=is_haar)
    there = suspects(Groups(reps), anchor_is_isotropic=is_haar)
    assert [(one.index, one.assumption) for one in there] == [(one.index, one.assumption) for one in here]
    assert {3, 6} >= {one.index for one in here} >= {3}


def test_an_error_names_the_same_party() -> None:
    reps = reps_of(4)
    reps[3] = np.zeros_like(reps[3])
    with pytest.raises(AnchorRepError, match="3 is zero"):
        aligned("odc", Groups(reps))
    reps[3] = reps_of(5)[0][:, :4]
    with pytest.raises(AnchorRepError, match="3 has shape"):
        aligned("odc", Groups(reps))
    haar = reps_of(6, haar=True)
    haar[2] = 2 * haar[2]
    with pytest.raises(AnchorRepError, match="2 is not orthonormal"):
        aligned("odc", Groups(haar), anchor_is_isotropic=True)


def test_numbers_that_squares_would_lose_are_aligned_as_well() -> None:
    reps = [np.ldexp(rep, -400) for rep in reps_of(7)]
    here, there = aligned("isotropic", reps), aligned("isotropic", Groups(reps))
    np.testing.assert_allclose(there.changes_of_basis, here.changes_of_basis, rtol=0, atol=1e-9)
