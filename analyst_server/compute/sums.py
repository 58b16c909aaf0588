"""Add up masked sums and train on the total: what a round of sums comes to.

The counterpart of `compute.sequence`, with the same rules: arrays are read from the blobs, what is large is
left there, and nothing here knows a record, a key or the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, StoredArray, store_array
from analyst_server.compute.sequence import Run, here
from analyst_server.compute.trained import TrainedModel
from analyst_server.training import progress
from protocol.fixed_point import by_class_from_fixed_point, from_fixed_point, to_fixed_point
from protocol.labels import AnyLabel
from protocol.model_terms import QuadraticDiscriminantTerms
from protocol.sums import exponent_of, order_of
from protocol.terms import Terms

_NEARLY: Final = 1e-3
"""By so much the count of a total may differ from a whole number; a mask that is left makes any number."""
_NO_SUM: Final = (
    "the sums of all institutions add up to no sum over rows under these terms: an institution has"
    " masked for another round, or has sent something else. Which one cannot be told"
)
_FARTHEST: Final = 10
"""In standard deviations; of a billion numbers with noise none is farther off."""


@dataclass(frozen=True)
class SumsSpec:
    """Everything that the computation of a sealed round of sums depends on.

    Attributes
    ----------
    sums : tuple of StoredArray
        The masked sums of every institution.
    label : Label or NumberLabel
        As the terms have it.
    features : int
        d, how many features are summed.
    exponent : int
        Of the fixed point.
    penalty : float, optional
        As the terms have it.
    noise : float
        Standard deviation of the noise in each number of the total; 0 without noise.
    clip : float
        The features of the total are those of rows divided by it; 1 without noise.
    fewest_rows, most_rows : int
        Between which the number of all rows lies, if every institution has kept to the terms.
    folder : str
        Folder of the blobs that this computation writes.
    returns_total : bool
        Whether each institution gets the total.
    pooled_share : float, optional
        Of the quadratic discriminant; with it the sums are by class.
    """

    sums: tuple[StoredArray, ...]
    label: AnyLabel
    features: int
    exponent: int
    penalty: float | None
    noise: float
    clip: float
    fewest_rows: int
    most_rows: int
    folder: str
    returns_total: bool = False
    pooled_share: float | None = None

    @classmethod
    def of(cls, terms: Terms, sums: Sequence[StoredArray], folder: str) -> SumsSpec:
        """Return the spec of a round with these terms."""
        if terms.sums is None:
            raise ValueError("these terms ask for rows")
        parties, noise, model = len(terms.parties), terms.sums.noise, terms.model
        label = terms.table_schema.label_column
        return cls(
            tuple(sums),
            label,
            terms.latent_dim,
            exponent_of(terms.sums, terms.table_schema, parties),
            terms.sums.penalty,
            0.0 if noise is None else noise.in_total(label, parties),
            1.0 if noise is None else noise.clip,
            parties * terms.sums.min_rows,
            parties * terms.sums.max_rows,
            folder,
            terms.sums.cohort,
            model.pooled_share if isinstance(model, QuadraticDiscriminantTerms) else None,
        )


@dataclass(frozen=True)
class SumsResult:
    """What a round of sums came to: a model, and nothing that is aligned.

    Attributes
    ----------
    model : TrainedModel
    total : StoredArray, optional
        In fixed point, where each institution gets it.
    """

    model: TrainedModel
    total: StoredArray | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what the records keep of it and the report shows."""
        return self.model.as_json()


def compute_sums(
    spec: SumsSpec, blobs: Blobs, *, run: Run = here, on_added: Callable[[], None] = lambda: None
) -> SumsResult:
    """Add up the sums of all institutions and train the model on the total.

    Parameters
    ----------
    spec, blobs
        What to compute from; ``spec.folder`` is the only folder that is written to.
    run : callable
        Runs a step. Arguments and result of a step can be pickled.
    on_added : callable
        Called between the two steps.

    Raises
    ------
    ValueError
        If the total is none of rows under these terms, or the model cannot be trained on it.
    """
    total = run(total_of, spec, blobs)
    on_added()
    model = run(train_on_total, spec, blobs, total)
    if not spec.returns_total:
        return SumsResult(model)
    integers = to_fixed_point(total, spec.exponent)
    return SumsResult(model, store_array(blobs, f"{spec.folder}/total", integers))


