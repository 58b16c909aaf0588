"""All alignment methods by their names in the terms, and `align`, which runs one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution, orthonormality_tolerance
from analyst_server.alignment._orthogonal import cross_products, haar_orthogonal, orthogonal_factor
from analyst_server.alignment._spectral import fit_by_least_squares
from analyst_server.alignment._spread import SpreadReps, common_dtype, joined, shapes_of
from analyst_server.alignment.diagnostics import Diagnostics, diagnose
from analyst_server.alignment.gopp import align_gopp
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.installed import load_installed
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from analyst_server.alignment.rdp import align_rdp, fit_by_rdp


@dataclass(frozen=True)
class Method:
    """One method and its properties.

    Attributes
    ----------
    solve : callable
        Takes the anchor representations and ``trusted``, returns a `Solution`.
    is_orthogonal : bool
        Every G_i is orthogonal and keeps lengths, so the bases have to be orthonormal.
    is_least_squares : bool
        G_i is ``A_i^+ Z`` for a ``Z`` of unit size: it undoes the scale of ``A_i``, the l_i may differ from
        each other and from l, and any invertible right factor is as good as another.
    options : tuple of str
        Further arguments of `align` that ``solve`` takes, by name.
    fit : callable, optional
        Returns the G of one more party from its anchor representation, the target and the number of trusted
        parties, where the method is neither orthogonal nor one of least squares.
    works_by_group : bool
        It takes anchor representations that are spread; any other method reads all of them.
    """

    solve: Callable[..., Solution]
    is_orthogonal: bool = False
    is_least_squares: bool = False
    options: tuple[str, ...] = ()
    fit: Callable[[Matrix, Matrix, int], Matrix] | None = None
    works_by_group: bool = False


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "odc": Method(align_odc, is_orthogonal=True, works_by_group=True),
        "isotropic": Method(
            align_isotropic, is_orthogonal=True, options=("anchor_is_isotropic",), works_by_group=True
        ),
        "imakura": Method(align_imakura, is_least_squares=True, options=("latent_dim", "rounding")),
        "kawakami": Method(align_kawakami, is_least_squares=True, options=("latent_dim", "rounding")),
        "procrustes": Method(align_procrustes, is_orthogonal=True, works_by_group=True),
        "gopp": Method(align_gopp, is_orthogonal=True, works_by_group=True),
        "rdp": Method(align_rdp, fit=fit_by_rdp),
    }
)
TARGETS: Final[Mapping[str, Callable[[int, np.random.Generator], Matrix] | None]] = MappingProxyType(
    {
        "identity": None,
        "haar": haar_orthogonal,
        # the random R of arXiv:2403.02780v5, Table III; only where `Method.is_least_squares`
        "invertible": lambda order, rng: rng.random((order, order)),
    }
)


class AnchorRepError(ValueError):
    """The anchor representation of one party cannot be aligned."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"anchor representation {index} {reason}")
        self.index, self.reason = index, reason


@dataclass(frozen=True)
class Alignment:
    """The result of an alignment.

    Attributes
    ----------
    changes_of_basis : list of (l_i, l) ndarrays
        G_i in the order of the parties.
    target : str
        The common target of the parties, in words.
    target_rep : (a, l) ndarray
        That target, Z: what every ``A_i @ G_i`` approximates.
    seconds : float
        Time the method took, without the diagnostics.
    diagnostics : Diagnostics
        How well the parties agree.
    """

    changes_of_basis: list[Matrix]
    target: str
    target_rep: Matrix
    seconds: float
    diagnostics: Diagnostics


