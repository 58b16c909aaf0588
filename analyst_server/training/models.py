"""What a model h is, and how it is fitted on the aligned representations.

Most models begin with one shift and one scale that are the same for all latent directions, so that
a fit does not depend on which orthogonal target the alignment chose, nor on the units of the table.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from analyst_server.training.tasks import AnyLabels, Classes, Estimator, Matrix, MissingClassError, Task

if TYPE_CHECKING:
    from analyst_server.training.choosing import Choice

Labels = NDArray[np.integer]
Senders = NDArray[np.integer]
Classifier = Estimator


@dataclass(frozen=True)
class Trainable(ABC):
    """What terms ask to have trained: a model, or one of several that the rows choose.

    Attributes
    ----------
    seed : int
        Of everything that is drawn at random, and of the parts of the rows that `judging.judge` holds out.
    needs_principal_axes : bool
        Whether it depends on the axes of the representation, so that these have to be principal ones.
    may_be_judged : bool
        Whether members may see scores of the rows that trained it.
    """

    needs_principal_axes: ClassVar[bool] = False
    may_be_judged: ClassVar[bool] = True

    seed: int = 0

    @abstractmethod
    def chosen(
        self, aligned_rep: Matrix, labels: AnyLabels, task: Task, senders: Senders
    ) -> tuple[Model, Choice | None]:
        """Return the model to fit on these rows, and how it was chosen if there was a choice."""

    def sharing_its_time(self, fits: int) -> Trainable:  # noqa: ARG002  # for a model that searches
        """Return it with what it may take of time divided among so many fits."""
        return self


@dataclass(frozen=True)
class Model(Trainable):
    """One kind of model with its options, which are the fields of the subclass.

    Attributes
    ----------
    rows_per_class : int
        The fewest rows of a class that it can be fitted on; `fit` refuses fewer.
    carried_rows : str
        Which training rows a fitted model has inside it, in words; empty if it has none.
    """

    rows_per_class: ClassVar[int] = 1
    carried_rows: ClassVar[str] = ""

    def chosen(
        self,
        aligned_rep: Matrix,  # noqa: ARG002  # there is no choice
        labels: AnyLabels,  # noqa: ARG002  # as above
        task: Task,  # noqa: ARG002  # as above
        senders: Senders,  # noqa: ARG002  # as above
    ) -> tuple[Model, Choice | None]:
        return self, None

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # of those that can
        """Return the classifier of scikit-learn to fit on scaled rows with these labels."""
        raise TypeError(f"{type(self).__name__} predicts no classes")

    def regressor(self) -> Estimator:
        """Return the regressor of scikit-learn to fit on scaled rows, and on numbers of variance 1."""
        raise TypeError(f"{type(self).__name__} predicts no numbers")

    def check(self, labels: Labels, classes: int) -> None:
        """Raise `ValueError` if these are not enough rows of every class."""
        missing = sorted(set(range(classes)) - set(np.unique(labels).tolist()))
        if missing:
            raise MissingClassError(missing[0])
        rarest = int(np.bincount(labels, minlength=classes).min())
        if rarest < self.rows_per_class:
            # every member reads it: with two who send rows, a number would tell each what the other has
            raise ValueError(f"this model needs {self.rows_per_class} rows of every class, and one has fewer")

    def scaler(self, aligned_rep: Matrix) -> StandardScaler:
        """Return the shift and the scale that come before the classifier."""
        return _one_scale(aligned_rep)

    def row_weights(self, labels: Labels) -> Matrix | None:  # noqa: ARG002  # for a model that has them
        """Return how much each row counts in a fit, (n,); None if all count the same."""
        return None

    def fitted(self, rows: Matrix, labels: Labels, classes: int) -> Classifier:  # noqa: ARG002  # the labels tell
        """Return the classifier, fitted on scaled rows that have every class."""
        classifier, weights = self.classifier(labels, rows.shape[1]), self.row_weights(labels)
        with self.followed(classifier):
            if weights is None:
                return classifier.fit(rows, labels)
            return classifier.fit(rows, labels, sample_weight=weights)

    def fitted_on_numbers(self, rows: Matrix, numbers: Matrix) -> Estimator:
        """Return the regressor, fitted on scaled rows."""
        regressor = self.regressor()
        with self.followed(regressor):
            return regressor.fit(rows, numbers)

    def followed(self, estimator: Estimator) -> AbstractContextManager[None]:  # noqa: ARG002  # for a model that counts
        """Return what tells how far a fit is while it runs: of most models nobody knows."""
        return nullcontext()

    def fitted_on_survival(
        self,
        rows: Matrix,  # noqa: ARG002  # for a model that can
        labels: AnyLabels,  # noqa: ARG002  # as above
        times: Sequence[float],  # noqa: ARG002  # as above
    ) -> Estimator:
        """Return what predicts survival at some times, fitted on scaled rows and times on the wire."""
        raise TypeError(f"{type(self).__name__} predicts no survival")

    @abstractmethod
    def parameters(self, fitted: Estimator) -> int:
        """Return how many numbers such an estimator has, once it is fitted: the paper's N."""

    def probes(self, aligned_rep: Matrix) -> Matrix:
        """Return the rows on which the ONNX file has to say the same as the fitted model."""
        return aligned_rep

    def spent_on(self, rows: int) -> dict[str, float] | None:  # noqa: ARG002  # for a model with privacy
        """Return what bounds how much it tells of one row, for the report; None if nothing does."""
        return None

    def has_converged(self, fitted: Estimator, *, warned: bool) -> bool:  # noqa: ARG002  # for a model that knows more
        """Return whether the fit stopped by itself; ``warned`` says whether scikit-learn doubts it."""
        return not warned

    def prepare_export(self) -> None:  # a hook that most models leave empty
        """Register a converter for what skl2onnx does not know, or converts to something else."""


