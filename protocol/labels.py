"""What is predicted: classes, a number, survival or several labels, and how it is written on the wire."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, FailFast, Field, Tag, model_validator

from protocol.codec import Message
from protocol.limits import MAX_CLASSES, MAX_LABELS, MAX_SURVIVAL_TIMES
from protocol.texts import Name

Task = Literal["classes", "number", "survival", "multilabel"]
"""What is predicted."""


def check_range(low: float, high: float, **inside: float | None) -> None:
    """Raise `ValueError` unless low and high are the ends of a range, and the others inside it or None."""
    if not (low < high and math.isfinite(high - low)):
        raise ValueError("low must be a number below high, and high - low must be finite")
    for name, value in inside.items():
        if value is not None and not low <= value <= high:
            raise ValueError(f"{name} must lie between low and high")


class Label(Message):
    """The column to predict: one of a list of classes, which are numbered in this order on the wire."""

    task: ClassVar[Task] = "classes"
    model_output: ClassVar[str] = "probabilities"
    """Name of the output of the model that has the predictions."""

    name: Name
    classes: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_CLASSES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must be distinct")
        return self

    @property
    def wire_dtype(self) -> Literal["u1", "u2"]:
        """The smallest integer type that can number the classes."""
        return "u1" if len(self.classes) <= 2**8 else "u2"

    @property
    def outputs(self) -> int:
        """How many numbers the model returns for a row: a probability for each class."""
        return len(self.classes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name,)


class NumberLabel(Message):
    """The column to predict: a number; on the wire, ``[low, high]`` becomes ``[-1, 1]``.

    A number outside is refused where it is read: moved to an end, it would teach the model something wrong.
    """

    task: ClassVar[Task] = "number"
    model_output: ClassVar[str] = "value"
    wire_dtype: ClassVar[Literal["f4"]] = "f4"
    outputs: ClassVar[int] = 1

    kind: Literal["number"] = "number"
    name: Name
    low: float
    high: float

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range(self.low, self.high)
        return self

    @property
    def unit(self) -> float:
        """What a difference of 1 on the wire is in the column."""
        return (self.high - self.low) / 2

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name,)


SHORTEST_TIME: Final = 2.0**-20
"""Of a time on the wire: the sign of 0 could not say whether the event was seen."""


class SurvivalLabel(Message):
    """How long a row was observed, and whether that ended with the event.

    On the wire it is the time divided by the horizon, negative where the event was not seen. The model
    answers with the probability that the event comes after each of some times.
    """

    task: ClassVar[Task] = "survival"
    model_output: ClassVar[str] = "survival"
    wire_dtype: ClassVar[Literal["f4"]] = "f4"

    kind: Literal["survival"] = "survival"
    name: Name
    """The column of times, from when on all rows are observed."""
    event: Name
    """The column that says how they ended."""
    seen: Name
    """What it says of the event."""
    censored: Name
    """What it says where the event was not seen."""
    horizon: float = Field(gt=0, le=1e12)
    """A longer time counts as one that ended here, without the event."""
    times: Annotated[tuple[float, ...], FailFast()] = Field(min_length=1, max_length=MAX_SURVIVAL_TIMES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.event == self.name or self.seen == self.censored:
            raise ValueError("name and event, and seen and censored, must be distinct")
        if any(after <= before for before, after in pairwise((0.0, *self.times, math.inf))):
            raise ValueError("times must ascend from above 0")
        if self.times[-1] > self.horizon:
            raise ValueError("no time may lie beyond the horizon")
        if self.times[0] < self.horizon * SHORTEST_TIME:
            raise ValueError(
                "the first time is too short beside the horizon: on the wire it would be no time"
            )
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the model returns for a row: a probability for each time."""
        return len(self.times)

    @property
    def wire_times(self) -> tuple[float, ...]:
        """The times on the wire, rounded as those of rows are, so that equal times stay equal."""
        layout = f"<{len(self.times)}f"
        return struct.unpack(layout, struct.pack(layout, *(time / self.horizon for time in self.times)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name, self.event)


class BinaryLabel(Message):
    """One of several labels: a column, what it says of a row that has the label, and of one without it."""

    name: Name
    absent: Name
    present: Name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.absent == self.present:
            raise ValueError("absent and present must be distinct")
        return self


class MultiLabel(Message):
    """Several labels at once, of which a row has any or none.

    On the wire it is one whole number: bit j, the lowest first, is set if the row has label j. The model
    answers with the probability of each.
    """

    task: ClassVar[Task] = "multilabel"
    model_output: ClassVar[str] = "probabilities"

    kind: Literal["multilabel"] = "multilabel"
    labels: Annotated[tuple[BinaryLabel, ...], FailFast()] = Field(min_length=2, max_length=MAX_LABELS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.columns)) != len(self.labels):
            raise ValueError("labels must have distinct names")
        return self

    @property
    def wire_dtype(self) -> Literal["u1", "u2"]:
        """The smallest integer type with a bit for each label."""
        return "u1" if len(self.labels) <= 8 else "u2"

    @property
    def outputs(self) -> int:
        """How many numbers the model returns for a row: a probability for each label."""
        return len(self.labels)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return tuple(label.name for label in self.labels)

    @property
    def name(self) -> str:
        """All names, for people."""
        return ", ".join(self.columns)


def _task_of(label: Any) -> str:
    """Return the tag of a label block. Classes, the only labels at first, have no ``kind``."""
    kind = label.get("kind") if isinstance(label, dict) else getattr(label, "kind", None)
    return "classes" if kind is None else str(kind)


AnyLabel = Annotated[
    Annotated[Label, Tag("classes")]
    | Annotated[NumberLabel, Tag("number")]
    | Annotated[SurvivalLabel, Tag("survival")]
    | Annotated[MultiLabel, Tag("multilabel")],
    Discriminator(_task_of),
]
