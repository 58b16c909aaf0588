"""The constants of the laws: least squares over played points, none of them negative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from analyst_server.services.predicting import BENCHMARKED, slower, total
from analyst_server.services.work import Probes, Term


@dataclass(frozen=True)
class Point:
    """One quantity at one size: what was counted, what was measured, and how fast the machine was then."""

    law: str
    """Such as ``prepare``: points of one law share their constants."""
    at: str
    """The size, in words."""
    terms: Sequence[Term]
    measured: float
    probes: Probes | None = None
    """None for memory, which does not depend on how fast a machine is."""

    def ratios(self, base: Probes) -> dict[str, float] | None:
        """Return how many times as long as on the machine of ``base`` each kind of work took."""
        return None if self.probes is None else slower(self.probes, base)


def fitted(points: Sequence[Point], base: Probes) -> dict[str, float]:
    """Return the constant of each term for the machine of ``base``; deviations count relative to the point.

    Terms that the points do not tell apart may have a constant of zero.
    """
    names = list(dict.fromkeys(term.name for point in points for term in point.terms))
    counted = np.array(
        [[_count(point, name, base) / point.measured for name in names] for point in points], dtype=np.float64
    )
    unit = np.abs(counted).max(axis=0)
    unit[unit == 0] = 1
    found, _ = nnls(counted / unit, np.ones(len(points)))
    return dict(zip(names, (found / unit).tolist(), strict=True))


def deviation(point: Point, constants: Mapping[str, float], base: Probes = BENCHMARKED) -> float:
    """Return what is predicted for a point, less what was measured, as a share of that."""
    return total(constants, point.terms, point.ratios(base)) / point.measured - 1


def _count(point: Point, name: str, base: Probes) -> float:
    ratios = point.ratios(base)
    return sum(
        term.count * (1.0 if ratios is None else ratios[term.kind])
        for term in point.terms
        if term.name == name
    )
