"""The privacy desk at a terminal: our policy, and the questions before anything leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from protocol.model_terms import revealing_in_words
from protocol.terms import Terms
from protocol.texts import visible
from runtime.command_line import as_json_option
from runtime.terminal import printable
from user_client.cli.options import can_ask, declined, is_agreed, open_session, show
from user_client.errors import ConfirmationNeededError, TableError
from user_client.sdk.consumer import check_consumer
from user_client.sdk.policy import Policy
from user_client.sdk.prepared import Prepared
from user_client.sdk.round import Round
from user_client.tables import Misfit, Source
from user_client.words import summary_in_words


@click.command()
@click.option(
    "--max-exact-rows", type=float, help="largest share of rows that an attack may rebuild, e.g. 0.01"
)
@click.option(
    "--max-found-columns", type=int, help="largest number of columns that may be found without the basis"
)
@click.option("--min-hidden-bits", type=float, help="fewest bits of a row that cannot leave, e.g. 8")
@click.option("--never", multiple=True, help="column that no terms may name; repeat for all of them")
@click.option("--clear", is_flag=True, help="begin with a policy that limits nothing")
@as_json_option
@click.pass_context
def policy(
    context: click.Context,
    max_exact_rows: float | None,
    max_found_columns: int | None,
    min_hidden_bits: float | None,
    never: tuple[str, ...],
    clear: bool,
    as_json: bool,
) -> None:
    """Show or set what attacks on our own rows may find at most. Beyond it, `odc contribute` refuses."""
    with open_session(context) as session:
        before = Policy.of(session.home)
        given = {
            "max_exact_rows": max_exact_rows,
            "max_found_columns": max_found_columns,
            "min_hidden_bits": min_hidden_bits,
            "never": tuple(never) if never else None,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        chosen = (Policy() if clear or before is None else before).changed(**changes)
        if changes or clear:
            chosen.store(session.home)
    show(as_json, chosen.model_dump(mode="json"), lambda: _policy_text(chosen))


def _policy_text(policy: Policy) -> str:
    lines = []
    if policy.max_exact_rows is not None:
        lines.append(f"an attack may rebuild at most {policy.max_exact_rows:.1%} of the rows in every column")
    if policy.max_found_columns is not None:
        lines.append(f"at most {policy.max_found_columns} columns may be found without the basis")
    if policy.min_hidden_bits is not None:
        lines.append(f"at least {policy.min_hidden_bits:g} bits of a row must stay here")
    lines += [f"no terms may name the column {name}" for name in policy.never]
    return "\n".join(lines or ["there is no policy: nothing is limited"])


def does_not_fit(found: Sequence[Misfit], *, are_published: bool) -> TableError:
    """Return the error that a command ends with once it has shown what of a table does not fit terms."""
    columns = len({misfit.column for misfit in found})
    error = TableError(f"{columns} column{'s do' if columns > 1 else ' does'} not fit the terms")
    published = ", which the analyst publishes in place of these (--replaces)" if are_published else ""
    error.hint = f"correct the table, or ask the lead for terms with the lines that the fixes name{published}"
    return error


def prepared_in_words(prepared: Prepared, refused: Sequence[str], picture: Path | None) -> str:
    """Return what would leave and its risk, for people, and what comes next."""
    words = summary_in_words(prepared, refused, picture)
    return f"{words}\nnothing was sent" + ("" if refused else "\nnext: odc contribute")


def agree_to_sign(terms: Terms, party: str, *, row_revealing: bool) -> bool:
    """Ask whether terms may be signed; return whether a row-revealing model of theirs is consented to.

    Raises
    ------
    ConfirmationNeededError
        If somebody says no to either.
    """
    if terms.is_row_revealing and not row_revealing:
        kinds = revealing_in_words(terms.model)
        if not is_agreed(f"The model ({kinds}) lets members map rows of others back. Consent to that?"):
            raise declined("nothing was signed")
    if not is_agreed(f"Sign these terms for {party}?"):
        error = declined("nothing was signed")
        error.hint = "`odc terms reject --reason TEXT` tells the others why; run the command again to sign"
        raise error
    return terms.is_row_revealing


def agree_to_send(
    chosen: Round,
    prepared: Prepared,
    *,
    yes: bool,
    consumer: bool,
    table: Source | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Show what would leave and ask whether it may.

    Parameters
    ----------
    table : Source, optional
        What it was prepared from, if that was just now.
    warnings : sequence of str
        What a person should look at in that table, unless it was said before.

    Raises
    ------
    ConfirmationNeededError
        If nobody agrees, or no row would leave of a party that the terms expect rows of.
    """
    check_consumer(chosen.terms, chosen.party, prepared, is_meant=consumer)
    if yes:
        return
    if not can_ask():
        raise ConfirmationNeededError("nobody has agreed to send, and there is no terminal to ask at")
    lines = [summary_in_words(prepared, is_short=True), *(f"warning: {visible(line)}" for line in warnings)]
    click.echo("\n".join(lines), err=True)
    what = "this" if table is None else f"this, from {printable(str(table.place))},"
    question = f"Send {what} for '{printable(chosen.terms.title)}'? It cannot be taken back."
    if not is_agreed(question):
        raise declined("nothing was sent")


COMMANDS: Final[tuple[click.Command, ...]] = (policy,)
"""The commands of this module that stand directly behind `odc`."""
