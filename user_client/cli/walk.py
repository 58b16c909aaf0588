"""Where we are, what comes next, and a round in one sitting, made of the same use cases as its commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypedDict

import click

from protocol.answers import Status
from protocol.errors import InputError, ProtocolError
from protocol.states import State
from runtime.command_line import as_json_option
from runtime.standing import progress_words
from runtime.terminal import printable
from user_client.cli.desk import agree_to_send, does_not_fit
from user_client.cli.options import (
    can_ask,
    collaboration_option,
    declined,
    is_agreed,
    open_session,
    round_of,
    show,
)
from user_client.cli.progress import busy, reading, upload_progress
from user_client.cli.table_options import TABLE, reads_table, table_argument
from user_client.errors import ConfirmationNeededError, NotPreparedError
from user_client.sdk.approval import waiting_requests
from user_client.sdk.conformance import Check, try_analyst
from user_client.sdk.corrections import differences
from user_client.sdk.doctor import Finding, examine
from user_client.sdk.next_steps import NextStep, next_step, status_after, wait_for_change, wait_for_terms
from user_client.sdk.privacy import PrivacyOptions
from user_client.sdk.round import Round
from user_client.sdk.session import Session, named
from user_client.sdk.terms import CheckedTable, check_table
from user_client.tables import Source, read_parts
from user_client.words import checked_in_words, differences_in_words, on_screen, summary_in_words

_A_DAY_S: Final = 86_400.0

_FIRST_OF_LEAD: Final = (
    "odc consortium invite PARTY, and once all have joined odc terms draft TABLE, which the analyst publishes"
)
_FIRST_OF_MEMBER: Final = "odc round TABLE, which waits until the analyst publishes the terms"


class Standing(TypedDict):
    """One collaboration, and what comes next in it."""

    collaboration_id: str
    title: str
    state: str
    next: str


class Where(TypedDict):
    """Where this institution is, as ``odc --json`` prints it."""

    home: str
    party: str | None
    """None before a membership, as the two behind it."""
    consortium: str | None
    analyst: str | None
    waiting_for_certificates: list[str]
    """Whom the lead has to approve, if its directory needs no passphrase."""
    collaborations: list[Standing]
    next: str | None
    """What comes next outside of collaborations."""


def where(session: Session) -> Where:
    """Return where this institution is and what it does next."""
    found: Where = {
        "home": str(session.home.path),
        "party": None,
        "consortium": None,
        "analyst": None,
        "waiting_for_certificates": [],
        "collaborations": [],
        "next": None,
    }
    if not session.is_joined():
        step = "odc join" if session.home.invitation_path.exists() else "odc join INVITATION"
        return {**found, "next": f"{step}, or the lead: odc consortium create"}
    membership = session.membership
    found |= {
        "party": membership.party,
        "consortium": membership.consortium,
        "analyst": membership.analyst_url,
        "collaborations": [_standing(session, row) for row in session.collaborations()],
    }
    if session.home.root_key_path.exists() and not session.home.is_protected():
        waiting, _ = waiting_requests(session)
        found["waiting_for_certificates"] = [one.identity.name for one in waiting]
    if found["waiting_for_certificates"]:
        found["next"] = "odc consortium approve"
    elif all(row["state"] == State.CANCELLED for row in found["collaborations"]):
        found["next"] = _FIRST_OF_LEAD if membership.role == "lead" else _FIRST_OF_MEMBER
    return found


def _standing(session: Session, row: Status) -> Standing:
    chosen = session.round(row["collaboration_id"])
    return {
        "collaboration_id": row["collaboration_id"],
        "title": row["title"],
        "state": row["state"],
        "next": next_step(row, chosen.directory).words,
    }


def where_in_words(found: Where) -> str:
    """Return the same for people."""
    if found["party"] is None:
        return f"no membership in {found['home']}\nnext: {found['next']}"
    lines = [f"{found['party']} in {printable(found['consortium'] or '')}, analyst {found['analyst']}"]
    if waiting := found["waiting_for_certificates"]:
        lines.append(f"{', '.join(waiting)} waits for a certificate")
    if not found["collaborations"]:
        lines.append("no collaboration names this institution yet")
    if found["next"]:
        lines.append(f"next: {found['next']}")
    shown = [row for row in found["collaborations"] if row["state"] != State.CANCELLED]
    if cancelled := len(found["collaborations"]) - len(shown):
        lines.append(f"cancelled, and not shown: {cancelled} (odc --json names them)")
    for row in shown:
        lines.append(f"{printable(named(row['title'], row['collaboration_id']))}: {row['state']}")
        lines.append(f"  next: {row['next']}")
    return "\n".join(lines)


@click.command()
@click.option("--timeout", "seconds", type=float, default=3600, help="seconds after which to give up")
@collaboration_option
@as_json_option
@click.pass_context
def wait(context: click.Context, seconds: float, collaboration: str | None, as_json: bool) -> None:
    """Wait until something changes that concerns us; end at once if a step is ours."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json, running=True)
        status = chosen.status()
        if next_step(status, chosen.directory).kind == "wait":
            with busy(as_json, _WAITING) as say:
                _news(session, chosen, status, say, wait_s=seconds)
            status = chosen.status()
        step = next_step(status, chosen.directory)
    value = {"collaboration_id": chosen.id, "state": status["state"], "next": step.words}
    show(as_json, value, lambda: f"{status['state']}\nnext: {step.words}")


