"""What each party holds after a round, as an estimator of scikit-learn.

`simulate` returns them fitted. Unfitted, or cloned by scikit-learn's cross-validation, one can be fitted to
other rows of its party: then the whole round is played again with these rows, all others being as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from orthonormal_data_collaboration.answering import Answer
from orthonormal_data_collaboration.parties import columns_of, name_of
from protocol.errors import InputError, OdcError
from protocol.labels import Label, MultiLabel, NumberLabel, SurvivalLabel, Task
from protocol.table_schema import Schema
from user_client.scores import compare
from user_client.tables import decode_numbers, encode_labels, encode_rows

if TYPE_CHECKING:
    from orthonormal_data_collaboration.simulation import Simulation


class _Member(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """One party of a round.

    Parameters
    ----------
    party : str
        Its name.
    parties : mapping of str to (X, y), optional
        All parties of the round, the lead first; the rows of this one are those that `fit` is given. Without
        it, this party is the only one.
    terms : Terms, DraftedTerms, mapping or path, optional
        As for `simulate`.
    options : mapping of str to object, optional
        The other arguments of `simulate`.
    random_state : int, RandomState or Generator, optional
        Makes the round repeatable.
    """

    _task: Task

    def __init__(
        self,
        party: str = "me",
        *,
        parties: Mapping[str, Any] | None = None,
        terms: Any = None,
        options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.party = party
        self.parties = parties
        self.terms = terms
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Play the round with these rows of the party, and keep what it has afterwards.

        Parameters
        ----------
        X : (n, m) array-like, data frame or Arrow table
        y : (n,) array-like
            Of several labels (n, labels).

        Raises
        ------
        ValueError, TypeError
            If the rows do not fit the terms, or not those of the others, or no model comes of the round.
        """
        from orthonormal_data_collaboration.simulation import simulate

        options = {**(self.options or {}), "task": self._task}
        parties = {**(self.parties or {}), self.party: self._rows(X, y, options.get("label"))}
        with _as_value_errors():
            found = simulate(parties, self.terms, random_state=self.random_state, **options)
        own = found[self.party]
        self.take(found, own.schema_, own.answer_, own.columns_, own.known_)
        return self

    def _rows(self, X: Any, y: Any, label: str | Sequence[str] | None) -> Any:
        """Return rows as those of the other parties are: ``(X, y)``, or a table with the column of labels."""
        others = [data for name, data in (self.parties or {}).items() if name != self.party]
        if label is None or all(isinstance(data, tuple) for data in others):
            return X, y
        names, values = (label,) if isinstance(label, str) else label, np.asarray(y)
        table = columns_of(X)
        table = table.drop_columns([name for name in names if name in table.column_names])
        for name, column in zip(names, values[:, None].T if values.ndim == 1 else values.T, strict=True):
            table = table.append_column(name, pa.array(column))
        return table

    def take(
        self,
        simulation: Simulation,
        schema: Schema,
        answer: Answer,
        columns: Sequence[str],
        known: Mapping[str, Any],
    ) -> None:
        """Keep what the party has after a round; ``known`` is what each class was in ``y``."""
        self.simulation_ = simulation
        self.schema_ = schema
        self.answer_ = answer
        self.columns_ = tuple(columns)
        self.known_ = dict(known)
        self.n_features_in_ = len(self.columns_)
        self.feature_names_in_ = np.asarray(self.columns_, dtype=object)
        self._know(schema)

    def _know(self, schema: Schema) -> None:
        """Keep what this kind of estimator says of its labels; raises `InputError` for others."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the round, which holds the rows of every party."""
        return {name: value for name, value in super().__getstate__().items() if name != "simulation_"}

    def _outputs(self, X: Any) -> NDArray[np.floating]:
        """Return what the model says of rows in raw columns."""
        check_is_fitted(self, "answer_")
        table = columns_of(X, self.columns_, of=type(self).__name__)
        if missing := [name for name in self.columns_ if name not in table.column_names]:
            raise ValueError(f"X has {table.num_columns} columns, but column '{missing[0]}' is missing")
        with _as_value_errors():
            rows = encode_rows(table, self.schema_)
        if not len(rows):
            return np.empty((0, self.schema_.label_column.outputs), np.float32)
        return self.answer_(rows)


