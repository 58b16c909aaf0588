"""Find the parties that break an assumption, from the anchor representations alone.

An honest party sends ``A_i = A F_i``: the consortium's anchor times an orthonormal basis. Three laws follow,
whatever the data are:

1. With an isotropic anchor, ``A_i.T @ A_i = I`` up to rounding.
2. With an anchor of independent entries from one distribution, the centred columns of ``A_i`` vary equally in
   every direction: John's statistic of their covariance follows a chi-square distribution, and the ratio of
   the sizes of two parties follows an F distribution.
3. A matrix that has nothing to do with the others (rows of another anchor, shuffled rows, noise) spans a
   random subspace, and the overlap of a random subspace with a given one has a known mean and variance.

The levels below are probabilities under these laws, except for `MAX_THRESHOLD_FRACTION` and
`MAX_UNDECIDED_SHARE`, which are judgements.

Law 3 finds the parties that overlap with the others no more than chance explains, while the others overlap
with each other. Such a party may still be honest, with rows unlike anybody else's: under an isotropic anchor
every orthonormal matrix is the anchor representation of some basis. The broken assumption is therefore called
"same anchor or related span".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import scipy.linalg
from scipy.special import betainc, fdtrc, gammaincc

from analyst_server.alignment._contract import AnchorReps, Matrix, orthonormality_tolerance
from analyst_server.alignment._spread import SpreadReps, joined, shapes_of

Assumption = Literal["full-rank", "orthonormal", "same-scale", "same-anchor-or-related-span"]
"""What holds for an honest party. A suspicion names the assumption that is broken."""

FALSE_ALARM_LEVEL: Final = 1e-9
"""Probability that an honest party breaks law 2: one party in a million rounds of a thousand parties."""
STRANGER_LEVEL: Final = 1e-4
"""A party is a stranger if a random span overlaps as much as it does with more than this probability."""
RELATED_LEVEL: Final = 1e-6
"""A party is related to the others if a random span overlaps as much with at most this probability."""
MAX_UNDECIDED_SHARE: Final = 0.05
"""Largest share of the parties that may lie between these two levels. With more of them there is no gap that
separates strangers from the others, and nobody is suspected."""
MAX_THRESHOLD_FRACTION: Final = 0.4
"""Upper bound of the suspicion threshold, as a fraction of the way from chance overlap to typical overlap. A
higher threshold, which an isotropic anchor of a dozen columns would need, would catch honest parties."""
MAX_REFERENCES: Final = 8
"""Largest number of parties that every party is compared with; each costs as much as one pass of `odc`."""


@dataclass(frozen=True)
class Suspicion:
    """One party, the assumption it seems to break, and the evidence.

    Attributes
    ----------
    index : int
        The party's place in the order given.
    assumption : {"full-rank", "orthonormal", "same-scale", "same-anchor-or-related-span"}
    evidence : str
        What was measured and what was expected, as a clause that begins with its verb.
    """

    index: int
    assumption: Assumption
    evidence: str


@dataclass(frozen=True)
class _Shape:
    """What laws 1 and 2 need of one anchor representation.

    Attributes
    ----------
    gram : (l_i, l_i) ndarray
        Its Gram matrix, divided by the mean eigenvalue.
    log_mean : float
        Logarithm of that eigenvalue.
    dtype : dtype
        Of the anchor representation.
    """

    gram: Matrix
    log_mean: float
    dtype: np.dtype[np.floating]

    @property
    def latent_dim(self) -> int:
        return len(self.gram)

    def singular_values(self) -> Matrix:
        values = np.linalg.eigvalsh(self.gram).clip(min=0)
        return np.asarray(np.sqrt(values * np.exp(self.log_mean)))


def suspects(
    anchor_reps: AnchorReps,
    *,
    anchor_is_isotropic: bool,
    row_counts: Sequence[int] | None = None,
    maps_are_linear: bool = True,
) -> list[Suspicion]:
    """Return the parties that break an assumption, in their order, each with the first one it breaks.

    The assumptions are checked in the order of `Assumption`.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l_i) ndarrays
        ``A_i``. Not modified; at most one at a time is copied.
    anchor_is_isotropic : bool
        Whether ``A.T @ A = I`` by construction. If not, the entries of the anchor are taken to be
        independent draws from one distribution without heavy tails, like those of a uniform or a Gaussian
        anchor. Where most parties contradict that, law 2 is not applied.
    row_counts : sequence of int, optional
        n_i. The basis of a party with fewer rows than l_i is partly arbitrary, and entirely so without
        rows: such a span is neither judged nor used to judge others. If not given, every span is judged.
    maps_are_linear : bool
        Whether every honest ``A_i`` is the anchor times an orthonormal basis. If not, laws 1 and 2 say
        nothing. Law 3 is about matrices that have nothing to do with the others, and holds for any.

    Returns
    -------
    list of Suspicion
        Laws 2 and 3 need three parties: if two disagree, nobody can say which one is wrong. Law 3 suspects
        nobody where most parties are strangers to each other, where the latent dimension makes it unfair
        (`_may_judge_span`), or where the typical overlap is too close to chance (`MAX_THRESHOLD_FRACTION`).

    Notes
    -----
    ``2 (R + 1) a l**2`` flops per party with ``R <= 8`` references, and factorisations of order l: on one
    core this takes one to three times as long as `align_isotropic`.
    """
    is_centred = not anchor_is_isotropic
    dimension = shapes_of(anchor_reps)[0][0] - is_centred
    shapes = _shapes(anchor_reps, is_centred=is_centred)
    found: dict[int, Suspicion] = {}
    _note(found, _without_full_rank(shapes, dimension))
    if maps_are_linear and anchor_is_isotropic:
        _note(found, _not_orthonormal(_remaining(shapes, found)))
    elif maps_are_linear:
        _note(found, _not_spherical(_remaining(shapes, found), dimension))
        _note(found, _out_of_scale(_remaining(shapes, found), dimension))
    judged = {
        index: shape
        for index, shape in _remaining(shapes, found).items()
        if _may_judge_span(shape.latent_dim, dimension)
        and (row_counts is None or row_counts[index] >= shape.latent_dim)
    }
    _note(found, _strangers(anchor_reps, judged, dimension))
    return [found[index] for index in sorted(found)]


def trusted_parties(
    count: int, suspicions: Iterable[Suspicion], row_counts: Sequence[int] | None = None
) -> list[int]:
    """Return the parties that may shape the target: those that have rows and are not suspected.

    If there is none, all parties that are not suspected; if every party is suspected, all parties.
    """
    suspected = {suspicion.index for suspicion in suspicions}
    clear = [index for index in range(count) if index not in suspected]
    with_rows = [index for index in clear if row_counts is None or row_counts[index]]
    return with_rows or clear or list(range(count))


def _note(found: dict[int, Suspicion], suspicions: Iterable[Suspicion]) -> None:
    found.update((suspicion.index, suspicion) for suspicion in suspicions)


def _remaining(shapes: Sequence[_Shape], found: dict[int, Suspicion]) -> dict[int, _Shape]:
    return {index: shape for index, shape in enumerate(shapes) if index not in found}


def _shapes(anchor_reps: AnchorReps, *, is_centred: bool) -> list[_Shape]:
    if not isinstance(anchor_reps, SpreadReps):
        return [_shape(rep, is_centred=is_centred) for rep in anchor_reps]
    groups = anchor_reps.by_group(partial(_shapes_of_group, is_centred=is_centred))
    found = [pair for means, *grams in groups for pair in zip(grams, means, strict=True)]
    return [
        _Shape(gram, float(mean), dtype)
        for (gram, mean), dtype in zip(found, anchor_reps.dtypes, strict=True)
    ]


def _shapes_of_group(reps: AnchorReps, _own: None, *, is_centred: bool) -> tuple[Matrix, ...]:
    found = _shapes(reps, is_centred=is_centred)
    return np.array([shape.log_mean for shape in found]), *(shape.gram for shape in found)


def _shape(rep: Matrix, *, is_centred: bool) -> _Shape:
    """Return what laws 1 and 2 need of one anchor representation, whatever its unit."""
    peak = max(float(rep.max()), -float(rep.min()))
    exponent = int(np.frexp(peak)[1]) if np.isfinite(peak) else 0
    if abs(exponent) > 20:  # otherwise squares might overflow or vanish
        rep = np.ldexp(rep, -exponent)
    else:
        exponent = 0
    if is_centred:
        rep = rep - rep.mean(axis=0)
    gram = np.asarray(rep.T @ rep, dtype=np.float64)
    mean = float(np.trace(gram)) / len(gram)
    if not (np.isfinite(mean) and mean > 0):
        return _Shape(np.zeros(gram.shape), 0.0, rep.dtype)
    return _Shape(gram / mean, float(np.log(mean)) + 2 * exponent * float(np.log(2)), rep.dtype)


def _without_full_rank(shapes: Sequence[_Shape], dimension: int) -> list[Suspicion]:
    """Suspect the parties that sent zeros, NaN or infinity, or linearly dependent columns."""
    found = []
    for index, shape in enumerate(shapes):
        eigenvalues = np.linalg.eigvalsh(shape.gram)
        rounding = dimension * float(np.finfo(shape.dtype).eps)
        rank = int(np.count_nonzero(eigenvalues > rounding * max(eigenvalues[-1], 0)))
        expected = min(shape.latent_dim, dimension)
        if rank < expected:
            found.append(Suspicion(index, "full-rank", f"has rank {rank}, not {expected}"))
    return found


def _not_orthonormal(shapes: dict[int, _Shape]) -> list[Suspicion]:
    """Suspect the parties that break law 1."""
    found = []
    for index, shape in shapes.items():
        tolerance = orthonormality_tolerance(shape.dtype)
        stretch = abs(np.expm1(shape.log_mean))
        uneven = float(np.abs(shape.gram - np.eye(shape.latent_dim)).max())
        if uneven > tolerance or stretch > tolerance:
            found.append(Suspicion(index, "orthonormal", f"has {_range(shape)}, expected all to be 1"))
    return found


def _not_spherical(shapes: dict[int, _Shape], dimension: int) -> list[Suspicion]:
    """Suspect the parties that break law 2 by their singular values.

    The statistic is that of John, Biometrika 59 (1972) 169-173. It is valid for l of the order of a as well
    (Ledoit, Wolf, Annals of Statistics 30 (2002) 1081-1102).
    """
    found = []
    for index, shape in shapes.items():
        order = shape.latent_dim
        unevenness = float(np.square(shape.gram).sum()) / order - 1
        freedom = (order - 1) * (order + 2) / 2
        if freedom and gammaincc(freedom / 2, dimension * order * unevenness / 4) < FALSE_ALARM_LEVEL:
            evidence = f"has {_range(shape)}, further apart than with an orthonormal basis"
            found.append(Suspicion(index, "orthonormal", evidence))
    return found if 2 * len(found) < len(shapes) and len(shapes) > 2 else []


def _out_of_scale(shapes: dict[int, _Shape], dimension: int) -> list[Suspicion]:
    """Suspect the parties that break law 2 by their size, a sum of ``dimension * l`` squares."""
    if len(shapes) < 3:
        return []
    usual = float(np.median([shape.log_mean for shape in shapes.values()]))
    found = []
    for index, shape in shapes.items():
        distance = shape.log_mean - usual
        freedom = dimension * shape.latent_dim
        if fdtrc(freedom, freedom, np.exp(min(abs(distance), 500.0))) < FALSE_ALARM_LEVEL:
            evidence = f"is {np.exp(distance / 2):.2g} times as large as the median party's"
            found.append(Suspicion(index, "same-scale", evidence))
    return found if 2 * len(found) < len(shapes) else []


def _range(shape: _Shape) -> str:
    values = shape.singular_values()
    return f"singular values from {values[0]:.3g} to {values[-1]:.3g}"


def _strangers(anchor_reps: AnchorReps, shapes: dict[int, _Shape], dimension: int) -> list[Suspicion]:
    """Suspect the parties that break law 3, if the others are related to each other.

    There are two passes: all parties are compared with the first few, whoever these are, and then with the
    first few that passed.
    """
    if len(shapes) < 3:
        return []
    overlaps = _Overlaps(anchor_reps, shapes, dimension)
    references = list(shapes)[:MAX_REFERENCES]
    for _ in range(2):
        overlaps.learn(references)
        found = {index: overlaps.compare(index, references) for index in shapes}
        passed = [index for index in shapes if found[index].chance() <= STRANGER_LEVEL]
        if 2 * len(passed) <= len(shapes):
            return []
        references = passed[:MAX_REFERENCES]
    related = [index for index in passed if found[index].chance() <= RELATED_LEVEL]
    if len(passed) - len(related) > MAX_UNDECIDED_SHARE * len(passed):
        return []
    usual = float(np.median([found[index].share for index in passed]))
    return [
        Suspicion(index, "same-anchor-or-related-span", found[index].describe(usual))
        for index in shapes
        if index not in passed and found[index].is_distinguishable(usual)
    ]


@dataclass(frozen=True)
class _Overlap:
    """The overlap of a party's span with the references, and its distribution for a random span.

    Attributes
    ----------
    value : float
        Mean over the references of ``||Q_i.T @ Q_j||_F ** 2``, the sum of the squared cosines of the
        principal angles.
    mean, variance, most : float
        Of that value for a random span; ``most`` is its largest possible value, the mean number of these
        angles.
    """

    value: float
    mean: float
    variance: float
    most: float

    @property
    def share(self) -> float:
        """Mean squared cosine of the principal angles."""
        return self.value / self.most

    def chance(self) -> float:
        """Return the probability that a random span overlaps at least as much."""
        return beta_tail(self.value, self.mean, self.variance, self.most)

    def is_distinguishable(self, usual: float) -> bool:
        """Return whether chance is far enough below the typical overlap to suspect this party.

        With a probability of at most `STRANGER_LEVEL` may a random span come further than
        `MAX_THRESHOLD_FRACTION` of the way to it.
        """
        limit = self.mean + MAX_THRESHOLD_FRACTION * (usual * self.most - self.mean)
        return beta_tail(limit, self.mean, self.variance, self.most) <= STRANGER_LEVEL

    def describe(self, usual: float) -> str:
        return (
            f"shares {self.share:.0%} of its span with the others, who share {usual:.0%} with each other; "
            f"chance alone would share {self.mean / self.most:.0%}"
        )


class _Overlaps:
    """Measures the overlap of pairs of spans by orthonormal bases ``Q_i``, each pair once."""

    def __init__(self, anchor_reps: AnchorReps, shapes: dict[int, _Shape], dimension: int) -> None:
        self._reps, self._shapes, self._dimension = anchor_reps, shapes, dimension
        self._factors = {index: np.linalg.cholesky(shape.gram) for index, shape in shapes.items()}
        self._known: dict[int, dict[int, float]] = {}

    def compare(self, index: int, references: Sequence[int]) -> _Overlap:
        """Return the overlap of one party with the references, leaving out the party itself."""
        others = [other for other in references if other != index]
        sizes = [self._shapes[other].latent_dim for other in others]
        squared = float(np.mean([[self._overlap(one, other) for one in others] for other in others]))
        order = self._shapes[index].latent_dim
        mean, variance = chance_moments(order, self._dimension, float(np.mean(sizes)), squared)
        value = float(np.mean([self._overlap(index, other) for other in others]))
        return _Overlap(value, mean, variance, float(np.minimum(sizes, order).mean()))

    def learn(self, references: Sequence[int]) -> None:
        """Measure the overlaps with all these references at once where the parties are spread."""
        unknown = [reference for reference in references if reference not in self._known]
        if not isinstance(self._reps, SpreadReps) or not unknown:
            return
        parties = sorted(self._shapes)
        sizes = {index: np.exp(self._shapes[index].log_mean / 2) for index in parties}
        groups = self._reps.by_group(
            _overlaps_of_group,
            *(self._basis(reference) for reference in unknown),
            own=[self._factors[index] * sizes[index] for index in parties],
            of=parties,
        )
        for reference, values in zip(unknown, joined(groups).T, strict=True):
            self._known[reference] = dict(zip(parties, map(float, values), strict=True))

    def _overlap(self, index: int, reference: int) -> float:
        if reference not in self._known:
            self._known[reference] = self._measure(reference)
        return self._known[reference][index]

    def _measure(self, reference: int) -> dict[int, float]:
        """Return the overlap of every party with one reference; only the reference has to be centred."""
        basis = self._basis(reference)
        return {
            index: float(np.square(self._whiten(index, self._reps[index].T @ basis)).sum())
            for index in self._shapes
        }

    def _basis(self, reference: int) -> Matrix:
        basis = self._reps[reference]
        if self._dimension < len(basis):
            basis = basis - basis.mean(axis=0)
        return self._whiten(reference, basis.T).T

    def _whiten(self, index: int, columns: Matrix) -> Matrix:
        size = np.exp(self._shapes[index].log_mean / 2)
        return np.asarray(
            scipy.linalg.solve_triangular(self._factors[index], columns, lower=True) / size, columns.dtype
        )


def _overlaps_of_group(reps: AnchorReps, own: Sequence[Matrix], *bases: Matrix) -> tuple[Matrix]:
    """Return the overlap of each party with each basis, (g, bases); ``own`` are the factors of the Grams."""
    found = [
        [
            float(np.square(scipy.linalg.solve_triangular(factor, rep.T @ basis, lower=True)).sum())
            for basis in bases
        ]
        for rep, factor in zip(reps, own, strict=True)
    ]
    return (np.array(found),)


def _may_judge_span(latent_dim: int, dimension: int) -> bool:
    """Return whether law 3 is fair to honest parties of this latent dimension.

    With l above half the dimension, spans differ in what they leave out: the directions in which a party's
    rows vary least, which is noise. With l = 1, two honest parties may each have another leading direction.
    """
    return 2 <= latent_dim <= dimension / 2


def chance_moments(order: int, dimension: int, trace: float, squared: float) -> tuple[float, float]:
    """Return mean and variance of ``tr(Q.T @ P @ Q)`` for orthonormal Q of a random span.

    ``trace`` is tr(P) of a fixed symmetric P, ``squared`` its ``||P||_F ** 2``: integrating the square over
    O(d) leaves ``2 / (d - 1) / (d + 2)`` times the traceless parts of ``Q @ Q.T`` and of P.
    """
    mean = order * trace / dimension
    own = order * (dimension - order) / dimension
    variance = 2 * own * (squared - trace**2 / dimension) / ((dimension - 1) * (dimension + 2))
    return mean, variance


def beta_tail(value: float, mean: float, variance: float, most: float) -> float:
    """Return the upper tail of the beta distribution on ``[0, most]`` with this mean and variance."""
    middle, spread = mean / most, variance / most**2
    weight = middle * (1 - middle) / spread - 1
    return float(betainc((1 - middle) * weight, middle * weight, 1 - min(value / most, 1.0)))
