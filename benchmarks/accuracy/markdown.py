"""Print the tables of docs/methods.md from a file: `python -m benchmarks.accuracy.markdown FILE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
SCORED: Final = ("III", "V", "VI", "VI, every second", "VII", "II, v2", "hospitals", "anchors")
FLAT: Final = {
    "NRI-DC": ("table", "dataset", "model"),
    "users": ("table", "dataset", "users", "rows_per_user"),
}
"""Tables of one scaling, by how their names begin, and what a line of them belongs to."""
_PLACE: Final = ("dataset", "split", "model", "metric", "condition")


def tables(rows: Iterable[Row]) -> str:
    """Return one Markdown table for each table of the benchmark.

    A cell contains the score without scaling and, after the slash, with one shift and one scale before the
    model; in brackets the paper's score, with an asterisk where the two intervals do not overlap.
    """
    found = list(rows)
    parts = []
    for name in SCORED:
        mine = [row for row in found if row["table"] == name]
        parts += [f"### {name}\n\n{_table(mine)}"] if mine else []
    listed = [row for row in found if row["table"] in SCORED]
    for name, place in FLAT.items():
        mine = [row for row in found if row["table"].startswith(name)]
        parts += [f"### {name}\n\n{_flat(mine, place)}"] if mine else []
        listed += mine
    others = [row for row in found if row not in listed]
    return "\n".join([*parts, *(_plain(row) for row in others)])


def _table(rows: list[Row]) -> str:
    ways = list(dict.fromkeys(_way(row) for row in rows if row["condition"]))
    lines = [
        "| " + " | ".join(["data", "split", "model", "bases", *ways]) + " |",
        "|" + " --- |" * (4 + len(ways)),
    ]
    places = dict.fromkeys(tuple(row[key] for key in _PLACE) for row in rows if row["condition"])
    for place in places:
        cells = [_cell([row for row in rows if _at(row, place) and _way(row) == way]) for way in ways]
        lines.append("| " + " | ".join([*_titles(place), *cells]) + " |")
    oracles = dict.fromkeys(
        (*(row[key] for key in _PLACE), row["method"]) for row in rows if not row["condition"]
    )
    for key in oracles:
        *at, method = key
        these = [row for row in rows if _at(row, tuple(at)) and row["method"] == method]
        blank = [""] * (len(ways) - 1)
        lines.append("| " + " | ".join([*_titles(tuple(at))[:3], method, _cell(these), *blank]) + " |")
    return "\n".join(lines) + "\n"


def _flat(rows: list[Row], place: tuple[str, ...]) -> str:
    """Return a table with one column for each method, where nothing was scaled a second time."""
    ways = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| " + " | ".join([*place, *ways]) + " |", "|" + " --- |" * (len(place) + len(ways))]
    for here in dict.fromkeys(tuple(row[key] for key in place) for row in rows):
        mine = {row["method"]: row for row in rows if tuple(row[key] for key in place) == here}
        cells = [_score(mine[way]) + _papers(mine[way]) for way in ways]
        lines.append("| " + " | ".join([*map(str, here), *cells]) + " |")
    return "\n".join(lines) + "\n"


def _at(row: Row, place: tuple[Any, ...]) -> bool:
    return tuple(row[key] for key in _PLACE) == place


def _titles(place: tuple[Any, ...]) -> list[str]:
    dataset, split, model, metric, condition = place
    measured = {"accuracy": "", "roc_auc": ", ROC-AUC", "pr_auc": ", PR-AUC"}[metric]
    return [dataset, split, f"{model}{measured}", condition or ""]


def _way(row: Row) -> str:
    anchor = "" if row["anchor"] in (None, "uniform") else f" {row['anchor']}"
    return f"{row['method']}{anchor}{' centred' if row['centred'] else ''}"


def _cell(rows: list[Row]) -> str:
    """Return the text ``unscaled / with one scale (paper)``."""
    values = {row["one_scale"]: row for row in rows}
    if not values:
        return "-"
    text = " / ".join(_score(values[scaled]) for scaled in (False, True) if scaled in values)
    return text + _papers(values.get(False, {}))


def _papers(row: Row) -> str:
    return f" ({row['paper']:.1f}{'*' if row['differs'] else ''})" if "paper" in row else ""


def _score(row: Row) -> str:
    half = "" if row["half_width"] is None else f"±{row['half_width']:.1f}"
    return f"{row['mean']:.1f}{half}"


def _plain(row: Row) -> str:
    return "- " + ", ".join(f"{key}: {value}" for key, value in row.items())


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1]).read_text())["rows"]))
