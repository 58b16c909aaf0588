"""`odc-analyst`: the commands of the analyst's operator.

Each command opens the analyst, calls one use case, and shows what it returns.
"""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from analyst_server import installation
from analyst_server.cli_arrays import accept_arrays
from analyst_server.cli_audit import audit
from analyst_server.cli_backup import backup, restore
from analyst_server.cli_compute import compute_worker
from analyst_server.cli_notify import notify
from analyst_server.cli_options import (
    data_dir_option,
    html_file_option,
    log_lines,
    open_as_operator,
    settings_of,
    show_value,
    whole_id,
    write_out,
    write_page,
)
from analyst_server.cli_plan import plan
from analyst_server.cli_tokens import token
from analyst_server.cli_verify import verify
from analyst_server.cli_words import kept_in_words, line_of, standing_in_words
from analyst_server.installation import unix_now
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import (
    downlinks,
    end,
    exclusion,
    prepare,
    report,
    retention,
    rounds,
    views,
)
from analyst_server.services.analyst import Analyst
from protocol import __version__
from protocol.errors import InputError
from protocol.invitation import Invitation
from protocol.states import ENDED, State
from runtime.command_line import PATH, SETTINGS, InOrder, as_json_option, completion_option, version_option
from runtime.drafts import terms_of_draft
from runtime.files import read_text
from runtime.logs import JsonLines, set_up
from runtime.start_up import loading
from runtime.waiting import look_until

T = TypeVar("T")


@click.group("odc-analyst", cls=InOrder, context_settings=SETTINGS)
@version_option("odc-analyst", __version__)
@click.option("--verbose", is_flag=True, help="log what happens meanwhile")
@completion_option("odc-analyst")
def app(verbose: bool) -> None:
    """Run the analyst of an ODC consortium."""
    if verbose:
        set_up(log_lines(), "INFO")


collaboration = InOrder("collaboration", help="Run collaborations: one round each.")

collaboration_id_argument = click.argument(
    "collaboration_id", help="the id that `collaboration list` shows, or its first 4 digits or more"
)


def _open(data_dir: Path | None) -> Analyst:
    return open_as_operator(settings_of(data_dir))


def _open_at(data_dir: Path | None, given: str) -> tuple[Analyst, str]:
    """Return the analyst, and the whole id of the collaboration whose first digits are given."""
    analyst = _open(data_dir)
    return analyst, whole_id(analyst, given)


@app.command()
@as_json_option
def version(as_json: bool) -> None:
    """Print the version."""
    value = {"program": "odc-analyst", "version": __version__}
    show_value(value, as_json, lambda _: f"odc-analyst {__version__}")


@app.command()
@click.argument("invitation", type=PATH, help="the file from the lead institution")
@data_dir_option
@click.option("--out", type=PATH, default=installation.REQUEST_FILE, help="where to write the request")
@as_json_option
def join(invitation: Path, data_dir: Path | None, out: Path, as_json: bool) -> None:
    """Create this analyst's key and a request for its certificate."""
    settings = settings_of(data_dir)
    parsed = Invitation.from_json(read_text(invitation))
    write_out(out, installation.join(settings.identity_dir, parsed, now=unix_now()))
    value = {
        "request": str(out),
        "root_fingerprint": parsed.root_fingerprint,
        "key_fingerprint": installation.own_key_fingerprint(settings.identity_dir),
    }
    show_value(
        value,
        as_json,
        lambda shown: (
            f"request written to {shown['request']}\n"
            f"root of the consortium: {shown['root_fingerprint']}\n"
            f"our key, for the lead to compare: {shown['key_fingerprint']}\n"
            f"next: give the request to the lead institution, which runs\n{_approval_of(out)}"
        ),
    )


@app.command()
@data_dir_option
@click.option("--out", type=PATH, default=installation.REQUEST_FILE, help="where to write the request")
@as_json_option
def renew(data_dir: Path | None, out: Path, as_json: bool) -> None:
    """Request a new certificate for the same key, before the old one ends."""
    write_out(out, installation.renew(settings_of(data_dir).identity_dir))
    show_value(
        {"request": str(out)},
        as_json,
        lambda _: (
            f"request written to {out}\n"
            f"next: give it to the lead institution, which runs\n{_approval_of(out)}\n"
            "then: odc-analyst install analyst-certificate.pem, and restart the server"
        ),
    )


