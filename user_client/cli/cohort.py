"""`odc cohort`: the rows of all institutions in figures, from the total of sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import click

from runtime.command_line import as_json_option
from runtime.terminal import printable
from user_client.cli.options import collaboration_option, open_session, round_of, show
from user_client.cli.progress import busy
from user_client.sdk.cohort import Cohort, Component

_PAIRS_SHOWN: Final = 10
_COMPONENTS_SHOWN: Final = 5
_LOADINGS_SHOWN: Final = 4


@click.command()
@collaboration_option
@as_json_option
@click.pass_context
def cohort(context: click.Context, collaboration: str | None, as_json: bool) -> None:
    """Show means, deviations, correlations and principal components over the rows of all institutions.

    They come from the total of a round of sums, if the terms give it to each institution. Nothing leaves this
    machine.
    """
    with open_session(context) as session, busy(as_json, "turning the total back"):
        found = round_of(session, collaboration, as_json=as_json, received=True).cohort()
    show(as_json, found.to_json(), lambda: "\n".join(_lines(found)))


def _lines(found: Cohort) -> Iterator[str]:
    names = [printable(f"{figure.column}, {figure.number}") for figure in found.figures]
    width = max(map(len, names))
    yield f"{found.rows:,} rows of all institutions"
    yield f"  {'':<{width}}  {'mean':>12}  {'deviation':>12}"
    for name, figure in zip(names, found.figures, strict=True):
        yield f"  {name:<{width}}  {figure.mean:>12.5g}  {figure.deviation:>12.5g}"
    yield "the closest correlations of different columns"
    for value, one, other in _closest(found):
        yield f"  {value:+.3f}  {names[one]}; {names[other]}"
    yield "principal components of the standardised columns"
    for number, component in enumerate(found.components[:_COMPONENTS_SHOWN], start=1):
        yield f"  {number}: {component.share:.1%} of the variance; {_loadings(component, names)}"
    yield "all correlations and components are in --json"
    yield from found.notes


def _closest(found: Cohort) -> list[tuple[float, int, int]]:
    """Return the correlations that are largest in size, of numbers of different columns."""
    pairs = [
        (value, one, other)
        for one, other in combinations(range(len(found.figures)), 2)
        if found.figures[one].column != found.figures[other].column
        and (value := found.correlations[one][other]) is not None
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[0]))[:_PAIRS_SHOWN]


def _loadings(component: Component, names: list[str]) -> str:
    largest = sorted(range(len(component.loadings)), key=lambda place: -abs(component.loadings[place]))
    return ", ".join(
        f"{component.loadings[place]:+.2f} {names[place]}" for place in largest[:_LOADINGS_SHOWN]
    )


COMMANDS: Final[tuple[click.Command, ...]] = (cohort,)
"""The command of this module, which stands directly behind `odc`."""
