"""How long alignment takes, compared with the machine's limit and the other methods, and how it grows.

`python -m benchmarks.alignment --json FILE`; with ``--full`` all sizes of the paper's Table II. The plots
are written next to FILE.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from analyst_server.alignment._threads import thread_count
from analyst_server.alignment.gopp import descend
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from benchmarks.plots import write_log_log
from benchmarks.report import Options, Report, main
from benchmarks.timing import slope, take_turns

Matrix = NDArray[Any]
Kind = Literal["one span", "different spans", "badly conditioned"]
Timed = Callable[[], object]


@dataclass(frozen=True)
class Size:
    """Anchor rows, latent dimension, parties."""

    a: int
    l: int  # noqa: E741 - the paper's letter
    c: int

    def __str__(self) -> str:
        return f"({self.a}, {self.l}, {self.c})"

    @property
    def gigaflops(self) -> float:
        """Flops of the cross-products of all parties, in units of 10^9."""
        return 2e-9 * self.a * self.l**2 * self.c


SIZES: Final = (Size(1000, 50, 50), Size(1000, 50, 1000), Size(20000, 50, 50), Size(1000, 300, 50))
MEMORY_SIZE: Final = Size(1000, 50, 200)

REFERENCE_BOUNDS: Final = {"float64": 1.0, "float32": 0.45}
"""Largest allowed time of `odc` divided by the reference, for parties of one span."""

BASELINE_SIZES: Final = {"c1000": (Size(1000, 50, 1000), 10.0), "a20000": (Size(20000, 50, 50), 10.0)}
"""Sizes of the claims about Imakura's method, and the least factor by which `odc` must be faster."""

SWEEP_BASE: Final[Mapping[str, int]] = {"a": 1000, "l": 50, "c": 50}

SMALL_SWEEPS: Final[Mapping[str, Sequence[int]]] = {
    "l": (50, 100, 200, 350),
    "a": (1000, 3000, 8000, 20000),
    "c": (50, 150, 400, 1000),
}
PAPER_SWEEPS: Final[Mapping[str, Sequence[int]]] = {
    "l": range(50, 951, 50),
    "a": range(1000, 20001, 1000),
    "c": range(50, 1001, 50),
}
PAPER_SLOPES: Final = {
    "l": {"imakura, as published": 1.26, "kawakami, as published": 1.75, "odc": 2.05},
    "a": {"imakura, as published": 0.79, "kawakami, as published": 0.82, "odc": 0.56},
    "c": {"imakura, as published": 0.95, "kawakami, as published": 0.92, "odc": 0.84},
}
"""arXiv:2403.02780v5, section V-A; its baselines use a randomized singular value decomposition."""

BAD_CONDITION: Final = 10**5.5
"""Typical of A_i.T @ Z with bases from MNIST rows under a uniform anchor: between 1e5 and 1e6."""


def measure(options: Options) -> Report:
    """Run all measurements and return the rows and claims."""
    report = Report("alignment", _conditions())
    _against_the_machine(report)
    _against_the_baselines(report)
    _isotropic_against_odc(report)
    _memory(report)
    _sweeps(report, PAPER_SWEEPS if options.full else SMALL_SWEEPS, options.folder)
    return report


def parties(size: Size, kind: Kind, dtype: type, seed: int = 0) -> list[Matrix]:
    """Return the A_i of parties under a Gaussian anchor.

    "badly conditioned" parties have one span, and the singular values of their A_i go from 1 down to
    ``BAD_CONDITION ** -0.5``; "different spans" are random, with half as many dimensions as A has columns.
    """
    rng = np.random.default_rng(seed)
    if kind == "different spans":
        anchor = rng.standard_normal((size.a, 2 * size.l))
        bases = (np.linalg.qr(rng.standard_normal((2 * size.l, size.l)))[0] for _ in range(size.c))
        return [(anchor @ basis).astype(dtype) for basis in bases]
    common = rng.standard_normal((size.a, size.l))  # distributed as A F, for orthonormal F
    if kind == "badly conditioned":
        common = np.linalg.qr(common)[0] * np.geomspace(1, BAD_CONDITION**-0.5, size.l)
    turns = (np.linalg.qr(rng.standard_normal((size.l, size.l)))[0] for _ in range(size.c))
    return [(common @ turn).astype(dtype) for turn in turns]


def _conditions() -> dict[str, Any]:
    return {
        "threads": thread_count(),
        "anchor": "Gaussian",
        "times": "medians of calls that take turns; ratios are medians over the turns",
        "reference": "the fastest single GEMM of the same flops on one contiguous array, whose creation "
        "is not timed, plus numpy.linalg.svd of the c cross-products; same type, same threads",
    }