def align(
    method: str,
    anchor_reps: AnchorReps,
    *,
    target: str = "identity",
    trusted: Sequence[int] | None = None,
    anchor_is_isotropic: bool = False,
    latent_dim: int | None = None,
    rounding: float = 0.0,
    rng: np.random.Generator,
) -> Alignment:
    """Align all parties by the named method.

    Parameters
    ----------
    method : str
        One of `METHODS`, or one that is `installed`.
    anchor_reps : sequence of c (a, l_i) ndarrays
        At least one; finite and not zero. The l_i are equal, unless the method is one of least squares.
    target : {"identity", "haar", "invertible"}
        The right factor ``O`` or ``R`` of the target; "haar" and "invertible" are drawn from ``rng``. It
        transforms all aligned representations in the same way. "invertible" stretches some directions
        against others and is allowed for methods of least squares alone.
    trusted : sequence of int, optional
        The parties that shape the target; all of them if not given.
    anchor_is_isotropic : bool
        Whether ``A.T @ A`` is a multiple of the identity by construction.
    latent_dim : int, optional
        l of the common representation, for a method of least squares; the smallest l_i if not given.
    rounding : float
        How far the entries were rounded for the wire, relative to the largest of their column.
    rng : numpy.random.Generator
        Repeatable randomness; its seed is in the terms.

    Raises
    ------
    ValueError
        If a name is unknown, the method does not allow the target, or there is no (trusted) party.
    AnchorRepError
        If a party's anchor representation has the wrong shape, is zero or not finite, or is so much larger
        or smaller than the others that rounding would hide one or the other. Also if that of a trusted
        party is not orthonormal, although an orthonormal basis and an isotropic anchor would make it so.
    """
    chosen = _look_up(method, target)
    if not anchor_reps or (trusted is not None and not len(trusted)):
        raise ValueError("alignment needs at least one party")
    _check_shapes(anchor_reps, may_differ=chosen.is_least_squares)
    exponent = _common_exponent(anchor_reps)
    if anchor_is_isotropic and chosen.is_orthogonal:
        _check_orthonormal(anchor_reps, range(len(anchor_reps)) if trusted is None else trusted)
    reps = [np.ldexp(rep, -exponent) for rep in anchor_reps] if exponent else anchor_reps
    known = {"anchor_is_isotropic": anchor_is_isotropic, "latent_dim": latent_dim, "rounding": rounding}
    start = time.perf_counter()
    given = list(reps) if isinstance(reps, SpreadReps) and not chosen.works_by_group else reps
    solution = chosen.solve(given, trusted=trusted, **{name: known[name] for name in chosen.options})
    changes, words, goal = solution.changes_of_basis, solution.description, solution.target
    if draw := TARGETS[target]:
        factor = draw(changes[0].shape[1], rng)
        changes, words = [change @ factor for change in changes], f"{words} times {target}"
        goal = goal @ factor
    seconds = time.perf_counter() - start
    diagnostics = diagnose(reps, changes, trusted)
    if chosen.is_least_squares:
        changes = [np.ldexp(change, -exponent) for change in changes] if exponent else changes
    else:
        goal = np.ldexp(goal, exponent) if exponent else goal
    return Alignment(changes, words, goal, seconds, diagnostics)


def align_to(method: str, anchor_rep: Matrix, target_rep: Matrix, *, parties: int) -> Matrix:
    """Return the change-of-basis matrix of one more party, for the target of an earlier alignment.

    It is the one that this party would have got there without being trusted, up to rounding; with "rdp" as
    far as its descent goes. No other party's matrix changes.

    Parameters
    ----------
    method : str
        The one of `METHODS` that the others were aligned by.
    anchor_rep : (a, l_i) ndarray
        ``A_i`` of the party; finite and not zero. Not modified. l_i may differ from l as for `align`.
    target_rep : (a, l) ndarray
        `Alignment.target_rep` of the others.
    parties : int
        How many of them were trusted.

    Raises
    ------
    ValueError
        If the method cannot fit one more party.
    AnchorRepError
        If the anchor representation has another shape than the target, is zero or not finite.
    """
    chosen = METHODS[method]
    of_other_width = anchor_rep.shape[1:] != target_rep.shape[1:] and not chosen.is_least_squares
    if len(anchor_rep) != len(target_rep) or of_other_width:
        raise AnchorRepError(0, f"has shape {anchor_rep.shape}, expected {target_rep.shape}")
    exponent = _common_exponent([anchor_rep])
    rep = np.ldexp(anchor_rep, -exponent)
    if chosen.is_least_squares:
        return np.asarray(np.ldexp(fit_by_least_squares(rep, target_rep), -exponent))
    goal = np.ldexp(target_rep, -exponent)
    if chosen.is_orthogonal:
        return np.asarray(orthogonal_factor(cross_products([rep], goal))[0])
    if chosen.fit is None:
        raise ValueError(f"{method!r} cannot align one more party")
    return chosen.fit(rep, goal, parties)


