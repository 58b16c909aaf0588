"""What a label is to a model: classes, a number, survival or several labels. How it is fitted and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.calibration import Calibration, calibration_table
from analyst_server.training.party_scores import (
    ENOUGH_OF_CLASSES,
    ENOUGH_OF_NUMBERS,
    ENOUGH_OF_SEVERAL,
    ENOUGH_OF_SURVIVAL,
    PartyScore,
    score_classes,
    score_numbers,
    score_several,
    score_survival,
)

if TYPE_CHECKING:
    from analyst_server.training.models import Model

Matrix = NDArray[np.floating]
AnyLabels = NDArray[Any]
Estimator = Any  # of scikit-learn, which ships no types


class MissingClassError(ValueError):
    """No row of a class came; ``number`` counts the classes of the terms from 0."""

    def __init__(self, number: int) -> None:
        super().__init__(f"training needs rows of every class; none of class number {number} came")
        self.number = number

    def __reduce__(self) -> tuple[type[MissingClassError], tuple[int]]:
        return type(self), (self.number,)  # across processes: the text is no argument


class Task(ABC):
    """A kind of label.

    Attributes
    ----------
    output : str
        Name of the output of the ONNX file that has the predictions.
    enough : str
        How many rows a party needs to be scored, in words.
    decisive : str
        Name of the score that decides between models, and whether a headline can be trusted.
    width : int
        How many numbers a model predicts for a row.
    """

    output: ClassVar[str]
    enough: ClassVar[str]
    decisive: ClassVar[str]
    width: int

    @abstractmethod
    def check(self, model: Model, labels: AnyLabels) -> None:
        """Raise `ValueError` if these are not enough rows for the model."""

    @abstractmethod
    def fitted(self, model: Model, rows: Matrix, labels: AnyLabels) -> tuple[Estimator, ...]:
        """Return the estimator of a model, fitted on scaled rows; of several labels one for each."""

    @abstractmethod
    def predictions(self, pipelines: Sequence[Estimator], rows: Matrix) -> Matrix:
        """Return what as many fitted pipelines predict, (n, width)."""

    @abstractmethod
    def strata(self, labels: AnyLabels) -> NDArray[np.integer]:
        """Return the number of the group of each row, of which every held-out part gets its share."""

    @abstractmethod
    def score(self, labels: AnyLabels, predictions: Matrix) -> PartyScore | None:
        """Return the scores of one party's held-out rows, or None if they are too few."""

    def calibration(self, labels: AnyLabels, predictions: Matrix) -> Calibration | None:  # noqa: ARG002  # of classes
        """Return the calibration table of held-out rows, or None if they are too few or have none."""
        return None

    def scale(self, labels: AnyLabels) -> tuple[float, float]:  # noqa: ARG002  # classes have none
        """Return the shift and the scale that a model is fitted under: 0 and 1 for labels that have none."""
        return 0.0, 1.0


@dataclass(frozen=True)
class Classes(Task):
    """One of so many classes; the predictions are their probabilities."""

    output: ClassVar[str] = "probabilities"
    enough: ClassVar[str] = ENOUGH_OF_CLASSES
    decisive: ClassVar[str] = "roc_auc"

    width: int

    def check(self, model: Model, labels: AnyLabels) -> None:
        model.check(labels, self.width)

    def fitted(self, model: Model, rows: Matrix, labels: AnyLabels) -> tuple[Estimator, ...]:
        return (model.fitted(rows, labels, self.width),)

    def predictions(self, pipelines: Sequence[Estimator], rows: Matrix) -> Matrix:
        (pipeline,) = pipelines
        return np.asarray(pipeline.predict_proba(rows))

    def strata(self, labels: AnyLabels) -> NDArray[np.integer]:
        return labels

    def score(self, labels: AnyLabels, predictions: Matrix) -> PartyScore | None:
        return score_classes(labels, predictions)

    def calibration(self, labels: AnyLabels, predictions: Matrix) -> Calibration | None:
        return calibration_table(labels, predictions)