class MemberClassifier(ClassifierMixin, _Member):  # type: ignore[misc]  # scikit-learn has no types
    """A party whose round predicts classes.

    Attributes
    ----------
    classes_ : (k,) ndarray
        As they were in ``y``, sorted.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) ndarray of object
    simulation_ : Simulation
        The round.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from orthonormal_data_collaboration import MemberClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> member = MemberClassifier("mine", parties={"lead": (X[::2], y[::2])}, random_state=0)
    >>> member.fit(X[1::4], y[1::4]).score(X[3::4], y[3::4]) > 0.9
    True
    """

    _task: Task = "classes"

    def _know(self, schema: Schema) -> None:
        label = schema.label_column
        if not isinstance(label, Label):
            raise InputError("the terms do not predict classes: take MemberRegressor or MemberSurvival")
        values = [self.known_.get(name, name) for name in label.classes]
        self.classes_, self._order = np.unique(np.asarray(values), return_index=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (n, k), in the order of ``classes_``."""
        outputs = self._outputs(X)
        found = outputs.astype(np.float64)[:, self._order]
        return np.asarray(found / found.sum(axis=1, keepdims=True))  # of float32, they add up to 1 nearly

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row, (n,), as it was in ``y``."""
        found = self.predict_proba(X)
        return np.asarray(self.classes_[found.argmax(axis=1)])


class MemberMultiLabelClassifier(ClassifierMixin, _Member):  # type: ignore[misc]  # scikit-learn has no types
    """A party whose round predicts several labels, each with two values.

    Attributes
    ----------
    labels_ : tuple of str
        Their names, in the order of the columns of ``y``.
    present_ : tuple of str
        What the field of each says of a row that has the label: of 0 and 1 it is 1, of no and yes yes.
    n_features_in_, feature_names_in_, simulation_
        As of `MemberClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from orthonormal_data_collaboration import simulate
    >>> X, classes = load_wine(return_X_y=True)
    >>> y = np.stack([classes == 0, classes != 1], axis=1)
    >>> parties = {f"winery-{i}": (X[i::4], y[i::4]) for i in range(3)}
    >>> found = simulate(parties, label=["barolo", "not-grignolino"], random_state=0)
    >>> found["winery-1"].predict(X[3::4]).shape
    (44, 2)
    >>> found["winery-1"].score(X[3::4], y[3::4]) > 0.9
    True
    """

    _task: Task = "multilabel"

    def _know(self, schema: Schema) -> None:
        label = schema.label_column
        if not isinstance(label, MultiLabel):
            raise InputError("the terms do not predict several labels: take MemberClassifier")
        self.labels_ = label.columns
        self.present_ = tuple(one.present for one in label.labels)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, (n, labels)."""
        return self._outputs(X).astype(np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for each label that is likelier than not, and else 0, (n, labels)."""
        return (self.predict_proba(X) >= 0.5).astype(np.int64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows all of whose labels are right; ``y`` as it was for `fit`, (n, labels)."""
        columns = zip(np.asarray(y).T, self.present_, strict=True)
        true = np.array([[name_of(one) == present for one in column] for column, present in columns]).T
        return float(np.average((self.predict(X) == true).all(axis=1), weights=sample_weight))


class MemberRegressor(RegressorMixin, _Member):  # type: ignore[misc]  # scikit-learn has no types
    """A party whose round predicts a number; it has the attributes of `MemberClassifier` but ``classes_``."""

    _task: Task = "number"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the number of each row, (n,), in the unit of ``y``."""
        found, label = self._outputs(X), self.schema_.label_column
        if not isinstance(label, NumberLabel):
            raise InputError("the terms do not predict a number: take MemberClassifier or MemberSurvival")
        return np.asarray(decode_numbers(found[:, 0], label), dtype=np.float64)


class MemberSurvival(_Member):
    """A party whose round predicts survival, from tables with a column of times and one of events."""

    _task: Task = "survival"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Play the round with this table of the party, which has times and events; ``y`` is not read."""
        return super().fit(X, y)

    def _rows(self, X: Any, y: Any, label: str | Sequence[str] | None) -> Any:
        del y, label
        return X

    def predict_survival(self, X: Any) -> NDArray[np.float64]:
        """Return the probability that the event comes after each of ``times_``, (n, times)."""
        return self._outputs(X).astype(np.float64)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of the event until the last of ``times_``, (n,)."""
        return np.asarray(1 - self.predict_survival(X)[:, -1])

    @property
    def times_(self) -> tuple[float, ...]:
        """For which times the model predicts, in the unit of the table."""
        label = self.schema_.label_column
        return label.times if isinstance(label, SurvivalLabel) else ()

    def score(self, X: Any, y: Any = None) -> float:
        """Return Harrell's concordance index on a table that has the times and events too."""
        del y
        table = columns_of(X)
        return compare(encode_labels(table, self.schema_), self._outputs(table), None, "survival").together


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Turn our errors into those that scikit-learn's tools expect of an estimator, with the hint."""
    try:
        yield
    except OdcError as error:
        raise ValueError(f"{error.detail}; {error.hint}") from error