@click.command()
@click.argument("table", type=TABLE, required=False, help="also compare its columns with our terms")
@as_json_option
@reads_table
@click.pass_context
def doctor(context: click.Context, table: Source | None, as_json: bool) -> None:
    """Look for the usual troubles, and say what to do: clock, certificate, proxy, port, disk, columns."""
    with open_session(context, attempts=1) as session:
        found = examine(session, table)
    wrong = [one for one in found if one.fix]
    show(as_json, {"findings": [one.to_json() for one in found]}, lambda: "\n".join(map(_finding, found)))
    if wrong:
        error = InputError(f"{len(wrong)} of {len(found)} checks found a problem")
        error.hint = "do what follows each `fix`, then run `odc doctor` again"
        raise error


@click.command()
@click.argument("url", required=False, help="an analyst of our consortium; by default ours")
@collaboration_option
@as_json_option
@click.pass_context
def conformance(context: click.Context, url: str | None, collaboration: str | None, as_json: bool) -> None:
    """Try whether an analyst keeps to the protocol: right and wrong messages, and what it answers."""
    with open_session(context, attempts=1) as session:
        meant = None if collaboration is None else session.round(collaboration).id
        found = try_analyst(session, url, meant)
    failed = [one for one in found if one.outcome == "failed"]
    show(as_json, {"checks": [one.to_json() for one in found]}, lambda: "\n".join(map(_check, found)))
    if failed:
        error = ProtocolError(f"{len(failed)} of {len(found)} checks have failed")
        error.hint = (
            "show what follows `failed` to whoever wrote the analyst; docs/protocol.md has the sections"
        )
        raise error


def _check(found: Check) -> str:
    line = f"{found.outcome:<8} {found.what} (section {found.section})"
    return f"{line}: {printable(found.detail)}" if found.detail else line


def _finding(found: Finding) -> str:
    line = f"{'TROUBLE' if found.fix else 'ok':<8} {found.what}: {printable(found.detail)}"
    return f"{line}\n         fix: {printable(found.fix)}" if found.fix else line


_WAITING: Final = "waiting for the others"


def _progress(say: Callable[[str], None]) -> Callable[[Status], None]:
    """Return what shows how far the analyst's computation is."""

    def note(status: Status) -> None:
        progress = progress_words(status)
        say(_WAITING if progress is None else f"{_WAITING}; the analyst is {progress}")

    return note


