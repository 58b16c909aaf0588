"""Small schemas and tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from protocol.labels import Label
from protocol.table_schema import CategoricalColumn, NumericColumn, Schema

SECRET = "patient-4711"  # a value that no message may contain


def number(name: str = "age", low: float = 0, high: float = 10, **changed: Any) -> NumericColumn:
    return NumericColumn(name=name, low=low, high=high, **changed)


def category(
    name: str = "ward", levels: tuple[str, ...] = ("a", "b", "c"), **changed: Any
) -> CategoricalColumn:
    return CategoricalColumn(name=name, levels=levels, **changed)


def schema(*columns: Any, missing: tuple[str, ...] = ("", "NA")) -> Schema:
    return Schema(
        columns=columns or (number(),),
        label_column=Label(name="y", classes=("no", "yes")),
        missing=missing,
    )


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)
