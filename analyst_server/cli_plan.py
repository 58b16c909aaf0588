"""`odc-analyst plan`: what a round would cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

import click

from analyst_server.cli_options import html_file_option, show_value, write_page
from analyst_server.pages.plan import plan_page, plan_text
from analyst_server.services import planning
from analyst_server.services.planning_sums import plan_sums
from analyst_server.services.predicting import predict
from analyst_server.services.work import Model, Probes
from protocol.anchor_terms import ANCHORS
from protocol.errors import InputError
from protocol.messages import DTYPE_BYTES
from protocol.model_terms import AveragedTerms, LogisticTerms
from protocol.terms import RowType, Terms
from runtime.command_line import PATH, as_json_option
from runtime.drafts import terms_of_draft

T = TypeVar("T")
NO_IDS: Final = {"consortium_id": "0" * 32, "collaboration_id": "0" * 32}
"""A draft has none, and a plan needs none."""
DEFAULT_CLASSES: Final = 2
_OF_ROWS: Final = ("latent_dim", "rep_dtype", "anchor_kind", "anchor_rows", "label_bytes")


@click.command()
@click.option("--parties", type=int, help="number of institutions, c")
@click.option("--features", type=int, help="number of encoded features, m")
@click.option(
    "--terms",
    type=PATH,
    help="draft of terms (TOML or JSON) that says all but rows and model parameters;"
    " --latent-dim with it plans another latent dimension",
)
@click.option("--rows", type=int, help="rows of each institution, n; they do not matter under sums")
@click.option(
    "--latent-dim", type=int, help="latent dimension, l: the numbers that a row becomes; not under sums"
)
@click.option(
    "--model-parameters",
    type=float,
    help="parameters of the model, N; may be written 25e6; under sums only for formula (7)",
)
@click.option(
    "--uplink",
    type=click.Choice(["rows", "sums"]),
    help="what institutions send: projected rows (the default), or masked sums",
)
@click.option("--random-features", type=int, default=0, help="random features, under sums")
@click.option("--cohort", is_flag=True, help="under sums, the total comes back too")
@click.option("--by-class", is_flag=True, help="under sums, by class: for a quadratic-discriminant")
@click.option("--anchor-rows", type=int, help="anchor rows in the formulas, a (default: m)")
@click.option("--bits", type=int, default=32, help="bits per number in the formulas, q")
@click.option(
    "--participation",
    type=float,
    multiple=True,
    help="share of parties in a federated round, p; may be repeated (default: 1, 0.1)",
)
@click.option(
    "--rounds", type=int, help="federated rounds to compare with, R (default: twice the break-even)"
)
@click.option("--rep-dtype", help="number type in our terms: f2, f4, f8 or i1 (default: i1)")
@click.option("--anchor-kind", help=f"anchor in our terms: {', '.join(ANCHORS)} (default: haar)")
@click.option(
    "--classes", type=int, help="number of classes of the label; 1 for a number, under sums (default: 2)"
)
@click.option(
    "--measure", is_flag=True, help="predict seconds on this machine, by a second of small measurements of it"
)
@html_file_option
@as_json_option
def plan(
    parties: int | None,
    features: int | None,
    terms: Path | None,
    rows: int | None,
    latent_dim: int | None,
    model_parameters: float | None,
    uplink: Literal["rows", "sums"] | None,
    random_features: int,
    cohort: bool,
    by_class: bool,
    anchor_rows: int | None,
    bits: int,
    participation: tuple[float, ...],
    rounds: int | None,
    rep_dtype: str | None,
    anchor_kind: str | None,
    classes: int | None,
    measure: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show what a round would cost: formulas (3) to (8), our messages, and predicted time and memory."""
    shared: dict[str, Any] = {"bits": bits, "rounds": rounds}
    shared["participation"] = tuple(participation or planning.PARTICIPATION)
    chosen: dict[str, Any] = {"parties": parties, "features": features, "uplink": uplink, "classes": classes}
    of_sums: dict[str, Any] = {"random_features": random_features, "cohort": cohort, "by_class": by_class}
    of_rows: dict[str, Any] = dict.fromkeys(_OF_ROWS)
    of_rows |= {"rep_dtype": rep_dtype, "anchor_kind": anchor_kind, "anchor_rows": anchor_rows}
    model: Model | None = AveragedTerms()
    is_isotropic = True
    try:
        if terms is not None:
            _refuse({**chosen, **of_sums, **of_rows}, "a plan without --terms, which say it")
            draft = terms_of_draft(terms, **NO_IDS)
            chosen, of_sums, of_rows = _symbols(draft)
            model, is_isotropic = _model_of(draft), draft.alignment.method == "isotropic"
        if latent_dim is not None or terms is None:
            of_rows["latent_dim"] = latent_dim
        for name in ("parties", "features"):
            shared[name] = _needed(f"--{name}, or --terms", chosen[name], of="a round")
        if chosen["uplink"] == "sums":
            _refuse({name: of_rows[name] for name in ("latent_dim", "anchor_rows")}, "rows, not with sums")
            found = _plan_of_sums(shared, of_sums, chosen["classes"], model_parameters)
        else:
            _refuse(of_sums, "--uplink sums")
            found = _plan_of_rows(shared, of_rows, chosen["classes"], rows, model_parameters)
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None
    prediction = None
    if isinstance(found.scenario, planning.Scenario):
        prediction = predict(found.scenario, model=model, is_isotropic=is_isotropic, probes=_probes(measure))
    write_page(html, lambda plan: plan_page(plan, prediction), found)
    shown = {**found.as_json(), "predicted": prediction.as_json() if prediction else None}
    show_value(shown, as_json, lambda _: plan_text(found, prediction))


