"""Where we are, what comes next, and what is wrong on this machine or at the analyst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypedDict

import click

from protocol.answers import Status
from protocol.errors import InputError, ProtocolError
from protocol.messages import Acceptance, DownlinkManifest, Receipt
from protocol.states import State
from protocol.terms import Terms
from runtime.command_line import as_json_option
from runtime.standing import progress_words
from runtime.terminal import printable
from user_client.cli.options import (
    collaboration_option,
    open_session,
    round_of,
    show,
)
from user_client.cli.progress import busy
from user_client.cli.table_options import TABLE, reads_table
from user_client.custody.round_directory import TERMS_FILE, RoundDirectory
from user_client.errors import NotPreparedError
from user_client.sdk.approval import waiting_requests
from user_client.sdk.conformance import Check, try_analyst
from user_client.sdk.doctor import Finding, examine
from user_client.sdk.next_steps import next_step, prediction_in_words, wait_for_change
from user_client.sdk.round import Round
from user_client.sdk.session import SHORT_ID, Session, named
from user_client.tables import Source

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
        if session.home.invitation_path.exists():
            return {**found, "next": "odc join, once the lead institution has approved our request"}
        return {**found, "next": "odc join INVITATION, or the lead: odc consortium create"}
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


def known_here(session: Session) -> str:
    """Return what is known without the analyst, for people: who we are, and what we have of each round."""
    ours = session.membership
    lines = [_whoami(ours.party, ours.consortium, ours.analyst_url)]
    for collaboration_id in session.home.collaborations_with(TERMS_FILE):
        directory = RoundDirectory(session.home, collaboration_id)
        title = printable(named(directory.load(Terms).title, collaboration_id))
        if directory.holds(DownlinkManifest):
            lines += [f"{title}: the model is here", f"  next: {prediction_in_words(directory)}"]
        elif directory.holds(Receipt):
            lines.append(f"{title}: the analyst has our uplink, and the model is not here yet")
        elif directory.holds(Acceptance):
            lines.append(f"{title}: we have signed the terms, and sent nothing")
        else:
            lines.append(f"{title}: we have read the terms, and not signed them")
    return "\n".join([*lines, "this is what is known here; the analyst may know more"])


def _whoami(party: str, consortium: str | None, analyst: str | None) -> str:
    return f"{party} in {printable(consortium or '')}, analyst {analyst}"


def where_in_words(found: Where) -> str:
    """Return the same for people."""
    if found["party"] is None:
        return f"no membership in {found['home']}\nnext: {found['next']}"
    lines = [_whoami(found["party"], found["consortium"], found["analyst"])]
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
    if len(shown) > 1:
        lines.append(f"behind a command, -c names the one that is meant: {_names(shown)}")
    return "\n".join(lines)


def _names(shown: Sequence[Standing]) -> str:
    return ", ".join(f"-c {row['collaboration_id'][:SHORT_ID]}" for row in shown)


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
            with busy(as_json, WAITING) as say:
                news(session, chosen, status, say, wait_s=seconds)
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


WAITING: Final = "waiting for the others"
"""What a spinner says meanwhile."""


def _progress(say: Callable[[str], None]) -> Callable[[Status], None]:
    """Return what shows how far the analyst's computation is."""

    def note(status: Status) -> None:
        progress = progress_words(status)
        say(WAITING if progress is None else f"{WAITING}; the analyst is {progress}")

    return note


def news(
    session: Session, chosen: Round, status: Status, say: Callable[[str], None], *, wait_s: float
) -> Status:
    """Return the next status in which something is another for us; raises `NotPreparedError` without one."""
    found = wait_for_change(session, chosen.directory, status, wait_s=wait_s, note=_progress(say))
    if found is None:
        step = next_step(chosen.status(), chosen.directory)  # that of all names whom we wait for
        said = f"we wait {step.awaited}" if step.kind == "wait" else step.words
        error = NotPreparedError(f"nothing has changed in {wait_s:g} s: {said}")
        error.hint = "run the command again: it goes on where it stopped"
        raise error
    return found


COMMANDS: Final[tuple[click.Command, ...]] = (wait, doctor, conformance)
"""The commands of this module that stand directly behind `odc`."""
