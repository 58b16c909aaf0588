"""A first draft of the schema, derived from one table, for people to discuss and correct.

Numbers are mapped to their rank among quantiles of the table, which survives heavy tails, or linearly from a
range of quantiles. Quantiles are rounded, and the outermost are not the extremes, so that they fit other
institutions too and reveal no single row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from protocol.errors import InputError
from protocol.table_schema import Task
from user_client.errors import MissingColumnError
from user_client.tables.draft_column import FEW_QUANTILES, QUANTILES, ColumnDrafting, Encoding
from user_client.tables.draft_label import DraftedEvent, classes_label, number_label, survival_label
from user_client.tables.remarks import remarks_on

MISSING_TEXTS: Final = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
WIDE: Final = 8000
"""A table of more columns has `FEW_QUANTILES` in each."""


@dataclass(frozen=True)
class DraftedSchema:
    """The ``table_schema`` part of the terms, and what a person should look at before proposing it."""

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def draft_schema(
    table: pa.Table,
    label: str,
    exclude: Collection[str] = (),
    *,
    encoding: Encoding = "ranks",
    categories: Collection[str] = (),
    classes: Collection[str] = (),
    missing: Sequence[str] = (),
    task: Task = "classes",
    label_range: tuple[float, float] | None = None,
    event: DraftedEvent | None = None,
) -> DraftedSchema:
    """Return the ``table_schema`` part of the terms for ``table``.

    Parameters
    ----------
    label : str
        The column to predict.
    exclude : collection of str
        Columns to leave out. A column that has the same value everywhere is left out too, with a remark.
    encoding : {"ranks", "ranges", "plain"}
        Numbers become ranks among quantiles, or are mapped linearly from a range of quantiles; both are
        centred, and so are the levels of a category. "plain" is the uncentred form of the papers.
    categories : collection of str
        Columns of numbers that are names of categories.
    classes : collection of str
        Classes of the label that only other institutions have.
    missing : sequence of str
        Further texts that stand for an empty field.
    task : {"classes", "number", "survival"}
        What the label is.
    label_range : tuple of float, optional
        Between which the numbers of the label lie at every institution; by default those of the table, with
        half of their range more on either side, but no number below 0 if the table has none.
    event : DraftedEvent, optional
        Of survival, where ``label`` is the column of times.

    Raises
    ------
    TableError, InputError
        If the label column is missing, or a column cannot be used.
    """
    of_label = (label, event.column) if event else (label,)
    for name in (*of_label, *exclude, *categories):
        if name not in table.column_names:
            raise MissingColumnError(name)
    texts = tuple(dict.fromkeys((*MISSING_TEXTS, *missing)))
    if event is not None:
        drafted = survival_label(table, label, texts, event)
    elif task == "number":
        drafted = number_label(table, label, texts, label_range)
    else:
        drafted = classes_label(table, label, texts, classes)
    names = [name for name in table.column_names if name not in (*of_label, *exclude)]
    drafting = ColumnDrafting(encoding, QUANTILES if len(names) <= WIDE else FEW_QUANTILES, texts)
    columns, remarks = [], list(drafted.remarks)
    for name in names:
        values = table.column(name)
        column = drafting.column(name, values, is_category=name in categories)
        if column is None:
            remarks.append(f"{name}: has the same value everywhere, so it is left out")
            continue
        columns.append(column)
        is_number = "levels" not in column
        remarks += remarks_on(name, values, texts, drafted.groups, drafted.count, is_number=is_number)
    if not columns:
        raise InputError("no column is left to predict from")
    content = {"missing": list(texts), "label_column": drafted.content, "columns": columns}
    return DraftedSchema(content, remarks)
