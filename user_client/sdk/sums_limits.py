"""How many rows an institution needs to take part under terms of sums: told before anybody signs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.labels import Label
from protocol.sums import SumsTerms, is_by_class
from protocol.terms import Terms
from user_client.rows import class_counts
from user_client.sdk.hold_out import kept_of
from user_client.tables import Misfit, strata


def leaving_of(labels: NDArray[Any], terms: Terms, share: float) -> list[int]:
    """Return how many rows of each class, or of each stratum of a number, leave if a share is kept back."""
    groups = labels if terms.task == "classes" else strata(labels, terms.task)
    return [count - kept_of(count, share) for count in class_counts(groups).tolist()]


def check_rows(terms: Terms, sums: SumsTerms, rows: Sequence[int]) -> None:
    """Raise `InputError` if these are too few or too many rows, in all or of a class, for these terms."""
    count = sum(rows)
    if count < sums.min_rows:
        raise InputError(
            f"these terms ask for {sums.min_rows} rows or more, because a sum over few tells much about each;"
            f" this institution would send the sum of {count}"
        )
    if count > sums.max_rows:
        raise InputError(
            f"these terms have room for {sums.max_rows} rows of one institution, not for {count}"
        )
    label = terms.table_schema.label_column
    if not is_by_class(terms) or not isinstance(label, Label):
        return
    for name, of_class in zip(label.classes, rows, strict=False):  # classes after the last one have no row
        if 0 < of_class < sums.min_rows:
            raise InputError(
                f"these terms ask for {sums.min_rows} rows or more of each class, or none: of class '{name}'"
                f" this institution would send the sum of {of_class}"
            )


def misfits(terms: Terms, sums: SumsTerms, labels: NDArray[Any]) -> list[Misfit]:
    """Return why the rows of a table cannot be summed under terms; a table without rows is a consumer's."""
    try:
        if len(labels):
            check_rows(terms, sums, leaving_of(labels, terms, terms.hold_out))
    except InputError as error:
        code = "too-few-rows" if len(labels) <= sums.max_rows else "too-many-rows"
        name = terms.table_schema.label_column.columns[0]
        return [Misfit(name, code, 0, 0, error.detail, _fix(terms, sums, labels))]
    return []


def _fix(terms: Terms, sums: SumsTerms, labels: NDArray[Any]) -> str:
    whole = leaving_of(labels, terms, 0.0)
    with suppress(InputError):
        check_rows(terms, sums, whole)
        return "prepare it with --hold-out 0, which keeps no row back, or ask the lead for another min_rows"
    if is_by_class(terms) and sums.min_rows <= sum(whole) <= sums.max_rows:
        return "ask the lead for the linear model, which sums all classes together, or for another min_rows"
    return "ask the lead for terms with another min_rows or max_rows, or for terms of rows"


def can_be_summed_by_class(rows: Sequence[int], share: float, min_rows: int) -> bool:
    """Return whether a table with so many rows of each class can be summed by class."""
    return all(count == 0 or count - kept_of(count, share) >= min_rows for count in rows)
