"""What the model of a downlink may be under the terms, so that none brings rows that nobody agreed to.

The bounds stand in docs/protocol.md, under DownlinkManifest.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Final

from protocol.labels import MultiLabel
from protocol.model_terms import (
    AveragedTerms,
    CandidateTerms,
    GradientBoostingTerms,
    MlpTerms,
    QuadraticDiscriminantTerms,
    RandomFeatureSvmTerms,
    RandomForestTerms,
    candidates_of,
)
from protocol.terms import Terms
from user_client.onnx_model.form import Form
from user_client.onnx_model.process import Model

_LINEAR: Final = ("LinearClassifier", "LinearRegressor")
_TREES: Final = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
_SPARE: Final = 16
"""Numbers for each output, and for one more, that a converter needs for shapes, places and scales."""
_BYTES_PER_NUMBER: Final = 11
"""A whole number in a list takes so many at most."""
_TEXT_BYTES: Final = 4096
"""Of names for each output, and for two more."""


def check_model(onnx_file: bytes, terms: Terms) -> None:
    """Raise `ModelRefusedError` for a file that is no model of a round, or none that the terms name."""
    Model(onnx_file, forms_of(terms))


def forms_of(terms: Terms) -> list[Form]:
    """Return the forms that the model may have: one for each candidate; none if it may carry rows."""
    if terms.is_row_revealing:
        return []
    label = terms.table_schema.label_column
    form = form_of_several if isinstance(label, MultiLabel) else form_of
    return [form(one, terms.latent_dim, label.outputs) for one in candidates_of(terms.model)]


def form_of_several(model: CandidateTerms | QuadraticDiscriminantTerms, latent_dim: int, labels: int) -> Form:
    """Return the form of so many models of two classes side by side."""
    form = form_of(model, latent_dim, 2)
    numbers = labels * (form.numbers + _SPARE)
    more = labels * _SPARE * _BYTES_PER_NUMBER
    return replace(
        form,
        numbers=numbers,
        file_bytes=None if form.file_bytes is None else labels * form.file_bytes + more,
    )


def form_of(model: CandidateTerms | QuadraticDiscriminantTerms, latent_dim: int, outputs: int) -> Form:
    """Return the form of a model that carries no rows, for rows of l numbers and so many outputs."""
    is_trees = isinstance(model, RandomForestTerms | GradientBoostingTerms)
    has_bound = not isinstance(model, RandomForestTerms)  # how many rows there are says no term
    numbers = (outputs + 2) * (latent_dim + 2) + _SPARE * (outputs + 1)
    numbers += _learned_numbers(model, latent_dim, outputs)
    return Form(
        model.kind,
        learned=_TREES if is_trees else _LINEAR,
        numbers=numbers,
        file_bytes=_BYTES_PER_NUMBER * numbers + _TEXT_BYTES * (outputs + 2) if has_bound else None,
        uncounted=() if has_bound else _TREES,
    )


@singledispatch
def _learned_numbers(model: object, latent_dim: int, outputs: int) -> int:  # noqa: ARG001  # of the kinds below
    """Return how many numbers a kind has beside those of a linear model."""
    return 0


@_learned_numbers.register
def _(model: MlpTerms | AveragedTerms, latent_dim: int, outputs: int) -> int:
    return model.hidden_units * (latent_dim + outputs + 1)


@_learned_numbers.register
def _(model: RandomFeatureSvmTerms, latent_dim: int, outputs: int) -> int:
    return model.random_features * (latent_dim + 2 * outputs + 1)


@_learned_numbers.register
def _(model: QuadraticDiscriminantTerms, latent_dim: int, outputs: int) -> int:  # noqa: ARG001  # as of every model
    return outputs * latent_dim**2


@_learned_numbers.register
def _(model: GradientBoostingTerms, latent_dim: int, outputs: int) -> int:  # noqa: ARG001  # as of every model
    """Each of the 2 q - 1 nodes of a tree has eight numbers, and each of its q leaves four more."""
    trees = model.trees * (outputs if outputs > 2 else 1)
    return trees * (8 * (2 * model.leaves - 1) + 4 * model.leaves)
