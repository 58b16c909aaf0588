"""`odc terms`: draft, read and sign them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from protocol.codec import digest
from protocol.consent import plain_words, plain_words_digest
from protocol.model_terms import revealing_in_words
from protocol.terms import Terms
from runtime.command_line import PATH, InOrder, as_json_option
from runtime.drafts import terms_of_draft
from user_client.cli.desk import agree_to_sign, does_not_fit
from user_client.cli.drafting import draft
from user_client.cli.options import can_ask, collaboration_option, open_session, round_of, show
from user_client.cli.progress import reading
from user_client.cli.table_options import reads_table, table_argument
from user_client.sdk.consortium import never_invited
from user_client.sdk.corrections import differences
from user_client.sdk.terms import check_table, reject_terms
from user_client.tables import Source
from user_client.words import checked_in_words, differences_in_words, on_screen

_NO_ID: Final = 32 * "0"
"""A draft has no ids yet."""
app = InOrder("terms", help="The terms of a collaboration.")
app.add_command(draft)


@app.command(name="show")
@collaboration_option
@as_json_option
@click.pass_context
def show_(context: click.Context, collaboration: str | None, as_json: bool) -> None:
    """Explain in plain words what leaves, what comes back and to whom."""
    with open_session(context) as session:
        terms = round_of(session, collaboration, as_json=as_json, running=True).fetch_terms()
        differs = differences(session, terms)
    show(
        as_json,
        {
            **terms.model_dump(mode="json"),
            "plain_words": plain_words(terms),
            "differences": differs,
            "shown_digest": plain_words_digest(terms).hex(),
            "terms_digest": digest(terms).hex(),
        },
        lambda: (
            f"{differences_in_words(terms, differs)}{on_screen(terms)}\nTerms:     {digest(terms).hex()}\n"
            f"This text: {plain_words_digest(terms).hex()}"
        ),
    )


@app.command()
@table_argument
@click.option("--terms", "draft_file", type=PATH, help="a draft (TOML or JSON) that is not published yet")
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def check(
    context: click.Context, table: Source, draft_file: Path | None, collaboration: str | None, as_json: bool
) -> None:
    """Check our table against terms, drafted, published or signed: what does not fit, what would leave."""
    with open_session(context) as session:
        strangers: list[str] = []
        if draft_file is None:
            terms = round_of(session, collaboration, as_json=as_json, running=True).fetch_terms(keep=False)
        else:
            terms = terms_of_draft(draft_file, consortium_id=_NO_ID, collaboration_id=_NO_ID)
            strangers = never_invited(session, terms.parties)
        scratch = session.home.path if session.is_joined() else None
        party = session.membership.party if session.is_joined() else None
        with reading(as_json, table, "comparing the table with the terms") as watched:
            found = check_table(terms, watched, scratch, party=party)
    value = {
        "rows": found.rows,
        "features": found.features,
        "misfits": [misfit.to_json() for misfit in found.misfits],
        "signal": asdict(found.signal) if found.signal else None,
        "to_choose_from": [asdict(one) for one in found.to_choose_from],
        "information": asdict(found.information) if found.information else None,
        "isolated": asdict(found.isolated) if found.isolated else None,
        "banded": {name: asdict(told) for name, told in found.banded.items()},
        "remarks": list(found.remarks),
        "unused": list(found.unused.columns),
        "columns": [column.to_json() for column in found.profile],
        "never_invited": strangers,
    }
    show(as_json, value, lambda: "\n".join([*_strange(strangers), checked_in_words(terms, found)]))
    if found.misfits:
        raise does_not_fit(found.misfits, are_published=draft_file is None)


def _strange(parties: list[str]) -> list[str]:
    return [
        f"{party} has neither a certificate nor an invitation, and the round would wait for it: correct the"
        f" name, or run `odc consortium invite {party}`"
        for party in parties
    ]


@app.command()
@collaboration_option
@click.option(
    "--accept-row-revealing-model",
    is_flag=True,
    help="consent to a model that lets members map projected rows of others back",
)
@click.option("--yes", is_flag=True, help="do not ask; without a terminal nobody is asked")
@as_json_option
@click.pass_context
def accept(
    context: click.Context,
    collaboration: str | None,
    accept_row_revealing_model: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Sign the terms together with the exact text that `odc terms show` prints."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True)
        if chosen.terms_were_shown:
            found = chosen.directory.load(Terms)
        else:
            found = chosen.fetch_terms()
            click.echo(differences_in_words(found, differences(session, found)) + on_screen(found), err=True)
        party = session.membership.party
        if not yes and can_ask():
            accept_row_revealing_model = agree_to_sign(found, party, row_revealing=accept_row_revealing_model)
        terms = chosen.accept(accept_row_revealing_model=accept_row_revealing_model)
    value = {
        "collaboration_id": terms.collaboration_id,
        "party": party,
        "terms_digest": digest(terms).hex(),
        "shown_digest": plain_words_digest(terms).hex(),
        "accept_row_revealing_model": accept_row_revealing_model,
    }
    show(as_json, value, lambda: _accepted_text(party, terms))


@app.command()
@click.option("--reason", required=True, help="why; all members and the analyst's operator read it")
@collaboration_option
@as_json_option
@click.pass_context
def reject(context: click.Context, reason: str, collaboration: str | None, as_json: bool) -> None:
    """Say why we do not sign the terms. Signing them later is still possible."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True)
        reject_terms(session, chosen.id, reason)
    show(
        as_json,
        {"collaboration_id": chosen.id, "rejected": reason},
        lambda: "rejected; the analyst's operator publishes other terms, or cancels\nnext: odc wait",
    )


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