@dataclass(frozen=True)
class Weighable(Model):
    """A model of which the rows of every class can count as much as those of any other.

    Attributes
    ----------
    class_weight : {"none", "balanced"}
        With ``balanced``, each of the rows of a class counts n / (k n_c), with k classes and n_c rows of this
        one: all together count n. Probabilities are then those of rows with equally many of every class.
        Numbers have no classes and no weights.
    """

    class_weight: str = "none"

    def row_weights(self, labels: Labels) -> Matrix | None:
        if self.class_weight == "none":
            return None
        counts = np.bincount(labels)
        return np.asarray(len(labels) / (np.count_nonzero(counts) * counts[labels]))


@dataclass(frozen=True)
class FittedModel:
    """A model as it was fitted.

    Attributes
    ----------
    pipelines : tuple of Pipeline
        One; of several labels one for each.
    parameters : int
        How many numbers it has.
    converged : bool
    task : Task
    label_shift, label_scale : float
        What is added to its predictions of numbers after they are multiplied: it was fitted on scaled labels.
    choice : Choice, optional
        How the model was chosen, if there was a choice.
    """

    model: Model
    pipelines: tuple[Pipeline, ...]
    parameters: int
    converged: bool
    task: Task
    label_shift: float = 0.0
    label_scale: float = 1.0
    choice: Choice | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The only one; raises `ValueError` if there are several."""
        (only,) = self.pipelines
        return only

    def predictions(self, aligned_rep: Matrix) -> Matrix:
        """Return the predictions, (n, k): probabilities of classes or labels, a number, or survival."""
        return self.task.predictions(self.pipelines, aligned_rep) * self.label_scale + self.label_shift


def fit(model: Trainable, aligned_rep: Matrix, labels: Labels, classes: int) -> FittedModel:
    """Fit a model of classes: `fit_task` with their number."""
    return fit_task(model, aligned_rep, labels, Classes(classes))


def fit_task(
    asked: Trainable, aligned_rep: Matrix, labels: AnyLabels, task: Task, senders: Senders | None = None
) -> FittedModel:
    """Fit a model; deterministic for its seed, but for models with noise and where a time ends a choice.

    Parameters
    ----------
    aligned_rep : (n, l) ndarray
        All parties' ``X~_i G_i``, stacked.
    labels : (n,) ndarray
        As on the wire: class numbers in the order of the terms, numbers, times with their sign, or sets of
        labels.
    task : Task
        What the labels are.
    senders : (n,) ndarray of int, optional
        The number of the party that sent each row, for a choice among models; one party unless it is given.

    Raises
    ------
    ValueError
        If a class has no row, or fewer than the model needs, or all numbers are the same.
    """
    model, choice = asked.chosen(
        aligned_rep, labels, task, np.zeros(len(labels), np.int64) if senders is None else senders
    )
    task.check(model, labels)
    scaler = model.scaler(aligned_rep)
    # In one process of some sixty, the BLAS flags float32 products of finite numbers as invalid, though their
    # result is finite. A model that predicts what is not finite is refused when its ONNX file is checked.
    with warnings.catch_warnings(record=True) as caught, np.errstate(invalid="ignore"):
        warnings.simplefilter("always", ConvergenceWarning)
        estimators = task.fitted(model, scaler.transform(aligned_rep), labels)
    shift, scale = task.scale(labels)
    warned = any(issubclass(entry.category, ConvergenceWarning) for entry in caught)
    return FittedModel(
        model,
        tuple(Pipeline([("scale", scaler), ("classify", each)]) for each in estimators),
        parameters=sum(map(model.parameters, estimators)) + 2 * aligned_rep.shape[1],
        converged=all(model.has_converged(each, warned=warned) for each in estimators),
        task=task,
        label_shift=shift,
        label_scale=scale,
        choice=choice,
    )


def _one_scale(aligned_rep: Matrix) -> StandardScaler:
    """Centre by the column means and divide by one number, the root mean variance of the columns.

    `StandardScaler` carries it because it is what the ONNX converter knows; a scale per column would
    tie the model to the axes of one target.
    """
    scaler = StandardScaler().fit(aligned_rep)
    scale = float(np.sqrt(scaler.var_.mean())) or 1.0
    scaler.scale_ = np.full(aligned_rep.shape[1], scale)
    scaler.var_ = scaler.scale_**2
    return scaler


def unscaled(aligned_rep: Matrix) -> StandardScaler:
    """Return a scaler that changes nothing: for models that depend on no scale."""
    return StandardScaler(with_mean=False, with_std=False).fit(aligned_rep[:1])