def _probes(measure: bool) -> Probes | None:
    """Return how fast this machine is, if that is asked for."""
    if not measure:
        return None
    from analyst_server.services import probing

    return probing.measure()


def _model_of(terms: Terms) -> Model | None:
    """Return the model of terms if its training has a law: one for all, of classes, without privacy."""
    model = terms.model
    if terms.task != "classes" or terms.model_privacy is not None or terms.model_groups is not None:
        return None
    return model if isinstance(model, AveragedTerms | LogisticTerms) else None


def _plan_of_sums(
    shared: Mapping[str, Any],
    of_sums: Mapping[str, Any],
    outputs: int | None,
    federated_parameters: float | None,
) -> planning.Plan:
    compared = None if federated_parameters is None else round(federated_parameters)
    return plan_sums(
        planning.SumsScenario(
            outputs=outputs or DEFAULT_CLASSES, federated_parameters=compared, **of_sums, **shared
        )
    )


def _plan_of_rows(
    shared: Mapping[str, Any],
    of_rows: Mapping[str, Any],
    classes: int | None,
    rows: int | None,
    model_parameters: float | None,
) -> planning.Plan:
    scenario = planning.Scenario(
        rows=_needed("--rows", rows),
        anchor_rows=shared["features"] if of_rows["anchor_rows"] is None else of_rows["anchor_rows"],
        latent_dim=_needed("--latent-dim", of_rows["latent_dim"]),
        model_parameters=round(_needed("--model-parameters", model_parameters)),
        rep_dtype=cast("RowType", of_rows["rep_dtype"] or "i1"),  # the scenario checks it
        anchor_kind=of_rows["anchor_kind"] or "haar",
        classes=classes or DEFAULT_CLASSES,
        label_bytes=of_rows["label_bytes"] or 0,
        **shared,
    )
    return planning.plan(scenario)


def _symbols(terms: Terms) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what terms say of every round, of sums and of rows; the last two are empty of the other's."""
    sums, label = terms.sums, terms.table_schema.label_column
    chosen = {
        "parties": len(terms.parties),
        "features": terms.table_schema.width,
        "uplink": "rows" if sums is None else "sums",
        "classes": label.outputs if sums is not None or label.task == "classes" else None,
    }
    if sums is not None:
        by_class = terms.model.kind == "quadratic-discriminant"
        of_sums = {"random_features": sums.random_features, "cohort": bool(sums.cohort), "by_class": by_class}
        return chosen, of_sums, dict.fromkeys(_OF_ROWS)
    of_rows = {
        "latent_dim": terms.latent_dim,
        "rep_dtype": terms.rep_dtype,
        "anchor_kind": terms.anchor.kind,
        "anchor_rows": terms.anchor.rows,
        "label_bytes": None if label.task == "classes" else DTYPE_BYTES[label.wire_dtype],
    }
    return chosen, {}, of_rows


def _needed(option: str, value: T | None, *, of: str = "rows") -> T:
    """Return what was given for an option that a plan needs."""
    if value is None:
        raise click.BadParameter(f"a plan of {of} needs {option}")
    return value


def _refuse(options: Mapping[str, object], fitting: str) -> None:
    """Raise `ValueError` if an option was given that goes with another uplink."""
    for name, value in options.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')} goes with {fitting}")
