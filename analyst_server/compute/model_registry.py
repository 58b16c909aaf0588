"""The models that terms can name: one function each, from the terms of a model to what is trained.

A model is a class of `analyst_server.training`, which knows arrays and no terms; the two meet here, option by
option. Imported in the compute process alone: the libraries behind training take seconds to load.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch

from analyst_server.training.averaged import Averaged
from analyst_server.training.choosing import Auto
from analyst_server.training.cox import Cox
from analyst_server.training.groups import Grouping
from analyst_server.training.knn import Knn
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Model, Trainable
from analyst_server.training.private import PrivateModel, PrivateTraining
from analyst_server.training.ridge import Ridge
from analyst_server.training.svm import RandomFeatureSvm, Svm
from analyst_server.training.tasks import Classes, MissingClassError, Numbers, Several, Survival, Task
from analyst_server.training.trees import GradientBoosting, RandomForest
from protocol.labels import AnyLabel, Label, MultiLabel, NumberLabel, SurvivalLabel
from protocol.model_groups import ModelGroupsTerms
from protocol.model_terms import (
    PRIVATE_MODELS,
    AutoTerms,
    AveragedTerms,
    CandidateTerms,
    CoxTerms,
    GradientBoostingTerms,
    KnnTerms,
    LogisticTerms,
    MlpTerms,
    ModelPrivacyTerms,
    ModelTerms,
    QuadraticDiscriminantTerms,
    RandomFeatureSvmTerms,
    RandomForestTerms,
    RidgeTerms,
    SvmTerms,
    candidates_of,
)


@contextmanager
def naming_classes(label: AnyLabel) -> Iterator[None]:
    """Say which class of the terms is missing, where training knows its number alone."""
    try:
        yield
    except MissingClassError as error:
        if not isinstance(label, Label):
            raise
        raise ValueError(
            f"training needs rows of every class; none of the class {label.classes[error.number]} came:"
            " cancel the collaboration, and publish terms without that class"
        ) from error


@singledispatch
def model_of(terms: object) -> Model:
    """Return the model that the terms describe; raises `TypeError` for terms of no registered kind."""
    raise TypeError(f"no model is registered for {type(terms).__name__}")


@model_of.register
def _(terms: MlpTerms) -> Model:
    return Mlp(
        hidden_units=terms.hidden_units,
        learning_rate=terms.learning_rate,
        epochs=terms.epochs,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: LogisticTerms) -> Model:
    return Logistic(
        inverse_penalty=terms.inverse_penalty, epochs=terms.epochs, class_weight=terms.class_weight
    )


@model_of.register
def _(terms: RidgeTerms) -> Model:
    return Ridge(inverse_penalty=terms.inverse_penalty)


@model_of.register
def _(terms: CoxTerms) -> Model:
    return Cox(inverse_penalty=terms.inverse_penalty)


@model_of.register
def _(terms: AveragedTerms) -> Model:
    return Averaged(
        inverse_penalty=terms.inverse_penalty,
        hidden_units=terms.hidden_units,
        learning_rate=terms.learning_rate,
        epochs=terms.epochs,
        weight_penalty=terms.weight_penalty,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: SvmTerms) -> Model:
    return Svm(
        inverse_penalty=terms.inverse_penalty,
        gamma=terms.gamma,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: RandomFeatureSvmTerms) -> Model:
    return RandomFeatureSvm(
        random_features=terms.random_features,
        inverse_penalty=terms.inverse_penalty,
        gamma=terms.gamma,
        epochs=terms.epochs,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: RandomForestTerms) -> Model:
    return RandomForest(
        trees=terms.trees,
        rows_per_leaf=terms.rows_per_leaf,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: GradientBoostingTerms) -> Model:
    return GradientBoosting(
        trees=terms.trees,
        learning_rate=terms.learning_rate,
        rows_per_leaf=terms.rows_per_leaf,
        leaves=terms.leaves,
        seed=terms.seed,
        class_weight=terms.class_weight,
    )


@model_of.register
def _(terms: KnnTerms) -> Model:
    return Knn(neighbours=terms.neighbours)


def trainable_of(terms: ModelTerms) -> Trainable:
    """Return what the terms ask to have trained: a model, or the choice among several."""
    if not isinstance(terms, AutoTerms):
        return model_of(terms)
    candidates = tuple((_name(one), model_of(one)) for one in terms.candidates)
    return Auto(candidates=candidates, budget_s=terms.budget_s, seed=terms.seed)


def first_model_of(terms: ModelTerms) -> tuple[str, Model]:
    """Return the model that the terms ask for, with its name; of several the first."""
    first = candidates_of(terms)[0]
    return _name(first), model_of(first)


def _name(terms: CandidateTerms | QuadraticDiscriminantTerms) -> str:
    """Return the kind, with the options that are not the defaults."""
    options = terms.model_dump(exclude_defaults=True)
    return ", ".join([terms.kind, *(f"{option} {value}" for option, value in options.items())])


def trained_model_of(terms: ModelTerms, privacy: ModelPrivacyTerms | None, features: int) -> Trainable:
    """Return what is trained: with privacy if the terms ask for it."""
    return private_model_of(terms, privacy, features) if privacy else trainable_of(terms)


def task_of(label: AnyLabel) -> Task:
    """Return what the label of the terms is to a model."""
    if isinstance(label, SurvivalLabel):
        return Survival(label.wire_times)
    if isinstance(label, MultiLabel):
        return Several(label.columns)
    return Numbers(label.unit) if isinstance(label, NumberLabel) else Classes(len(label.classes))


def private_model_of(terms: ModelTerms, privacy: ModelPrivacyTerms, features: int) -> PrivateModel:
    """Return the model that terms with privacy describe; raises `TypeError` for a model that has none.

    Parameters
    ----------
    features : int
        Encoded features of a row.
    """
    used = PRIVATE_MODELS.get(terms.kind)
    if used is None:
        raise TypeError(f"a model of the kind {terms.kind} has no private training")
    options = {name: getattr(terms, name) for name in used}
    return PrivateModel(training=PrivateTraining(**privacy.model_dump()), features=features, **options)


def grouping_of(terms: ModelGroupsTerms | None) -> Grouping | None:
    """Return which parties share a model; None if all do."""
    return Grouping(terms.largest_distance, terms.least_parties) if terms is not None else None
