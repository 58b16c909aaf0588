"""`odc terms`: draft, read and sign them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from protocol.codec import digest
from protocol.consent import plain_words_digest
from protocol.terms import Terms
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
from user_client.sdk import draft_terms, plain_words
from user_client.tables import misfits, read_table

app = typer.Typer(no_args_is_help=True, help="The terms of a collaboration.")


@app.command()
def draft(
    table: TableArgument,
    label: Annotated[str, typer.Option(help="column to predict")],
    party: Annotated[list[str], typer.Option(help="an institution; repeat for each, the lead first")],
    title: Annotated[str, typer.Option(help="title of the collaboration")] = "Untitled collaboration",
    latent_dim: Annotated[
        int | None, typer.Option(help="how many numbers a row becomes [default: half of the features]")
    ] = None,
    rep_dtype: Annotated[
        str, typer.Option(help="number type of what leaves: f2, f4, f8, or i1 for scaled 8-bit integers")
    ] = "f4",
    out_of_range: Annotated[
        str, typer.Option(help="what every institution does with a number outside its range: refuse or clip")
    ] = "refuse",
    exclude: Annotated[list[str] | None, typer.Option(help="column to leave out; repeat for more")] = None,
    nri: Annotated[
        bool,
        typer.Option(
            "--nri", help="every institution erases its basis, and receives predictions for the anchor"
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="where to write it")] = Path("terms.toml"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft terms from our own table, to be corrected by hand. Nothing is sent."""
    refuse_to_overwrite(out, force=force)
    drafted = draft_terms(
        table,
        label=label,
        parties=party,
        title=title,
        latent_dim=latent_dim,
        rep_dtype=rep_dtype,
        out_of_range=out_of_range,
        exclude=exclude or (),
        nri=nri,
    )
    write_whole(out, drafted.to_toml().encode())
    show(
        as_json,
        {"terms": str(out), "features": drafted.features, "latent_dim": drafted.latent_dim},
        lambda: (
            f"terms with {drafted.features} encoded features written to {out}\n"
            "check it line by line: every member will see the classes, levels, ranges and medians in it\n"
            "next: send the file to the analyst, who runs `odc-analyst collaboration create`"
        ),
    )


@app.command(name="show")
def show_(context: typer.Context, collaboration: CollaborationOption = None, as_json: AsJson = False) -> None:
    """Explain in plain words what leaves, what comes back and to whom."""
    with open_session(context) as session:
        terms = session.round(collaboration).fetch_terms()
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
    """Check our table against the terms, signed or not: list every column that does not fit, and why."""
    with open_session(context) as session:
        schema = session.round(collaboration).fetch_terms(keep=False).table_schema
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
    """Sign the terms together with the exact text that `odc terms show` prints."""
    with open_session(context) as session:
        chosen = session.round(collaboration)
        if not chosen.terms_were_shown:
            typer.echo(plain_words(chosen.fetch_terms()), err=True)
        terms = chosen.accept(accept_row_revealing_model=accept_row_revealing_model)
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
