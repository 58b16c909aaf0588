"""What a round takes, before it runs: seconds of one core and memory, from counted work and constants.

The constants were measured on the machine of the benchmarks: `python -m benchmarks.predicted --calibrate`
plays some sizes for them, and without it holds what they predict to others. On another machine each term
takes longer by the ratio of a small measurement of the same kind of work (`services.probing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from analyst_server.services import work
from analyst_server.services.planning import Scenario
from analyst_server.services.work import Model, Probes, Size, Term
from protocol.model_terms import AveragedTerms

LINE_BITS_PER_S: Final = 10**8
"""Of the line that an institution sends an uplink on, for the time that this takes."""
MEMORY_OF: Final = {step: f"memory of {step}" for step in ("prepare", "align", "train")}
"""The laws of memory, by the step whose process has it."""
BENCHMARKED: Final = Probes(product=7.69e10, hash=1.97e9, copy=4.47e10, interpreter=3.09e7)
"""How fast the machine is that the constants are of."""
CONSTANTS: Final[Mapping[str, Mapping[str, float]]] = {
    "prepare": {  # fitted on another machine, by the ratios of its small measurements
        "start": 0.499,
        "rows": 0.0,
        "fields": 3.94e-07,
        "products": 6.15e-11,
        "own linear model": 4.7e-07,
        "batches": 0.000217,
        "activations": 0.0,
        "network": 6.48e-12,
    },
    "send": {"start": 0.496, "bytes": 1.84e-09},
    "memory of prepare": {
        "start": 137,
        "rows": 16.5,
        "measured rows": 6.72,
        "own model": 0.0,
        "squares": 2.41,
    },
    "align": {
        "start": 0.00153,
        "parties": 0.000493,
        "numbers": 1.35e-08,
        "squares": 3.34e-07,
        "products": 1.25e-11,
        "factors": 4.7e-12,
        "bytes": 6.91e-10,
    },
    "train": {
        "start": 0.0097,
        "parties": 0.000126,
        "rows": 8.07e-08,
        "numbers": 5.84e-08,
        "bytes": 4.83e-10,
        "batches": 0.000401,
        "activations": 0.0,
        "network": 2.4e-11,
    },
    "memory of align": {"start": 299, "anchor": 1.36},
    "memory of train": {"start": 319, "training rows": 3.79, "labels and order": 57.4},
    "take": {"uplink": 0.0223, "bytes": 3.13e-09},
}
"""Of each law: what one unit of each of its terms takes, in seconds there, or in MiB anywhere. One of zero
could not be told from the others by the sizes that were played."""


@dataclass(frozen=True)
class Phase:
    """A phase of a round, and what one who goes through it takes."""

    name: str
    who: str
    flops: float | None
    """Of products and factorisations, counted; None where none are."""
    seconds: float | None
    """Of one core; None without a law."""


@dataclass(frozen=True)
class Peak:
    """The largest memory that a process has, in MiB; None without a law."""

    process: str
    mebibytes: float | None


@dataclass(frozen=True)
class Prediction:
    """What a planned round would take.

    Attributes
    ----------
    rests_on : str
        Which machine the seconds are of, in words.
    model : str or None
        The kind of model that is trained; None for one without a law.
    probes : Probes
        How fast that machine is.
    phases, peaks : tuple
    line_seconds : float
        That an uplink takes on a line of 100 Mbit/s.
    """

    rests_on: str
    model: str | None
    probes: Probes
    phases: tuple[Phase, ...]
    peaks: tuple[Peak, ...]
    line_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the prediction as ``--json`` shows it."""
        return asdict(self)


def predict(
    scenario: Scenario,
    *,
    model: Model | None,
    is_isotropic: bool = True,
    probes: Probes | None = None,
) -> Prediction:
    """Predict a round.

    Parameters
    ----------
    scenario : Scenario
    model : AveragedTerms or LogisticTerms, optional
        None for any other: what depends on it is not predicted.
    is_isotropic : bool
        Whether the alignment is by `isotropic`; no other has a law.
    probes : Probes, optional
        Of the machine that the seconds are for; that of the benchmarks if not given.
    """
    size = Size.of(scenario)
    ratios = None if probes is None else slower(probes)

    def seconds(phase: str, terms: Sequence[Term]) -> float:
        return total(CONSTANTS[phase], terms, ratios)

    return Prediction(
        rests_on="constants of the benchmarks' machine"
        if probes is None
        else "this machine, as measured now",
        model=None if model is None else model.kind,
        probes=probes or BENCHMARKED,
        phases=(
            Phase(
                "prepare",
                "each institution",
                work.prepare_products(size),
                None if model is None else seconds("prepare", work.prepare_terms(size, model)),
            ),
            Phase("send", "each institution", None, seconds("send", work.send_terms(size))),
            Phase("take", "the server, each uplink", None, seconds("take", work.take_terms(size))),
            Phase(
                "align",
                "the analyst",
                work.align_products(size) + work.align_factors(size) if is_isotropic else None,
                seconds("align", work.align_terms(size)) if is_isotropic else None,
            ),
            Phase(
                "train",
                "the analyst",
                work.train_products(size, model) if isinstance(model, AveragedTerms) else None,
                None if model is None else seconds("train", work.train_terms(size, model)),
            ),
        ),
        peaks=(
            Peak("odc prepare", total(CONSTANTS[MEMORY_OF["prepare"]], work.prepare_memory(size), None)),
            Peak("the analyst's compute process", None if model is None else compute_memory(size, model)),
        ),
        line_seconds=8 * size.uplink_bytes / LINE_BITS_PER_S,
    )


def slower(probes: Probes, than: Probes = BENCHMARKED) -> dict[str, float]:
    """Return for each kind of work how many times as long as on another machine it takes on one."""
    theirs, ours = asdict(than), asdict(probes)
    return {kind: theirs[kind] / ours[kind] for kind in theirs}


def total(constants: Mapping[str, float], terms: Sequence[Term], ratios: Mapping[str, float] | None) -> float:
    """Return the sum of the terms, each by its constant and the ratio of its kind."""
    return sum(
        constants[term.name] * term.count * (1.0 if ratios is None else ratios[term.kind]) for term in terms
    )


def compute_memory(size: Size, model: Model) -> float:
    """Return the largest memory of a compute process: of its steps, each of which gives back what it had."""
    return max(
        total(CONSTANTS[MEMORY_OF["align"]], work.align_memory(size), None),
        total(CONSTANTS[MEMORY_OF["train"]], work.train_memory(size, model), None),
    )
