"""A round in one sitting, made of the same use cases as its commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from protocol.answers import Status
from protocol.terms import Terms
from protocol.texts import visible
from runtime.command_line import as_json_option
from runtime.terminal import printable
from user_client.cli.desk import agree_to_send, agree_to_sign, does_not_fit
from user_client.cli.options import can_ask, collaboration_option, open_session, round_of, show
from user_client.cli.progress import busy, reading, upload_progress
from user_client.cli.table_options import reads_table, table_argument
from user_client.cli.where import WAITING, news
from user_client.errors import ConfirmationNeededError
from user_client.sdk.answers import own_entry
from user_client.sdk.corrections import differences
from user_client.sdk.next_steps import NextStep, next_step, status_after, wait_for_terms
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.round import Round
from user_client.sdk.session import Session
from user_client.sdk.terms import CheckedTable, check_table
from user_client.tables import Source, read_parts
from user_client.words import (
    checked_in_words,
    differences_in_words,
    misfits_in_words,
    on_screen,
    risk_in_words,
    summary_in_words,
)

_A_DAY_S: Final = 86_400.0


@click.command("round")
@table_argument
@click.option("--yes", is_flag=True, help="sign the terms and send without asking, as a script needs it")
@click.option("--accept-row-revealing-model", is_flag=True, help="as for `odc terms accept`")
@click.option("--accept-signal-loss", is_flag=True, help="as for `odc contribute`")
@click.option("--consumer", is_flag=True, help="as for `odc contribute`")
@click.option("--own-map", help="as for `odc prepare`")
@click.option("--wait", type=float, default=_A_DAY_S, help="seconds to wait for others")
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def round_(
    context: click.Context,
    table: Source,
    yes: bool,
    accept_row_revealing_model: bool,
    accept_signal_loss: bool,
    consumer: bool,
    own_map: str | None,
    wait: float,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Walk a round: read and sign the terms, anchor (the lead), prepare, contribute, wait, receive.

    It asks before it signs and before it sends. After an interruption, run it again: it goes on where
    it stopped.
    """
    if not table.is_database:  # what cannot be read is said before terms are waited for and signed
        next(read_parts(table), None)
    with open_session(context) as session:
        listed: list[Status] = []
        if collaboration is None:
            with busy(as_json, "waiting for terms"):
                listed = wait_for_terms(session, wait_s=wait)
        chosen = round_of(session, collaboration, as_json=as_json, running=True, listed=listed)
        at_first = [row for row in listed if row["collaboration_id"] == chosen.id]
        sitting = _Sitting(
            session,
            chosen,
            table,
            PrivacyOptions(own_map=own_map),
            at_first[0] if at_first else chosen.status(),
            yes=yes,
            consumer=consumer,
            row_revealing=accept_row_revealing_model,
            signal_loss=accept_signal_loss,
            wait_s=wait,
            as_json=as_json,
        )
        step = sitting.walk()
    if not (sitting.is_read or as_json):
        place = printable(str(table.place))
        click.echo(f"{place} was not read: no step of this round needs a table now", err=True)
    value = {"collaboration_id": chosen.id, "state": sitting.status["state"], "next": step.words}
    show(as_json, value, lambda: f"{value['state']}\nnext: {step.words}")


@dataclass
class _Sitting:
    """A round that is walked in one sitting: with what, and what may be done without a question."""

    session: Session
    chosen: Round
    table: Source
    options: PrivacyOptions
    status: Status
    yes: bool
    consumer: bool
    row_revealing: bool
    signal_loss: bool
    wait_s: float
    as_json: bool
    is_compared: bool = False
    """Whether somebody has just seen what the terms find in the table."""
    is_read: bool = False
    """Whether a step needed the table."""

    def walk(self) -> NextStep:
        """Take every step that is ours, and wait for others; return the step that is not of a round."""
        do: dict[str, Callable[[], object]] = {
            "accept": self.accept,
            "anchor": self.chosen.create_anchor,
            "contribute": self.contribute,
            "receive": partial(self.chosen.receive, wait_s=self.wait_s),
        }
        while (step := next_step(self.status, self.chosen.directory)).kind in (*do, "wait"):
            click.echo(visible(f"{self.status['state']}: {_under_way(step)}"), err=True)
            if step.kind == "wait":
                with busy(self.as_json, WAITING) as say:
                    self.status = news(self.session, self.chosen, self.status, say, wait_s=self.wait_s)
            else:
                do[step.kind]()
                if step.kind != "receive":  # what follows that is told by what is stored here
                    with busy(self.as_json, WAITING):
                        self.status = status_after(
                            self.session, self.chosen.id, step, self.status, wait_s=self.wait_s
                        )
        return step

    def accept(self) -> None:
        """Show the terms and what they find in our table, ask, and sign."""
        terms = self.chosen.fetch_terms()
        click.echo(differences_in_words(terms, differences(self.session, terms)) + on_screen(terms), err=True)
        found = self._compared(terms)
        click.echo(checked_in_words(terms, found, is_short=True), err=True)
        if found.misfits:
            raise does_not_fit(found.misfits, are_published=True)
        if not self.yes and not can_ask():
            raise ConfirmationNeededError(
                "nobody has agreed to these terms, and there is no terminal to ask at"
            )
        consents = self.row_revealing
        if not self.yes:
            consents = agree_to_sign(terms, self.chosen.party, row_revealing=consents)
        self.chosen.accept(accept_row_revealing_model=consents)
        self.is_compared = self.is_read = True

    def contribute(self) -> None:
        """Prepare the table, show what would leave and its risk, ask, and send.

        Whoever has signed before may name another table now: it is compared with the terms again, unless an
        upload goes on.
        """
        self.is_read = True
        warnings = [] if self.is_compared or self._is_uploading() else self._warnings()
        with reading(self.as_json, self.table, "preparing the table, attacking our own rows") as watched:
            prepared = self.chosen.prepare(watched, self.options, attacks="quick")
        if self.yes:  # who is asked is shown the same
            lines = [summary_in_words(prepared, self.chosen.policy_violations(), is_short=True)]
            click.echo("\n".join([*lines, *(f"warning: {visible(line)}" for line in warnings)]), err=True)
        with upload_progress(self.as_json) as progress:
            self.chosen.contribute(
                accept_signal_loss=self.signal_loss,
                progress=progress,
                confirm=partial(
                    agree_to_send,
                    self.chosen,
                    yes=self.yes,
                    consumer=self.consumer,
                    table=self.table,
                    warnings=warnings,
                ),
            )

    def _compared(self, terms: Terms) -> CheckedTable:
        with reading(self.as_json, self.table, "comparing the table with the terms") as watched:
            return check_table(terms, watched, self.session.home.path, party=self.chosen.party)

    def _warnings(self) -> list[str]:
        """Return what a person should look at in the table; raises `TableError` if it does not fit."""
        found = self._compared(self.chosen.terms)
        if found.misfits:
            click.echo(misfits_in_words(found.misfits), err=True)
            raise does_not_fit(found.misfits, are_published=True)
        return risk_in_words(self.chosen.terms, found)[0]

    def _is_uploading(self) -> bool:
        ours = own_entry(self.status)
        return ours is not None and ours["uplink"] == "receiving"


def _under_way(step: NextStep) -> str:
    """Return what a round in one sitting does now: it needs no command for it."""
    words = {
        "accept": "reading the terms",
        "anchor": "sealing the anchor for all members",
        "contribute": "preparing our table",
        "receive": "fetching the model",
    }
    return words.get(step.kind) or f"waiting {step.awaited}"
