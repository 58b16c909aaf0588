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
from user_client.tables.draft_label import labels_of as labels_of_task

LABEL: Final = "label"
"""Name of the column that holds ``y``, where ``X`` and ``y`` are given."""


@dataclass(frozen=True)
class Data:
    """The tables of all parties.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        In the order of the parties, the lead first.
    labels : tuple of str
        The column to predict; of the task multilabel several.
    task : {"classes", "number", "survival", "multilabel"}
    classes : dict of str to object
        For the name of each class what it was in ``y``; empty if no classes are predicted.
    """

    tables: dict[str, pa.Table]
    labels: tuple[str, ...]
    task: Task
    classes: dict[str, Any]

    @property
    def label(self) -> str:
        """The column to predict, of one label."""
        return self.labels[0]


def read_parties(parties: Mapping[str, Any], *, label: str | Sequence[str] | None, task: Task | None) -> Data:
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
    labels = _names_in(label)
    if not parties:
        raise InputError("a round needs at least one party: give a mapping of names to (X, y) or tables")
    if len(labels) > 1:
        task = task or "multilabel"
    are_pairs = {name: isinstance(data, tuple) for name, data in parties.items()}
    if len(set(are_pairs.values())) > 1:
        raise InputError("give (X, y) for every party, or a table for every party")
    if not all(are_pairs.values()):
        return _from_tables(parties, labels, task)
    has_several = task is None and any(_has_columns(pair[-1]) for pair in parties.values())
    if has_several or task == "multilabel":
        return _from_pairs_of_several(parties, labels)
    return _from_pairs(parties, labels_of_task(labels or (LABEL,), task or "classes")[0], task)


def _from_tables(parties: Mapping[str, Any], labels: tuple[str, ...], task: Task | None) -> Data:
    if not labels:
        raise InputError("of tables, label has to name the column to predict")
    labels = labels_of_task(labels, task or "classes")
    tables = {str(name): table_from(data) for name, data in parties.items()}
    for name, table in tables.items():
        if absent := [each for each in labels if each not in table.column_names]:
            raise InputError(f"the table of {name} has no column '{absent[0]}'")
    if task == "multilabel":
        return Data(tables, labels, task, {})
    values = {name: _known(table.column(labels[0])) for name, table in tables.items()}
    task = task or _task_of(values)
    classes = _classes_of(values) if task == "classes" else {}
    return Data(tables, labels, task, classes)


def _names_in(label: str | Sequence[str] | None) -> tuple[str, ...]:
    if label is None:
        return ()
    names = (label,) if isinstance(label, str) else tuple(label) if isinstance(label, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"label is the name of a column, or the names of several, got {label!r}")
    return names


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
        name, (X, y) = str(key), _checked(key, pair)
        matrices[name], values[name] = columns_of(X), _labels_in(y)
        rows, count = matrices[name].num_rows, len(values[name])
        if rows != count:
            raise ValueError(f"{name} has {rows} rows of X and {count} of y")
        if label in matrices[name].column_names:
            raise InputError(f"X of {name} has a column '{label}': give label another name")
        _check_labels(values[name], task)
    _check_columns(matrices)
    task = task or _task_of(values)
    tables = {
        name: matrix.append_column(label, labels_of(values[name], task)) for name, matrix in matrices.items()
    }
    return Data(tables, (label,), task, _classes_of(values) if task == "classes" else {})


def _checked(party: Any, pair: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return X and y of a party; raises `InputError` or `ValueError` if one of them is not there."""
    if len(pair) != 2:
        raise InputError(f"expected (X, y) of {party}, got a tuple of {len(pair)}")
    X, y = pair
    if y is None:
        raise ValueError(f"requires y to be passed, but the target y is None, of {party}")
    return X, y


def _has_columns(y: Any) -> bool:
    """Return whether labels have several columns, one for each of several labels."""
    shape = np.shape(y)
    return len(shape) == 2 and shape[1] > 1


def _from_pairs_of_several(parties: Mapping[str, Any], labels: tuple[str, ...]) -> Data:
    matrices: dict[str, pa.Table] = {}
    tables: dict[str, pa.Table] = {}
    for key, pair in parties.items():
        X, y = _checked(key, pair)
        matrix, values = columns_of(X), check_array(y, dtype=None, ensure_min_samples=0)
        labels = labels or tuple(f"{LABEL}_{number}" for number in range(values.shape[1]))
        labels = labels_of_task(labels, "multilabel")
        if values.shape != (matrix.num_rows, len(labels)):
            raise ValueError(
                f"y of {key} is {values.shape}, and X has {matrix.num_rows} rows for {len(labels)} labels"
            )
        if taken := set(labels) & set(matrix.column_names):
            raise InputError(f"X of {key} has a column '{taken.pop()}': give label other names")
        _check_labels(values.ravel(), None)
        matrices[str(key)] = matrix
        for name, column in zip(labels, values.T, strict=True):
            matrix = matrix.append_column(name, labels_of(column, "classes"))
        tables[str(key)] = matrix
    _check_columns(matrices)
    return Data(tables, labels, "multilabel", {})


def _check_columns(matrices: Mapping[str, pa.Table]) -> None:
    """Raise `InputError` unless ``X`` has the same columns at all parties."""
    first = next(iter(matrices.values())).column_names
    for name, matrix in matrices.items():
        if matrix.column_names != first:
            raise InputError(
                f"{name} has {matrix.num_columns} columns of X, other names than the first party"
            )


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