def _look_up(method: str, target: str) -> Method:
    chosen = METHODS.get(method)
    if chosen is None and (solve := load_installed(method)) is not None:
        chosen = Method(solve)
    if chosen is None or target not in TARGETS:
        raise ValueError(f"unknown alignment {method!r} with target {target!r}")
    if target == "invertible" and not chosen.is_least_squares:
        raise ValueError(f"an invertible target would undo the lengths that {method!r} keeps")
    return chosen


def _check_shapes(anchor_reps: AnchorReps, *, may_differ: bool) -> None:
    expected, *_ = shapes = shapes_of(anchor_reps)
    for index, shape in enumerate(shapes):
        if len(shape) != 2 or 0 in shape:
            raise AnchorRepError(index, f"has shape {shape}, expected a matrix")
        if shape[0] != expected[0] or not (may_differ or shape == expected):
            raise AnchorRepError(index, f"has shape {shape}, expected {expected}")
        if shape[0] < shape[1]:
            raise AnchorRepError(index, f"has {shape[0]} rows, too few for {shape[1]} dimensions")


def _common_exponent(anchor_reps: AnchorReps) -> int:
    """Return the power of two to divide by lest squares overflow or vanish; 0 if none is needed."""
    peaks = _peaks(anchor_reps)
    for index, peak in enumerate(peaks):
        if not (np.isfinite(peak) and peak > 0):
            raise AnchorRepError(index, "is zero or not finite")
    usual = sorted(peaks)[(len(peaks) - 1) // 2]
    precision = np.finfo(common_dtype(anchor_reps))
    for index, peak in enumerate(peaks):
        if not precision.eps < peak / usual < 1 / precision.eps:
            # rounding would hide the smaller ones entirely
            raise AnchorRepError(index, f"is {peak / usual:.0e} times as large as the others")
    exponent = int(np.frexp(usual)[1])
    return exponent if abs(exponent) > -precision.minexp // 4 else 0


def _peaks(anchor_reps: AnchorReps) -> list[float]:
    if isinstance(anchor_reps, SpreadReps):
        return [float(peak) for peak in joined(anchor_reps.by_group(_peaks_of_group))]
    # unlike abs, max and min need no temporary array of the same size
    return [max(float(rep.max()), -float(rep.min())) for rep in anchor_reps]


def _peaks_of_group(reps: AnchorReps, _own: None) -> tuple[Matrix]:
    return (np.array(_peaks(reps)),)


def _are_orthonormal(reps: AnchorReps, _own: None) -> tuple[NDArray[np.bool_]]:
    return (np.array([_is_orthonormal(rep) for rep in reps]),)


def _check_orthonormal(anchor_reps: AnchorReps, trusted: Sequence[int]) -> None:
    if isinstance(anchor_reps, SpreadReps):
        good = joined(anchor_reps.by_group(_are_orthonormal, of=trusted)).tolist()
    else:
        good = (_is_orthonormal(anchor_reps[index]) for index in trusted)
    for index, is_good in zip(trusted, good, strict=True):
        if not is_good:
            raise AnchorRepError(index, "is not orthonormal, so its basis or its anchor is wrong")


def _is_orthonormal(rep: Matrix) -> bool:
    """Return whether ``A_i.T @ A_i = I`` up to the rounding of the type that came over the wire."""
    gram = rep.T @ rep
    return bool(np.abs(gram - np.eye(rep.shape[1])).max() <= orthonormality_tolerance(rep.dtype))
