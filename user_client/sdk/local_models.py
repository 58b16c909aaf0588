"""A model that is fitted here, by the terms of a model; and how it is kept on this machine."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.model_terms import AveragedTerms, LogisticTerms, MlpTerms, RidgeTerms
from runtime.denormals import tiny_as_zero
from user_client.rows import Rows
from user_client.secret.cox import Hazards
from user_client.secret.expansion import Matrix64
from user_client.secret.local_model import (
    LocalModel,
    LogisticOptions,
    NetworkOptions,
    Options,
    RidgeOptions,
    fit_local_model,
    of_several_labels,
)

WEIGHT_PENALTY: Final = 1e-4
"""Of a network whose terms name none: that of the analyst's `Mlp`."""
Fitted = MlpTerms | LogisticTerms | RidgeTerms | AveragedTerms


def fit_by(model: Fitted, rows: Rows | Matrix64, labels: NDArray[Any], classes: int) -> LocalModel | None:
    """Return a model of the kind that the terms of a model describe; the same rows give the same model.

    Parameters
    ----------
    rows, labels, classes
        As for `fit_local_model`.

    Returns
    -------
    LocalModel or None
        None if the rows have fewer than two different labels.
    """
    balanced = getattr(model, "class_weight", "none") == "balanced"
    seed = 0 if isinstance(model, LogisticTerms | RidgeTerms) else model.seed
    parts = _parts(model, of_numbers=not classes)
    with tiny_as_zero():
        return fit_local_model(parts, rows, labels, classes, np.random.default_rng(seed), balanced=balanced)


def fit_each(model: Fitted, rows: Rows | Matrix64, labels: NDArray[Any], count: int) -> LocalModel | None:
    """Return a model of several labels, of `fit_by` for each.

    Parameters
    ----------
    labels : (n,) ndarray of int
        One bit for each of ``count`` labels.
    """
    found = (fit_by(model, rows, (labels >> number & 1).astype(np.uint8), 2) for number in range(count))
    return of_several_labels(list(found), labels)


def _parts(model: Fitted, *, of_numbers: bool) -> list[Options]:
    """Return what the terms name, part by part."""
    if isinstance(model, RidgeTerms):
        return [RidgeOptions(model.inverse_penalty)]
    if isinstance(model, LogisticTerms):
        return [LogisticOptions(model.inverse_penalty, model.epochs)]
    penalty = model.weight_penalty if isinstance(model, AveragedTerms) else WEIGHT_PENALTY
    network = NetworkOptions(model.hidden_units, model.learning_rate, model.epochs, penalty)
    if isinstance(model, AveragedTerms):
        linear: Options = LogisticOptions(model.inverse_penalty, LogisticTerms().epochs)
        if of_numbers:
            linear = RidgeOptions(model.inverse_penalty)
        return [linear, network]
    return [network]


def packed(model: LocalModel, **also: str) -> bytes:
    """Return a model as bytes, for `unpacked`, with other texts by name."""
    layers = [layer for network in model.networks for layer in network]
    numbers = {
        f"{kind}_{i}": part for i, layer in enumerate(layers) for kind, part in zip("WB", layer, strict=True)
    }
    parts = [packed(part) for part in model.of_labels]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        shift=model.shift,
        scale=model.scale,
        depths=np.array([len(network) for network in model.networks], np.int64),
        present=model.present,
        classes=model.classes,
        fitted_rows=model.fitted_rows,
        label_shift=model.label_shift,
        label_scale=model.label_scale,
        weights=model.hazards.weights if model.hazards else [],
        baseline=model.hazards.baseline if model.hazards else [],
        of_labels=np.frombuffer(b"".join(parts), np.uint8),
        lengths=np.array([len(part) for part in parts], np.int64),
        **numbers,  # type: ignore[arg-type]  # numpy's types take any name for `allow_pickle`
        **also,  # type: ignore[arg-type]  # as well
    )
    return buffer.getvalue()


def text_in(data: bytes, name: str) -> str:
    """Return one of the texts that `packed` was given."""
    with np.load(io.BytesIO(data), allow_pickle=False) as kept:
        return str(kept[name])


def unpacked(data: bytes) -> LocalModel:
    """Return what `packed` was given."""
    with np.load(io.BytesIO(data), allow_pickle=False) as kept:
        depths = kept["depths"]
        layers = iter([(kept[f"W_{i}"], kept[f"B_{i}"]) for i in range(depths.sum())])
        parts = []
        if "lengths" in kept:  # earlier versions know one label
            ends = np.cumsum(kept["lengths"])[:-1].astype(np.int64)
            parts = np.split(kept["of_labels"], ends) if len(kept["lengths"]) else []
        return LocalModel(
            shift=kept["shift"],
            scale=float(kept["scale"]),
            networks=[[next(layers) for _ in range(depth)] for depth in depths],
            present=kept["present"],
            classes=int(kept["classes"]),
            fitted_rows=int(kept["fitted_rows"]),
            label_shift=float(kept["label_shift"]),
            label_scale=float(kept["label_scale"]),
            hazards=Hazards(kept["weights"], kept["baseline"]) if len(kept["baseline"]) else None,
            of_labels=tuple(unpacked(part.tobytes()) for part in parts),
        )