def _against_the_machine(report: Report) -> None:
    """Compare `odc` with the least time that its two parts can take.

    If the product alone takes more time than a bound allows for both parts, no factorisation could satisfy
    that bound: such a size does not count for it and is listed in the conditions.
    """
    ratios: dict[str, list[float]] = {}
    out_of_reach = report.conditions.setdefault("the product alone exceeds the bound", [])
    for dtype, kind, size in _cases():
        row = _reference_row(size, kind, dtype)
        _add(report, row)
        name = f"{row['type']}, {kind}"
        if row["gemm_vs_reference"] >= REFERENCE_BOUNDS[row["type"]]:
            out_of_reach.append(f"{name} {size}: {row['gemm_vs_reference']:.2f}")
        else:
            ratios.setdefault(name, []).append(row["odc_vs_reference"])
    for claim_id, type_name in (("odc_vs_reference_f64", "float64"), ("odc_vs_reference_f32", "float32")):
        worst = max(ratios.get(f"{type_name}, one span", [np.nan]))
        report.claim(claim_id, worst, "x", "<=", REFERENCE_BOUNDS[type_name])
    others = [max(ratios[f"float64, {kind}"]) for kind in ("different spans", "badly conditioned")]
    report.claim("odc_vs_reference_f64_any_condition", max(others), "x", "<=", 1.1)


def _cases() -> Iterator[tuple[type, Kind, Size]]:
    kinds: tuple[Kind, ...] = ("one span", "different spans", "badly conditioned")
    for dtype in (np.float64, np.float32):
        for kind in kinds:
            for size in SIZES:
                yield dtype, kind, size


def _reference_row(size: Size, kind: Kind, dtype: type) -> dict[str, Any]:
    reps = parties(size, kind, dtype)
    products = np.stack([rep.T @ reps[0] for rep in reps])
    values = np.linalg.svd(products[1:], compute_uv=False)
    gemms = _gemms(reps)
    seconds = take_turns(
        {**gemms, "svd": lambda: np.linalg.svd(products), "odc": lambda: align_odc(reps)},
        rounds=15,
        budget_s=6,
    )
    fastest = min(gemms, key=lambda name: float(np.median(seconds[name])))
    reference = seconds[fastest] + seconds["svd"]
    return {
        "measured": "odc against the machine",
        "size": str(size),
        "type": np.dtype(dtype).name,
        "parties": kind,
        "condition": float(np.median(values[:, 0] / values[:, -1])),
        "odc_s": float(np.median(seconds["odc"])),
        "gemm_s": float(np.median(seconds[fastest])),
        "svd_s": float(np.median(seconds["svd"])),
        "gemm_gigaflops_per_s": size.gigaflops / float(np.median(seconds[fastest])),
        "odc_vs_reference": float(np.median(seconds["odc"] / reference)),
        "gemm_vs_reference": float(np.median(seconds[fastest] / reference)),
        "turns": len(reference),
    }


def _gemms(reps: Sequence[Matrix]) -> dict[str, Timed]:
    """Return one product of all cross-products per memory layout; the BLAS decides which is fastest."""
    target = reps[0]
    wide = np.concatenate(reps, axis=1)
    tall = np.ascontiguousarray(wide.T)
    return {
        "gemm wide.T @ Z": lambda: wide.T @ target,
        "gemm Z.T @ wide": lambda: target.T @ wide,
        "gemm tall @ Z": lambda: tall @ target,
    }


def _against_the_baselines(report: Report) -> None:
    """Compare `odc` with Imakura's method, as in the paper and in the best exact form we know."""
    for name, (size, bound) in BASELINE_SIZES.items():
        reps = parties(size, "one span", np.float64)
        seconds = take_turns(_methods(reps), rounds=3, budget_s=20)
        ratios = {method: float(np.median(values / seconds["odc"])) for method, values in seconds.items()}
        for method, values in seconds.items():
            _add(
                report,
                {
                    "measured": "methods in one run",
                    "size": str(size),
                    "type": "float64",
                    "method": method,
                    "seconds": float(np.median(values)),
                    "vs_odc": ratios[method],
                },
            )
        report.claim(f"imakura_randomized_vs_odc_{name}", ratios["imakura, as published"], "x", ">=", bound)


def _published_imakura(reps: Sequence[Matrix]) -> list[Matrix]:
    """Return the G_i by definition: a randomized SVD of ``[A_1 .. A_c]``, a pseudoinverse per party."""
    from sklearn.utils.extmath import randomized_svd

    left, _, _ = randomized_svd(np.hstack(reps), reps[0].shape[1], random_state=0)
    return [np.linalg.pinv(rep) @ left for rep in reps]


