"""The rows of each party, from arrays, data frames or Arrow tables to the tables that the product reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from protocol.errors import InputError
from protocol.labels import Task
from user_client.tables import table_from

LABEL: Final = "label"
"""Name of the column that holds ``y``, where ``X`` and ``y`` are given."""


@dataclass(frozen=True)
class Data:
    """The tables of all parties.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        In the order of the parties, the lead first.
    label : str
        The column to predict.
    task : {"classes", "number", "survival"}
    classes : dict of str to object
        For the name of each class what it was in ``y``; empty if no classes are predicted.
    """

    tables: dict[str, pa.Table]
    label: str
    task: Task
    classes: dict[str, Any]


def read_parties(parties: Mapping[str, Any], *, label: str | None, task: Task | None) -> Data:
    """Return the tables of the parties: from ``(X, y)``, or from tables with a column of labels.

    Raises
    ------
    InputError
        If there is no party, some have ``(X, y)`` and some tables, or the columns differ.
    ValueError, TypeError
        As estimators of scikit-learn do, for an ``X`` or a ``y`` that is none.
    """
    if parties is not None and not isinstance(parties, Mapping):
        raise InputError(
            f"parties is a mapping of names to (X, y) or tables, such as {{'north': (X, y)}}, and this is a"
            f" {type(parties).__name__}"
        )
    if label is not None and not isinstance(label, str):
        raise InputError(f"label is the name of a column, got {label!r}")
    if not parties:
        raise InputError("a round needs at least one party: give a mapping of names to (X, y) or tables")
    if task == "multilabel":
        raise InputError("a simulation predicts one label; rounds of several are for `odc` and its SDK")
    are_pairs = {name: isinstance(data, tuple) for name, data in parties.items()}
    if len(set(are_pairs.values())) > 1:
        raise InputError("give (X, y) for every party, or a table for every party")
    if all(are_pairs.values()):
        return _from_pairs(parties, label or LABEL, task)
    if label is None:
        raise InputError("of tables, label has to name the column to predict")
    tables = {str(name): table_from(data) for name, data in parties.items()}
    for name, table in tables.items():
        if label not in table.column_names:
            raise InputError(f"the table of {name} has no column '{label}'")
    values = {name: _known(table.column(label)) for name, table in tables.items()}
    task = task or _task_of(values)
    classes = _classes_of(values) if task == "classes" else {}
    return Data(tables, label, task, classes)


def columns_of(X: Any, names: Sequence[str] | None = None, *, of: str = "the estimator") -> pa.Table:
    """Return the columns of ``X``; those of an array are called ``names``, or ``x0``, ``x1`` and so on.

    Raises
    ------
    ValueError, TypeError
        As estimators of scikit-learn do: unless it is a table, or a matrix of numbers or texts that are not
        infinite. NaN is an empty field.
    """
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "iloc") or isinstance(X, pa.Table):
        return table_from(X)
    rows = check_array(X, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=0)
    names = names or [f"x{index}" for index in range(rows.shape[1])]
    if len(names) != rows.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {of} is expecting {len(names)} features as input"
        )
    try:
        return pa.table(
            {
                name: pa.array(np.ascontiguousarray(rows[:, i]), from_pandas=rows.dtype.kind == "O")
                for i, name in enumerate(names)
            }
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise TypeError("argument must be a string or a number, and a field of X is neither") from None


def name_of(value: Any) -> str:
    """Return what a label is called in a table: ``1``, ``1.0`` and ``"1"`` are one class."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def labels_of(y: Any, task: Task) -> pa.Array:
    """Return labels as a column of a table: the names of classes, or numbers."""
    values = np.asarray(y)
    if task == "number":
        return pa.array(np.asarray(values, dtype=np.float64))
    return pa.array([name_of(value) for value in values], pa.string())


def _from_pairs(parties: Mapping[str, Any], label: str, task: Task | None) -> Data:
    if task == "survival":
        raise InputError("survival needs tables with a column of times (label) and one of events (event)")
    matrices, values = {}, {}
    for key, pair in parties.items():
        if len(pair) != 2:
            raise InputError(f"expected (X, y) of {key}, got a tuple of {len(pair)}")
        name = str(key)
        if pair[1] is None:
            raise ValueError(f"requires y to be passed, but the target y is None, of {name}")
        matrices[name], values[name] = columns_of(pair[0]), _labels_in(pair[1])
        rows, count = matrices[name].num_rows, len(values[name])
        if rows != count:
            raise ValueError(f"{name} has {rows} rows of X and {count} of y")
        if label in matrices[name].column_names:
            raise InputError(f"X of {name} has a column '{label}': give label another name")
        _check_labels(values[name], task)
    first = next(iter(matrices.values())).column_names
    for name, matrix in matrices.items():
        if matrix.column_names != first:
            raise InputError(
                f"{name} has {matrix.num_columns} columns of X, other names than the first party"
            )
    task = task or _task_of(values)
    tables = {
        name: matrix.append_column(label, labels_of(values[name], task)) for name, matrix in matrices.items()
    }
    return Data(tables, label, task, _classes_of(values) if task == "classes" else {})


def _labels_in(y: Any) -> NDArray[Any]:
    """Return labels as numpy has them; those of pandas that may be missing keep their type if none is."""
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind in ("b", "i", "u") and not isinstance(y.dtype, np.dtype) and not y.isna().any():
        y = np.asarray(y.astype({"b": "bool", "i": "int64", "u": "uint64"}[kind]))
    return np.asarray(column_or_1d(y, warn=True))


def _known(labels: pa.ChunkedArray) -> NDArray[Any]:
    """Return the labels that are not empty; an empty one is refused where its row is encoded."""
    return np.asarray(labels.drop_null().to_pylist())


def _check_labels(labels: NDArray[Any], task: Task | None) -> None:
    """Raise `ValueError` for labels that are not finite, or are no classes where these are predicted."""
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity")
    if labels.dtype.kind == "O" and any(label is None or label != label for label in labels):
        raise ValueError("Input y contains None or NaN")
    if task == "classes" and len(labels):
        check_classification_targets(labels)


def _task_of(values: Mapping[str, NDArray[Any]]) -> Task:
    """Return what the labels are: numbers, if any of them has decimals."""
    for found in values.values():
        if found.dtype.kind == "f" and not np.equal(np.mod(found[np.isfinite(found)], 1), 0).all():
            return "number"
    return "classes"


def _types_of(labels: NDArray[Any]) -> set[str]:
    """Return what kinds of values labels are: numpy would make texts of numbers that stand beside texts."""
    if not len(labels):
        return set()
    if labels.dtype.kind == "O":
        return {_type_of(value) for value in labels.tolist()}
    return {_type_of(labels[:1].tolist()[0])}


def _type_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, str):
        return "texts"
    return "numbers" if isinstance(value, Real) else type(value).__name__


def _classes_of(values: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return every class by its name, in the order in which scikit-learn has them."""
    if len(set().union(*map(_types_of, values.values()))) > 1:
        raise ValueError("the labels are of several types: make all of them numbers, or all texts")
    every = np.concatenate([found for found in values.values() if len(found)])
    try:
        every = np.unique(every)
    except TypeError:  # as numbers and texts have no order
        raise ValueError("the labels are of several types: make all of them numbers, or all texts") from None
    return {name_of(value): value for value in every}
