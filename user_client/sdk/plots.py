"""Plots of what explains a model, as PNG or SVG."""

from __future__ import annotations

import io
from typing import Final, Literal

from matplotlib.figure import Figure

from user_client.sdk.explanation import Explanation

PlotFormat = Literal["png", "svg"]
MOST_BARS: Final = 20
_BLUE: Final = "#0072b2"  # of a palette that the colour-blind can tell apart


def draw(found: Explanation, kind: PlotFormat, title: str) -> bytes:
    """Return a plot with one bar for each of the columns that weigh most, and its standard error."""
    columns = found.columns[:MOST_BARS][::-1]
    figure = Figure(figsize=(8, 1.6 + 0.3 * len(columns)), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        range(len(columns)),
        [column.shapley for column in columns],
        xerr=[column.shapley_error for column in columns],
        color=_BLUE,
        ecolor="black",
    )
    # a name is shown as it is: a dollar sign in it begins no formula
    axes.set_yticks(range(len(columns)), [column.name for column in columns], parse_math=False)
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_xlabel("mean absolute Shapley value")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    written = io.BytesIO()
    figure.savefig(written, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return written.getvalue()