@app.command()
@data_dir_option
@as_json_option
def key(data_dir: Path | None, as_json: bool) -> None:
    """Print the fingerprint of this analyst's key, for members to compare and for terms."""
    identity_dir = settings_of(data_dir).identity_dir
    value = {"key_fingerprint": installation.own_key_fingerprint(identity_dir)}
    show_value(value, as_json, lambda shown: str(shown["key_fingerprint"]))


def _approval_of(request: Path) -> str:
    return f"  odc consortium approve --request {request.name} --out analyst-certificate.pem"


@app.command()
@click.argument("certificate", type=PATH, help="the file that the lead institution issued")
@data_dir_option
@as_json_option
def install(certificate: Path, data_dir: Path | None, as_json: bool) -> None:
    """Install the certificate that the lead institution issued."""
    settings = settings_of(data_dir)
    pem = read_text(certificate).encode()
    identity = installation.install(settings.identity_dir, pem, now=unix_now())
    show_value(
        {"name": identity.name, "role": identity.role, "consortium_id": identity.consortium_id},
        as_json,
        lambda shown: (
            f"installed: {shown['name']}, {shown['role']} of consortium {shown['consortium_id'][:8]}\n"
            "next: odc-analyst serve"
        ),
    )


@app.command()
@data_dir_option
@click.option("--host", help="address to listen on")
@click.option("--port", type=int, help="port to listen on")
@click.option("--log-level", help="debug, info, warning or error")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0,
    help="seconds to wait for a certificate that is not installed yet",
)
@click.option("--certificate", type=PATH, help="install this certificate first, as `install` does")
def serve(
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    log_level: str | None,
    wait: float,
    certificate: Path | None,
) -> None:
    """Serve the REST API over mutual TLS until interrupted."""
    settings = settings_of(data_dir, host=host, port=port, log_level=log_level)
    set_up(
        JsonLines() if settings.log_format == "json" else log_lines(),
        settings.log_level.upper(),
    )
    if certificate is not None:
        installation.install(settings.identity_dir, read_text(certificate).encode(), now=unix_now())
    with loading():
        from analyst_server import serving  # here, because no other command needs a web server

    installation.wait_until_installed(settings.identity_dir, wait)
    serving.serve(settings)


@app.command()
@data_dir_option
@click.option("--dry-run", is_flag=True, help="only show what is kept, and until when")
@as_json_option
def purge(data_dir: Path | None, dry_run: bool, as_json: bool) -> None:
    """End the rounds that their terms let be kept no longer, as the server does every hour."""
    analyst = _open(data_dir)
    found = retention.kept(analyst) if dry_run else retention.purge(analyst)
    show_value([vars(one) for one in found], as_json, lambda _: kept_in_words(found))