def total_of(spec: SumsSpec, blobs: Blobs) -> NDArray[np.float64]:
    """Return the sum of ``z z^T`` over all rows of all institutions, (p, p), or by class (k, p, p).

    Raises
    ------
    ValueError
        If the masks do not cancel, or what an institution has sent is no sum over rows.
    """
    progress.begin("checking")
    added = np.zeros(spec.sums[0].shape, dtype=np.uint64)
    for stored in spec.sums:
        added += stored.open(blobs)
    if spec.pooled_share is not None:
        by_class = by_class_from_fixed_point(added, spec.label.outputs, 1 + spec.features, spec.exponent)
        if not (_is_sum(by_class.sum(axis=0), spec) and all(map(_could_be_sum, by_class))):
            raise ValueError(_NO_SUM)
        return by_class
    total = from_fixed_point(added, order_of(spec.features, spec.label), spec.exponent)
    if not (_is_noised_sum(total, spec) if spec.noise else _is_sum(total, spec)):
        raise ValueError(_NO_SUM)
    if spec.label.task == "classes":
        counts = total[0, 1 + spec.features :]
        if abs(counts.sum() - total[0, 0]) > _NEARLY * len(counts):
            raise ValueError("the sums of all institutions add up to more or fewer labels than rows")
    return total


def _is_sum(total: NDArray[np.float64], spec: SumsSpec) -> bool:
    return spec.fewest_rows <= round(total[0, 0]) <= spec.most_rows and _could_be_sum(total)


def _could_be_sum(total: NDArray[np.float64]) -> bool:
    """Return whether this could be a sum over any number of rows, or over none."""
    rows, squares = total[0, 0], np.diagonal(total)
    is_count = abs(rows - round(rows)) < _NEARLY
    inside = squares.min() >= -_NEARLY
    inside &= np.square(total[0]).max() <= rows * squares.max() * 1.001 + _NEARLY**2
    return bool(is_count and inside)


def _is_noised_sum(total: NDArray[np.float64], spec: SumsSpec) -> bool:
    """Return whether noise explains by how much each number differs from that of rows of length 1."""
    rows = total[0, 0]
    outputs = spec.label.outputs
    room = _FARTHEST * spec.noise * outputs  # the numbers of all classes are added up
    is_count = spec.fewest_rows - room <= rows <= spec.most_rows + room
    return bool(is_count and np.abs(total).max() <= max(rows, 0.0) + 2 * room)


def train_on_total(spec: SumsSpec, blobs: Blobs, total: NDArray[np.float64]) -> TrainedModel:
    """Train the model on a total, and check that its ONNX file says the same.

    Raises
    ------
    ValueError
        If a class has no row, or the ONNX file differs from the trained model.
    """
    # loaded in the compute process alone: the libraries behind training take seconds to load
    from analyst_server.compute.model_registry import naming_classes, task_of
    from analyst_server.training.discriminant import SumsDiscriminant, fit_by_class, of_all_classes
    from analyst_server.training.from_sums import SumsRidge, fit_total, probe_rows
    from analyst_server.training.judgement import ONLY_SUMS
    from analyst_server.training.onnx_file import checked_file

    progress.begin("training")
    with naming_classes(spec.label):
        if spec.pooled_share is None:
            model = SumsRidge(penalty=spec.penalty, noise=spec.noise, clip=spec.clip)
            fitted = fit_total(model, total, spec.features, task_of(spec.label))
        else:
            by_class = SumsDiscriminant(pooled_share=spec.pooled_share, penalty=spec.penalty)
            fitted = fit_by_class(by_class, total)
            total = of_all_classes(total)
    onnx_file, gap = checked_file(fitted, spec.clip * probe_rows(total, spec.features))
    return TrainedModel(
        onnx_file=store_array(blobs, f"{spec.folder}/model", np.frombuffer(onnx_file, np.uint8)),
        anchor_predictions=None,
        rows=round(total[0, 0]),
        parameters=fitted.parameters,
        converged=fitted.converged,
        parity_gap=gap,
        judgement=ONLY_SUMS.as_json(),
    )