@dataclass(frozen=True)
class Numbers(Task):
    """A number from -1 to 1, as on the wire.

    Models are fitted on numbers of mean 0 and variance 1, because how far they are penalised, and when a
    network stops, should not depend on the range that the terms give the column.

    Attributes
    ----------
    unit : float
        What 1 on the wire is in the column; errors are told in its unit.
    """

    output: ClassVar[str] = "value"
    enough: ClassVar[str] = ENOUGH_OF_NUMBERS
    decisive: ClassVar[str] = "r2"

    unit: float = 1.0
    width: int = 1

    def check(self, model: Model, labels: AnyLabels) -> None:  # noqa: ARG002  # no model needs more
        if len(np.unique(labels)) < 2:
            raise ValueError("training needs rows with different labels")

    def fitted(self, model: Model, rows: Matrix, labels: AnyLabels) -> tuple[Estimator, ...]:
        shift, scale = self.scale(labels)
        return (model.fitted_on_numbers(rows, (labels - shift) / scale),)

    def scale(self, labels: AnyLabels) -> tuple[float, float]:
        wide = np.asarray(labels, np.float64)
        return float(wide.mean()), float(wide.std())

    def predictions(self, pipelines: Sequence[Estimator], rows: Matrix) -> Matrix:
        (pipeline,) = pipelines
        return np.asarray(pipeline.predict(rows)).reshape(-1, 1)

    def strata(self, labels: AnyLabels) -> NDArray[np.integer]:
        return np.zeros(len(labels), np.int64)

    def score(self, labels: AnyLabels, predictions: Matrix) -> PartyScore | None:
        return score_numbers(np.asarray(labels, np.float64), predictions[:, 0].astype(np.float64), self.unit)


@dataclass(frozen=True)
class Survival(Task):
    """A time on the wire, negative without the event; predicted is the probability of a later event.

    Attributes
    ----------
    times : tuple of float
        On the wire: after which the event comes with these probabilities.
    """

    output: ClassVar[str] = "survival"
    enough: ClassVar[str] = ENOUGH_OF_SURVIVAL
    decisive: ClassVar[str] = "c_index"

    times: tuple[float, ...]

    @property
    def width(self) -> int:  # type: ignore[override]  # it follows from the times
        return len(self.times)

    def check(self, model: Model, labels: AnyLabels) -> None:  # noqa: ARG002  # no model needs more
        if not (labels > 0).any():
            raise ValueError("training needs rows with the event; none came")

    def fitted(self, model: Model, rows: Matrix, labels: AnyLabels) -> tuple[Estimator, ...]:
        return (model.fitted_on_survival(rows, labels, self.times),)

    def predictions(self, pipelines: Sequence[Estimator], rows: Matrix) -> Matrix:
        (pipeline,) = pipelines
        return np.asarray(pipeline.predict(rows))

    def strata(self, labels: AnyLabels) -> NDArray[np.integer]:
        return np.asarray(labels > 0, np.int64)

    def score(self, labels: AnyLabels, predictions: Matrix) -> PartyScore | None:
        return score_survival(np.asarray(labels, np.float64), predictions.astype(np.float64), self.times)


@dataclass(frozen=True)
class Several(Task):
    """Several labels, bit by bit as on the wire; the predictions are the probabilities of each.

    Each label has a model of two classes by itself, so that every kind of model can predict several.

    Attributes
    ----------
    names : tuple of str
        Of the labels, the lowest bit first.
    """

    output: ClassVar[str] = "probabilities"
    enough: ClassVar[str] = ENOUGH_OF_SEVERAL
    decisive: ClassVar[str] = "roc_auc"

    names: tuple[str, ...]

    @property
    def width(self) -> int:  # type: ignore[override]  # it follows from the names
        return len(self.names)

    def one_by_one(self, labels: AnyLabels) -> Iterator[NDArray[np.int64]]:
        """Yield for each label whether each row has it, (n,), as 0 or 1: of many rows one label at a time."""
        return ((labels >> number & 1).astype(np.int64) for number in range(self.width))

    def check(self, model: Model, labels: AnyLabels) -> None:
        needed = max(1, model.rows_per_class)
        for name, having in zip(self.names, self.one_by_one(labels), strict=True):
            count = int(having.sum())
            if min(count, len(having) - count) < needed:
                # every member reads it: with two who send rows, a number would tell each what the other has
                raise ValueError(
                    f"this model needs rows with the label {name} and without it, {needed} of either;"
                    " there are fewer"
                )

    def fitted(self, model: Model, rows: Matrix, labels: AnyLabels) -> tuple[Estimator, ...]:
        return tuple(model.fitted(rows, having, 2) for having in self.one_by_one(labels))

    def predictions(self, pipelines: Sequence[Estimator], rows: Matrix) -> Matrix:
        return np.column_stack([pipeline.predict_proba(rows)[:, 1] for pipeline in pipelines])

    def strata(self, labels: AnyLabels) -> NDArray[np.integer]:
        return np.asarray(labels > 0, np.int64)

    def score(self, labels: AnyLabels, predictions: Matrix) -> PartyScore | None:
        having = np.column_stack([has.astype(np.uint8) for has in self.one_by_one(labels)])
        return score_several(having, predictions.astype(np.float64), self.names)