@collaboration.command()
@click.argument("terms", type=PATH, help="a TOML or JSON file; `odc terms draft` writes one")
@click.option("--before-they-join", is_flag=True, help="also name parties that have not run `odc join` yet")
@click.option(
    "--replaces",
    metavar="ID",
    help="the collaboration whose corrected terms these are: it is cancelled, and every member is"
    " shown what differs; possible until the first institution sends",
)
@data_dir_option
@as_json_option
def create(
    terms: Path, before_they_join: bool, replaces: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Publish the terms of a new collaboration."""
    if replaces is not None and not replaces:  # as of a variable that is not set
        raise InputError("--replaces is empty: name the collaboration, or leave the option out")
    analyst = _open(data_dir)
    replaced = "" if replaces is None else whole_id(analyst, replaces)
    drafted = terms_of_draft(
        terms,
        consortium_id=analyst.root.consortium_id,
        collaboration_id=secrets.token_hex(16),
        **({"replaces": replaced} if replaces else {}),
    )
    enrolling = [
        row["collaboration_id"]
        for row in views.listing(analyst, None)
        if (row["title"], row["state"]) == (drafted.title, State.ENROLLING)
        and row["collaboration_id"] != replaced
    ]
    row = prepare.create_new(analyst, drafted, before_they_join=before_they_join)
    for other in enrolling:
        click.echo(
            f"{other} has the same title and is enrolling too: institutions have to name the one they mean. "
            "If only one is meant: odc-analyst collaboration cancel ID",
            err=True,
        )
    show_value(
        {"collaboration_id": row.id, "state": row.state},
        as_json,
        lambda shown: (
            f"collaboration {shown['collaboration_id']} ({row.title}) is {shown['state']}\n"
            "next: the institutions run `odc round TABLE`"
        ),
    )


@collaboration.command(name="list")
@data_dir_option
@as_json_option
def list_(data_dir: Path | None, as_json: bool) -> None:
    """List all collaborations."""
    rows = views.listing(_open(data_dir), None)
    show_value(rows, as_json, lambda shown: "\n".join(map(line_of, shown)) or "no collaborations yet")


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@as_json_option
def show(collaboration_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Show one collaboration, and whom it waits for."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    show_value(views.status(analyst, None, collaboration_id), as_json, standing_in_words)


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@as_json_option
def seal(collaboration_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Seal a round now, without the institutions that have sent nothing."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    rounds.seal(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed; the running server computes the round")


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@as_json_option
def resume(collaboration_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Compute a failed round again from the sealed uplinks."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    rounds.resume(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed again; the running server computes the round")


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@as_json_option
def release(collaboration_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Release a round that was held, by ODC_ANALYST_HOLD_RELEASE or for a suspected party."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    rounds.release(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "released")


@collaboration.command()
@collaboration_id_argument
@click.argument("party", help="the party to leave out; every member sees it")
@data_dir_option
@as_json_option
def exclude(collaboration_id: str, party: str, data_dir: Path | None, as_json: bool) -> None:
    """Leave a party out of a round that is not released: no rows, no alignment, no downlink."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    exclusion.exclude(analyst, collaboration_id, party)
    resume = f"; next: odc-analyst collaboration resume {collaboration_id}"
    is_failed = views.status(analyst, None, collaboration_id)["state"] == State.FAILED
    _show_changed(analyst, collaboration_id, as_json, f"{party} is excluded" + (resume if is_failed else ""))


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@click.option("--yes", is_flag=True, help="cancel even if institutions have sent: what they sent is erased")
@as_json_option
def cancel(collaboration_id: str, data_dir: Path | None, yes: bool, as_json: bool) -> None:
    """End a collaboration before its release, also while it is computed, and erase what was received."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    row = views.status(analyst, None, collaboration_id)
    sent = [member["party"] for member in row["members"] if member["uplink"] == "received"]
    if sent and not yes and row["state"] not in (State.RELEASED, *ENDED):
        error = InputError(f"{', '.join(sent)} sent to this round already, and cancelling erases it for good")
        error.hint = "to give it up all the same: --yes"
        raise error
    end.cancel(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "cancelled; the arrays that were received are erased")


@collaboration.command()
@collaboration_id_argument
@data_dir_option
@click.option("--yes", is_flag=True, help="close even if an institution has not fetched its downlink")
@as_json_option
def close(collaboration_id: str, data_dir: Path | None, yes: bool, as_json: bool) -> None:
    """End a released collaboration, and erase its uplinks and downlinks; records and ledger stay."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    waiting = downlinks.yet_to_fetch(analyst, collaboration_id)
    if waiting and not yes:
        error = InputError(f"no downlink was fetched yet by {', '.join(waiting)}, and closing erases it")
        error.hint = "wait until they have run `odc receive`, or close with --yes"
        raise error
    end.close(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "closed; its uplinks and downlinks are erased")


def _show_changed(analyst: Analyst, collaboration_id: str, as_json: bool, words: str) -> None:
    row = views.status(analyst, None, collaboration_id)
    show_value(row, as_json, lambda _: f"{row['title']} ({collaboration_id[:8]}): {words}")


@collaboration.command(name="report")
@collaboration_id_argument
@data_dir_option
@html_file_option
@click.option("--wait", type=float, default=0, help="seconds to wait until the model is judged")
@as_json_option
def report_(
    collaboration_id: str, data_dir: Path | None, html: Path | None, wait: float, as_json: bool
) -> None:
    """Show what happened and what it cost, beside the paper's formulas."""
    analyst, collaboration_id = _open_at(data_dir, collaboration_id)
    look_until(bool, partial(report.is_settled, analyst, collaboration_id), wait_s=wait)
    value = report.for_operator(analyst, collaboration_id)
    write_page(html, report_page, value)
    show_value(value, as_json, report_text)


for command in (
    collaboration,
    token,
    plan,
    audit,
    verify,
    notify,
    backup,
    restore,
    accept_arrays,
    compute_worker,
):
    app.add_command(command)