def _news(
    session: Session, chosen: Round, status: Status, say: Callable[[str], None], *, wait_s: float
) -> Status:
    """Return the next status in which something is another for us; raises `NotPreparedError` without one."""
    found = wait_for_change(session, chosen.directory, status, wait_s=wait_s, note=_progress(say))
    if found is None:
        words = next_step(chosen.status(), chosen.directory).words  # that of all names whom we wait for
        error = NotPreparedError(f"nothing has changed in {wait_s:g} s; {words}")
        error.hint = "run the command again: it goes on where it stopped"
        raise error
    return found


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
    options = PrivacyOptions(own_map=own_map)
    if not table.is_database:  # what cannot be read is said before terms are waited for and signed
        next(read_parts(table), None)
    with open_session(context) as session:
        listed: list[Status] = []
        if collaboration is None:
            with busy(as_json, "waiting for terms"):
                listed = wait_for_terms(session, wait_s=wait)
        chosen = round_of(session, collaboration, as_json=as_json, running=True, listed=listed)
        do: dict[str, Callable[[], object]] = {
            "accept": partial(_accept, session, chosen, table, yes, accept_row_revealing_model, as_json),
            "anchor": chosen.create_anchor,
            "contribute": partial(
                _contribute, chosen, table, options, yes, consumer, accept_signal_loss, as_json
            ),
            "receive": partial(chosen.receive, wait_s=wait),
        }
        at_first = [row for row in listed if row["collaboration_id"] == chosen.id]
        status = at_first[0] if at_first else chosen.status()
        while (step := next_step(status, chosen.directory)).kind in (*do, "wait"):
            click.echo(f"{status['state']}: {_under_way(step)}", err=True)
            if step.kind == "wait":
                with busy(as_json, _WAITING) as say:
                    status = _news(session, chosen, status, say, wait_s=wait)
            else:
                do[step.kind]()
                if step.kind != "receive":  # what follows that is told by what is stored here
                    with busy(as_json, _WAITING):
                        status = status_after(session, chosen.id, step, status, wait_s=wait)
    value = {"collaboration_id": chosen.id, "state": status["state"], "next": step.words}
    show(as_json, value, lambda: f"{status['state']}\nnext: {step.words}")


def _under_way(step: NextStep) -> str:
    """Return what a round in one sitting does now: it needs no command for it."""
    words = {
        "accept": "reading the terms",
        "anchor": "sealing the anchor for all members",
        "contribute": "preparing our table",
        "receive": "fetching the model",
    }
    return words.get(step.kind) or f"waiting {step.awaited}"


def _accept(
    session: Session, chosen: Round, table: Source, yes: bool, row_revealing: bool, as_json: bool
) -> None:
    """Show the terms and what they find in our table, ask, and sign."""
    terms = chosen.fetch_terms()
    click.echo(differences_in_words(terms, differences(session, terms)) + on_screen(terms), err=True)
    with reading(as_json, table, "comparing the table with the terms") as watched:
        found: CheckedTable = check_table(terms, watched, session.home.path, party=chosen.party)
    click.echo(checked_in_words(terms, found, is_short=True), err=True)
    if found.misfits:
        raise does_not_fit(found.misfits, are_published=True)
    if not yes and not can_ask():
        raise ConfirmationNeededError("nobody has agreed to these terms, and there is no terminal to ask at")
    if not yes and not is_agreed(f"Sign these terms for {chosen.party}?"):
        raise declined("nothing was signed")
    chosen.accept(accept_row_revealing_model=row_revealing)


def _contribute(
    chosen: Round,
    table: Source,
    options: PrivacyOptions,
    yes: bool,
    consumer: bool,
    accept_signal_loss: bool,
    as_json: bool,
) -> None:
    """Prepare the table, show what would leave and its risk, ask, and send."""
    with reading(as_json, table, "preparing the table, attacking our own rows") as watched:
        prepared = chosen.prepare(watched, options, attacks="quick")
    if yes:  # who is asked is shown the same
        click.echo(summary_in_words(prepared, chosen.policy_violations()), err=True)
    with upload_progress(as_json) as progress:
        chosen.contribute(
            accept_signal_loss=accept_signal_loss,
            progress=progress,
            confirm=partial(agree_to_send, chosen, yes=yes, consumer=consumer),
        )


COMMANDS: Final[tuple[click.Command, ...]] = (wait, doctor, conformance)
"""The commands of this module that stand directly behind `odc`; `round` is added by its name."""