def _published_kawakami(reps: Sequence[Matrix]) -> list[Matrix]:
    """Return the G_i by definition: a QR factorisation per party, a randomized SVD of ``[Q_1 .. Q_c]``."""
    from sklearn.utils.extmath import randomized_svd

    pairs = [np.linalg.qr(rep) for rep in reps]
    order = reps[0].shape[1]
    _, _, right = randomized_svd(np.hstack([q for q, _ in pairs]), order, random_state=0)
    parts = np.split(right.T, len(reps))
    return [linalg.solve_triangular(r, part) for (_, r), part in zip(pairs, parts, strict=True)]


def _isotropic_against_odc(report: Report) -> None:
    """Compare `isotropic` with `odc`: seven products, not one, unless the parties agree at the start."""
    worst: dict[Kind, float] = {"one span": 0.0, "different spans": 0.0}
    for dtype in (np.float64, np.float32):
        for kind in worst:
            for size in SIZES:
                reps = parties(size, kind, dtype)
                functions: dict[str, Timed] = {
                    "odc": partial(align_odc, reps),
                    "isotropic": partial(align_isotropic, reps, anchor_is_isotropic=True),
                    "isotropic, centred": partial(align_isotropic, reps, anchor_is_isotropic=False),
                    "three sweeps": partial(descend, reps, reps[0], trusted=None, tolerance=0, max_sweeps=3),
                }
                seconds = take_turns(functions, rounds=9, budget_s=4)
                ratios = {name: float(np.median(value / seconds["odc"])) for name, value in seconds.items()}
                worst[kind] = max(worst[kind], ratios["isotropic"], ratios["isotropic, centred"])
                _add(
                    report,
                    {
                        "measured": "isotropic against odc",
                        "size": str(size),
                        "type": np.dtype(dtype).name,
                        "parties": kind,
                        "odc_s": float(np.median(seconds["odc"])),
                        "isotropic_vs_odc": ratios["isotropic"],
                        "centred_vs_odc": ratios["isotropic, centred"],
                        "three_sweeps_vs_odc": ratios["three sweeps"],
                    },
                )
    report.claim("isotropic_vs_odc", worst["one span"], "x", "<=", 4.0)
    report.claim("isotropic_vs_odc_different_spans", worst["different spans"], "x", "<=", 9.0)


def _methods(reps: Sequence[Matrix]) -> dict[str, Timed]:
    return {
        "odc": partial(align_odc, reps),
        "isotropic": partial(align_isotropic, reps, anchor_is_isotropic=False),
        "procrustes": partial(align_procrustes, reps),
        "imakura, exact": partial(align_imakura, reps),
        "imakura, as published": partial(_published_imakura, reps),
        "kawakami, exact": partial(align_kawakami, reps),
        "kawakami, as published": partial(_published_kawakami, reps),
    }


def _memory(report: Report) -> None:
    """Measure what each method allocates at its peak, next to the size of the A_i it is given."""
    for dtype in (np.float64, np.float32):
        size = MEMORY_SIZE
        reps = parties(size, "different spans", dtype)
        for name, function in _methods(reps).items():
            tracemalloc.start()
            function()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            _add(
                report,
                {
                    "measured": "peak memory",
                    "size": str(size),
                    "type": np.dtype(dtype).name,
                    "method": name,
                    "peak_mb": peak / 1e6,
                    "given_mb": sum(rep.nbytes for rep in reps) / 1e6,
                },
            )


def _sweeps(report: Report, sweeps: Mapping[str, Sequence[int]], folder: Path | None) -> None:
    """Repeat the paper's Figure 3: one of l, a and c grows, the others stay fixed."""
    for free, values in sweeps.items():
        lines: dict[str, list[tuple[float, float]]] = {}
        for value in values:
            size = Size(**{**SWEEP_BASE, free: value})
            functions = _methods(parties(size, "one span", np.float64))
            for method, seconds in take_turns(functions, rounds=3, budget_s=10).items():
                lines.setdefault(method, []).append((value, float(np.median(seconds))))
        for method, line in lines.items():
            row: dict[str, Any] = {"measured": f"{free} grows", "method": method}
            row["seconds"] = {f"{free}={value}": seconds for value, seconds in line}
            row["slope"] = slope([int(value) for value, _ in line], [seconds for _, seconds in line])
            row["paper_slope"] = PAPER_SLOPES[free].get(method)
            _add(report, row)
        if folder is not None:
            names = {"l": "latent dimension l", "a": "anchor rows a", "c": "parties c"}
            picture = folder / f"alignment-{free}.svg"
            write_log_log(picture, f"Seconds as {free} grows", (names[free], "seconds"), lines)


def _add(report: Report, row: dict[str, Any]) -> None:
    report.rows.append(row)
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
    print("  ".join(shown), flush=True)


if __name__ == "__main__":
    sys.exit(main(measure))
