"""What the lead changes in its draft of the terms once the others have checked their tables against it.

In practice each runs `odc terms check TABLE --terms terms.toml` and tells the lead what does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.errors import LabelOutsideError, NotANumberError, UnknownLevelError
from user_client.tables import draft_schema
from user_client.tables.draft import MISSING_TEXTS
from user_client.tables.fields import as_numbers
from user_client.tables.figures import MAX_DRAFT_LEVELS
from user_client.tables.misfits import Misfit, find_misfits

DemoTask = Literal["classes", "number"]


def task_of(table: pa.Table, label: str, missing: Sequence[str] = ()) -> DemoTask:
    """Return what a label is: a number if all that is in it are, and too many for the classes of a draft."""
    numbers, empty = as_numbers(table.column(label), (*MISSING_TEXTS, *missing))
    known = numbers[~empty]
    is_number = np.isfinite(known).all() and len(np.unique(known)) > MAX_DRAFT_LEVELS
    return "number" if is_number else "classes"


@dataclass
class Draft:
    """The lead's draft, and the options that were added to it."""

    rows: pa.Table
    label: str
    exclude: Sequence[str]
    task: DemoTask = "classes"
    missing: Sequence[str] = ()
    label_range: tuple[float, float] | None = None
    classes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Return the ``table_schema`` part of the terms."""
        return draft_schema(
            self.rows,
            self.label,
            self.exclude,
            classes=self.classes,
            others=self.others,
            missing=self.missing,
            task=self.task,
            label_range=self.label_range,
        ).content

    def schema(self) -> Schema:
        return Schema.model_validate(self.content(), strict=False)

    def options(self) -> tuple[str, ...]:
        """Return what the lead adds to `odc terms draft`."""
        task = () if self.task == "classes" else ("--task", self.task)
        ends = self.label_range
        within = () if ends is None else (f"--label-range={ends[0]!r}:{ends[1]!r}",)
        classes = [word for text in self.classes for word in ("--class", text)]
        others = [word for column in self.others for word in ("--other", column)]
        missing = [word for text in self.missing for word in ("--missing", text)]
        return (*task, *within, *classes, *others, *missing)

    def make_room_for(self, misfit: Misfit, table: pa.Table) -> str | None:
        """Add the option that makes room for what does not fit; return what to do if there is none."""
        if misfit.code == LabelOutsideError.code:
            numbers, _ = as_numbers(table.column(self.label), (*MISSING_TEXTS, *self.missing))
            low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            drafted = self.content()["label_column"]
            self.label_range = min(low, drafted["low"]), max(high, drafted["high"])
            return None
        if misfit.code == UnknownLevelError.code and misfit.column == self.label:
            found = {str(value) for value in table.column(self.label).to_pylist() if value is not None}
            known = {*self.schema().missing, *getattr(self.schema().label_column, "classes", ())}
            self.classes += sorted(found - known)
            return None
        if misfit.code not in (UnknownLevelError.code, NotANumberError.code) or misfit.column == self.label:
            return misfit.fix
        self.others.append(misfit.column)
        try:
            self.schema()
        except InputError as error:
            self.others.remove(misfit.column)
            # numbers of the lead cannot be names of categories, nor are names drafted of which most are rare
            return misfit.fix if misfit.code == NotANumberError.code else error.detail
        return None


def corrected_draft(
    parts: Mapping[str, pa.Table],
    label: str,
    exclude: Sequence[str],
    task: DemoTask = "classes",
    missing: Sequence[str] = (),
) -> Draft:
    """Return the draft by the first of these, the lead, that fits all tables.

    Raises
    ------
    InputError
        If a table has something that no option of the draft makes room for.
    """
    lead, *others = parts
    draft = Draft(parts[lead], label, exclude, task, missing)
    for name in others:
        while misfits := find_misfits(parts[name], draft.schema())[0]:
            first = misfits[0]
            what_to_do = draft.make_room_for(first, parts[name])
            if what_to_do is not None:
                error = InputError(f"{name}: {first.detail}")
                error.hint = what_to_do
                raise error
    return draft
