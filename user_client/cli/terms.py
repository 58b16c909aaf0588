"""`odc terms`: draft, read and sign them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from protocol.codec import digest
from protocol.consent import plain_words_digest
from protocol.model_terms import revealing_in_words
from protocol.terms import Terms
from user_client.cli.desk import information_in_words, signal_in_words
from user_client.cli.drafting import draft
from user_client.cli.options import AsJson, CollaborationOption, TableArgument, open_session, show
from user_client.errors import TableError
from user_client.sdk import CheckedTable, check_table, plain_words

app = typer.Typer(no_args_is_help=True, help="The terms of a collaboration.")
app.command()(draft)


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
    """Check our table against the terms, signed or not: what does not fit; is latent_dim large enough."""
    with open_session(context) as session:
        terms = session.round(collaboration).fetch_terms(keep=False)
        found = check_table(terms, table, session.home.path)
    value = {
        "rows": found.rows,
        "features": terms.table_schema.width,
        "misfits": [{"code": error.code, "detail": error.detail} for error in found.misfits],
        "signal": asdict(found.signal) if found.signal else None,
        "information": asdict(found.information) if found.information else None,
    }
    show(as_json, value, lambda: _check_text(terms, found))
    if found.misfits:
        raise TableError(f"{len(found.misfits)} of {len(terms.table_schema.columns) + 1} columns do not fit")


def _check_text(terms: Terms, found: CheckedTable) -> str:
    if found.misfits:
        return "\n".join(error.detail for error in found.misfits)
    lines = [f"the table fits: {found.rows:,} rows of {terms.table_schema.width:,} encoded features"]
    if found.rows and terms.sums is None:  # of sums nothing is projected away
        lines.append(signal_in_words(found.signal, terms.least_signal))
    if found.information:
        lines.append(information_in_words(found.information))
    return "\n".join(lines)


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
            f"members may map rows inside the {revealing_in_words(terms.model)} back:"
            f" {party} has consented to that"
        )
    return "\n".join([*lines, "next: odc status"])
