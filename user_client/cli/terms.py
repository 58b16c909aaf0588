"""`odc terms`: draft, read and sign them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import tomli_w
import typer

from protocol.codec import digest
from protocol.consent import plain_words_digest
from protocol.errors import InputError
from protocol.terms import WELL_PREDICTED_ROWS, RowType, Terms
from runtime.files import write_whole
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    TableArgument,
    open_session,
    refuse_to_overwrite,
    show,
)
from user_client.errors import TableError
from user_client.sdk import accept_terms, fetch_terms, plain_words
from user_client.sdk.terms import were_shown
from user_client.tables import draft_schema, misfits, read_table

app = typer.Typer(no_args_is_help=True, help="The terms of a collaboration.")


@app.command()
def draft(
    table: TableArgument,
    label: Annotated[str, typer.Option(help="column to predict")],
    party: Annotated[list[str], typer.Option(help="an institution; repeat for each, the lead first")],
    title: Annotated[str, typer.Option(help="what the collaboration is called")] = "Untitled collaboration",
    latent_dim: Annotated[
        int | None, typer.Option(help="numbers a row becomes [default: half of the features]")
    ] = None,
    rep_dtype: Annotated[
        str, typer.Option(help="number type of what leaves: f2, f4, f8, or i1 for scaled 8-bit integers")
    ] = "f4",
    out_of_range: Annotated[
        str, typer.Option(help="what a number outside its range is at any institution: refuse or clip")
    ] = "refuse",
    exclude: Annotated[list[str] | None, typer.Option(help="column to leave out; repeat for more")] = None,
    nri: Annotated[
        bool,
        typer.Option("--nri", help="every institution forgets its basis: predictions for the anchor return"),
    ] = False,
    out: Annotated[Path, typer.Option(help="where to write it")] = Path("terms.toml"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft terms from our own table, to correct by hand and send to the analyst. Nothing is sent."""
    refuse_to_overwrite(out, force=force)
    if out_of_range not in ("refuse", "clip"):
        raise InputError(f"--out-of-range must be refuse or clip, got {out_of_range}")
    if rep_dtype not in get_args(RowType):
        raise InputError(f"--rep-dtype must be one of {', '.join(get_args(RowType))}, got {rep_dtype}")
    schema = draft_schema(read_table(table), label, exclude or (), out_of_range=out_of_range)
    features = sum(
        len(column["levels"]) if column["kind"] == "categorical" else 1 for column in schema["columns"]
    )
    wanted = latent_dim if latent_dim is not None else max(1, features // 2)
    if not 1 <= wanted <= features:
        raise InputError(f"latent dimension must lie between 1 and the {features} features, got {wanted}")
    content: dict[str, Any] = {
        "title": title,
        "purpose": "",
        "parties": party,
        "lead": party[0],
        "latent_dim": wanted,
        "rep_dtype": rep_dtype,
        **(_forgetting(features) if nri else {"anchor": {"kind": "haar", "rows": features}}),
        "alignment": {"method": "isotropic"},
        "model": {"kind": "mlp", "hidden_units": 256, "learning_rate": 0.002},
        "table_schema": schema,
    }
    write_whole(out, tomli_w.dumps(content).encode())
    show(
        as_json,
        {"terms": str(out), "features": features, "latent_dim": wanted},
        lambda: (
            f"terms with {features} encoded features written to {out}\n"
            "check it line by line: classes, levels, ranges and medians of this table go to every member\n"
            "next: send the file to the analyst, who runs `odc-analyst collaboration create`"
        ),
    )


def _forgetting(features: int) -> dict[str, Any]:
    """What terms of the NRI-DC mode say otherwise (docs/nri.md)."""
    return {
        "downlink": "anchor-predictions",
        "anchor": {"kind": "gaussian", "rows": WELL_PREDICTED_ROWS * features},
    }


@app.command(name="show")
def show_(context: typer.Context, collaboration: CollaborationOption = None, as_json: AsJson = False) -> None:
    """Say in plain words what leaves, what comes back and to whom."""
    with open_session(context) as session:
        terms = fetch_terms(session, session.choose(collaboration))
    show(
        as_json,
        {
            **terms.model_dump(mode="json"),
            "plain_words": plain_words(terms),
            "shown_digest": plain_words_digest(terms).hex(),
            "terms_digest": digest(terms).hex(),
        },
        lambda: (
            f"{plain_words(terms)}\nTerms:     {digest(terms).hex()}\n"
            f"This text: {plain_words_digest(terms).hex()}"
        ),
    )


@app.command()
def check(
    context: typer.Context,
    table: TableArgument,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Hold our table to the terms, signed or not: every column that does not fit, and why."""
    with open_session(context) as session:
        schema = fetch_terms(session, session.choose(collaboration), keep=False).table_schema
    rows = read_table(table)
    found = misfits(rows, schema)
    value = {
        "rows": rows.num_rows,
        "features": schema.width,
        "misfits": [{"code": error.code, "detail": error.detail} for error in found],
    }
    show(as_json, value, lambda: _check_text(rows.num_rows, schema.width, found))
    if found:
        raise TableError(f"{len(found)} of {len(schema.columns) + 1} columns do not fit")


def _check_text(rows: int, features: int, found: Sequence[TableError]) -> str:
    if found:
        return "\n".join(error.detail for error in found)
    return f"the table fits: {rows:,} rows of {features:,} encoded features"


@app.command()
def accept(
    context: typer.Context,
    collaboration: CollaborationOption = None,
    accept_row_revealing_model: Annotated[
        bool,
        typer.Option(
            "--accept-row-revealing-model",
            help="consent to a model that lets members map projected rows of others back",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sign the terms, and with them the very text that `odc terms show` prints."""
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        if not were_shown(session, chosen):
            typer.echo(plain_words(fetch_terms(session, chosen)), err=True)
        terms = accept_terms(
            session,
            chosen,
            accept_row_revealing_model=accept_row_revealing_model,
        )
        party = session.membership.party
    value = {
        "collaboration_id": terms.collaboration_id,
        "party": party,
        "terms_digest": digest(terms).hex(),
        "shown_digest": plain_words_digest(terms).hex(),
        "accept_row_revealing_model": accept_row_revealing_model,
    }
    show(as_json, value, lambda: _accepted_text(party, terms))


def _accepted_text(party: str, terms: Terms) -> str:
    lines = [
        f"{party} has signed the terms of '{terms.title}' and the text {plain_words_digest(terms).hex()}"
    ]
    if terms.is_row_revealing:
        lines.append(
            f"members may map rows inside the {terms.model.kind} back: {party} has consented to that"
        )
    return "\n".join([*lines, "next: odc status"])
