"""`odc-analyst plan`: what a round would cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

import typer

from analyst_server.cli_options import AsJson, HtmlFile, show_value, write_page
from analyst_server.pages.plan import plan_page, plan_text
from analyst_server.services import planning
from analyst_server.services.planning_sums import plan_sums
from protocol.errors import InputError
from protocol.terms import ANCHORS, RowType

T = TypeVar("T")


def plan(
    parties: Annotated[int, typer.Option(help="number of institutions, c")],
    features: Annotated[int, typer.Option(help="number of encoded features, m")],
    rows: Annotated[
        int | None, typer.Option(help="rows of each institution, n; they do not matter under sums")
    ] = None,
    latent_dim: Annotated[
        int | None, typer.Option(help="latent dimension, l: the numbers that a row becomes; not under sums")
    ] = None,
    model_parameters: Annotated[
        float | None,
        typer.Option(help="parameters of the model, N; may be written 25e6; under sums only for formula (7)"),
    ] = None,
    uplink: Annotated[
        Literal["rows", "sums"], typer.Option(help="what institutions send: projected rows, or masked sums")
    ] = "rows",
    random_features: Annotated[int, typer.Option(help="random features, under sums")] = 0,
    cohort: Annotated[bool, typer.Option("--cohort", help="under sums, the total comes back too")] = False,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="under sums, by class: for a quadratic-discriminant")
    ] = False,
    anchor_rows: Annotated[
        int | None, typer.Option(help="anchor rows in the formulas, a (default: m)")
    ] = None,
    bits: Annotated[int, typer.Option(help="bits per number in the formulas, q")] = 32,
    participation: Annotated[
        list[float] | None,
        typer.Option(help="share of parties in a federated round, p; may be repeated (default: 1, 0.1)"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="federated rounds to compare with, R (default: twice the break-even)")
    ] = None,
    rep_dtype: Annotated[str, typer.Option(help="number type in our terms: f2, f4, f8 or i1")] = "i1",
    anchor_kind: Annotated[str, typer.Option(help=f"anchor in our terms: {', '.join(ANCHORS)}")] = "haar",
    classes: Annotated[
        int, typer.Option(help="number of classes of the label; 1 for a number, under sums")
    ] = 2,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a round would cost, by the paper's formulas (3) to (8) and in our messages."""
    shared: dict[str, Any] = {"parties": parties, "features": features, "bits": bits, "rounds": rounds}
    shared["participation"] = tuple(participation or planning.PARTICIPATION)
    of_sums: dict[str, Any] = {"random_features": random_features, "cohort": cohort, "by_class": by_class}
    of_rows = {"latent_dim": latent_dim, "anchor_rows": anchor_rows}
    try:
        if uplink == "sums":
            _refuse(of_rows, "rows, not with sums")
            compared = None if model_parameters is None else round(model_parameters)
            of_sums |= {"outputs": classes, "federated_parameters": compared}
            found = plan_sums(planning.SumsScenario(**shared, **of_sums))
        else:
            _refuse(of_sums, "--uplink sums")
            scenario = planning.Scenario(
                rows=_needed("--rows", rows),
                anchor_rows=features if anchor_rows is None else anchor_rows,
                latent_dim=_needed("--latent-dim", latent_dim),
                model_parameters=round(_needed("--model-parameters", model_parameters)),
                rep_dtype=cast("RowType", rep_dtype),  # the scenario checks it
                anchor_kind=anchor_kind,
                classes=classes,
                **shared,
            )
            found = planning.plan(scenario)
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None
    write_page(html, plan_page, found)
    show_value(found.as_json(), as_json, lambda _: plan_text(found))


def _needed(option: str, value: T | None) -> T:
    """Return what was given for an option that a plan of rows needs."""
    if value is None:
        raise typer.BadParameter(f"a plan of rows needs {option}")
    return value


def _refuse(options: Mapping[str, object], fitting: str) -> None:
    """Raise `ValueError` if an option was given that goes with another uplink."""
    for name, value in options.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')} goes with {fitting}")
