"""Alignment methods of other people, which their packages offer by an entry point.

Such a method is looked up when somebody names it, and nothing is loaded before. Signed terms name only the
methods of `registry`, so that an analyst that serves institutions never loads one (docs/adr/0047).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final, Protocol

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Solution

GROUP: Final = "orthonormal_data_collaboration.alignment"
"""The group of the entry points."""


class Solve(Protocol):
    """An alignment method: a function from the anchor representations to the changes of basis."""

    def __call__(self, anchor_reps: AnchorReps, *, trusted: Any = None) -> Solution:
        """Return one G_i for each party, and the target that every ``A_i @ G_i`` approximates.

        Parameters
        ----------
        anchor_reps : sequence of c (a, l) ndarrays
            ``A_i`` of each party, float32 or float64. Must not be modified. The party with the most rows is
            the first.
        trusted : sequence of int, optional
            The parties that may shape the target; None stands for all. The others are mapped onto it too.

        Returns
        -------
        Solution
            With G_i of shape (l, l), finite, in the order of the parties, and a target of shape (a, l).
        """
        ...


class InstalledMethodError(ValueError):
    """A method of another package that cannot be used; the text says why."""


def installed_names() -> list[str]:
    """Return the names of all methods that other packages offer, in order."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load_installed(name: str) -> Solve | None:
    """Return the method of another package by its name, checked at every call; None if there is none.

    Raises
    ------
    InstalledMethodError
        If two packages offer this name, or what the entry point names cannot be imported or called.
    """
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        return None
    if len({point.value for point in found}) > 1:
        offers = " and ".join(sorted(point.value for point in found))
        raise InstalledMethodError(f"{offers} both offer an alignment method {name!r}: uninstall one")
    try:
        solve = found[0].load()
    except Exception as error:  # whatever a foreign module raises when it is imported
        raise InstalledMethodError(f"the alignment method {name!r} cannot be loaded: {error}") from error
    if not callable(solve):
        raise InstalledMethodError(f"{found[0].value} is no function, so it is no alignment method")

    def checked(anchor_reps: AnchorReps, *, trusted: Any = None) -> Solution:
        solution = solve(anchor_reps, trusted=trusted)
        _check(name, solution, anchor_reps)
        return solution  # type: ignore[no-any-return]  # it was checked

    return checked


def _check(name: str, solution: Any, anchor_reps: AnchorReps) -> None:
    """Raise `InstalledMethodError` unless a solution is what `Solve` says."""
    what = f"the alignment method {name!r}"
    if not isinstance(solution, Solution):
        raise InstalledMethodError(f"{what} returns {type(solution).__name__}, expected a Solution")
    rows, dimension = anchor_reps[0].shape
    if len(solution.changes_of_basis) != len(anchor_reps):
        raise InstalledMethodError(
            f"{what} returns {len(solution.changes_of_basis)} changes of basis for {len(anchor_reps)} parties"
        )
    expected = {f"G_{index}": (dimension, dimension) for index in range(len(anchor_reps))}
    matrices = zip(expected, solution.changes_of_basis, strict=True)
    for part, matrix in [*matrices, ("the target", solution.target)]:
        shape, wanted = np.shape(matrix), expected.get(part, (rows, dimension))
        if shape != wanted:
            raise InstalledMethodError(f"{what}: {part} has shape {shape}, expected {wanted}")
        if not np.isfinite(matrix).all():
            raise InstalledMethodError(f"{what}: {part} has entries that are not finite")
