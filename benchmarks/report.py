"""What all benchmarks share: arguments, rows, claims, and the file they are written to."""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

Op = Literal["<=", ">=", "=="]
OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
}
NOTHING_CLAIMED: Final = 3
"""Exit code of a benchmark that made no claim: that all of none hold says nothing."""
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "cryptography", "onnxruntime")


@dataclass(frozen=True)
class Figure:
    """A figure we publish; without a bound where none would say that anything is good enough.

    ``value`` is measured, never set.
    """

    id: str
    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.id}: {self.value:.4g} {self.unit} (published without a bound)"


@dataclass(frozen=True)
class Claim(Figure):
    """A figure with the bound it must satisfy."""

    op: Op
    bound: float

    @property
    def holds(self) -> bool:
        """Return whether the value satisfies the bound; False if the value is NaN."""
        return OPERATORS[self.op](self.value, self.bound)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{self.id}: {self.value:.4g} {self.unit} ({self.op} {self.bound:g}) {verdict}"


@dataclass
class Report:
    """What one benchmark measured."""

    benchmark: str
    conditions: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return 0 if all claims hold, 1 if one does not, `NOTHING_CLAIMED` if there is none."""
        if not self.claims:
            return NOTHING_CLAIMED
        return 0 if all(claim.holds for claim in self.claims) else 1

    def claim(self, claim_id: str, value: float, unit: str, op: Op, bound: float) -> Claim:
        """Add a claim and return it."""
        self._refuse_twice(claim_id)
        self.claims.append(Claim(claim_id, float(value), unit, op, float(bound)))
        return self.claims[-1]

    def figure(self, figure_id: str, value: float, unit: str) -> Figure:
        """Add a figure without a bound and return it."""
        self._refuse_twice(figure_id)
        self.figures.append(Figure(figure_id, float(value), unit))
        return self.figures[-1]

    def _refuse_twice(self, name: str) -> None:
        if any(one.id == name for one in [*self.claims, *self.figures]):
            raise ValueError(f"claim {name!r} is made twice")

    def as_dict(self) -> dict[str, Any]:
        """Return the document that ``--json`` writes (docs/benchmarks.md)."""
        return {
            "benchmark": self.benchmark,
            "machine": machine(),
            "conditions": self.conditions,
            "rows": self.rows,
            "claims": [
                {
                    "id": claim.id,
                    "value": claim.value,
                    "unit": claim.unit,
                    "op": claim.op,
                    "bound": claim.bound,
                    "holds": claim.holds,
                }
                for claim in self.claims
            ],
            "figures": [vars(figure) for figure in self.figures],
        }


@dataclass(frozen=True)
class Options:
    """The options on a benchmark's command line.

    Attributes
    ----------
    full : bool
        Use the papers' sizes, which take hours instead of minutes.
    data : Path or None
        Directory with the real data sets, as described in docs/benchmarks.md.
    folder : Path or None
        Directory of ``--json FILE``, for plots next to it.
    """

    full: bool
    data: Path | None
    folder: Path | None = None


def machine() -> dict[str, Any]:
    """Return the properties of the machine that a reader needs to judge a ratio."""
    libraries = {}
    for name in _LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": libraries,
    }


def main(measure: Callable[[Options], Report], arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark as a command: print its claims, write ``--json FILE``, return the exit code."""
    parser = argparse.ArgumentParser(description=(sys.modules[measure.__module__].__doc__ or "").strip())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and claims there")
    parser.add_argument("--full", action="store_true", help="the papers' sizes: hours instead of minutes")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the real data sets (docs/benchmarks.md)")
    given = parser.parse_args(arguments)
    if given.data is not None and not given.data.is_dir():
        parser.error(f"{given.data} is not a directory")
    report = measure(Options(given.full, given.data, given.json.parent if given.json else None))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report.as_dict(), indent=2, allow_nan=False) + "\n")
    for published in [*report.claims, *report.figures]:
        print(published)
    if not report.claims:
        print(f"{report.benchmark}: no claim was made")
    return report.exit_code


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
