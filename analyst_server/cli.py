"""`odc-analyst`: the commands of the analyst's operator.

Each command opens the analyst, calls one use case, and shows what it returns.
"""

from __future__ import annotations

import json
import logging
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar, cast, get_args

import typer

from analyst_server import installation
from analyst_server.cli_backup import backup, restore
from analyst_server.cli_options import AsJson, DataDir, HtmlFile, settings_of, show_value, write_page
from analyst_server.cli_plan import plan
from analyst_server.installation import open_analyst, unix_now
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import (
    api_tokens,
    downlinks,
    end,
    prepare,
    report,
    rounds,
    scrub,
    views,
)
from analyst_server.services.analyst import Analyst
from protocol import __version__
from protocol.errors import InputError, UnreadableFileError
from protocol.invitation import Invitation
from protocol.operations import Status
from protocol.tokens import Scope, TokenRequest, id_of, new_token, token_digest
from runtime.files import read_text
from runtime.start_up import loading
from runtime.terminal import token_lifetime_s, token_lines
from runtime.waiting import look_until

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    help="Run the analyst of an ODC consortium.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(plan)
app.command()(backup)
app.command()(restore)
collaboration = typer.Typer(no_args_is_help=True, help="Run collaborations: one round each.")
app.add_typer(collaboration, name="collaboration")
token = typer.Typer(no_args_is_help=True, help="Manage the API tokens of the analyst's operator.")
app.add_typer(token, name="token")

CollaborationId = Annotated[str, typer.Argument(help="the id that `collaboration list` shows")]


def _open(data_dir: Path | None) -> Analyst:
    return open_analyst(settings_of(data_dir))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"odc-analyst {__version__}")


@app.command()
def join(
    invitation: Annotated[Path, typer.Argument(help="the file from the lead institution")],
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="where to write the request")] = Path(installation.REQUEST_FILE),
    as_json: AsJson = False,
) -> None:
    """Create this analyst's key and a request for its certificate."""
    settings = settings_of(data_dir)
    parsed = Invitation.from_json(read_text(invitation))
    out.write_bytes(installation.join(settings.identity_dir, parsed, now=unix_now()))
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
def renew(
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="where to write the request")] = Path(installation.REQUEST_FILE),
    as_json: AsJson = False,
) -> None:
    """Request a new certificate for the same key, before the old one ends."""
    out.write_bytes(installation.renew(settings_of(data_dir).identity_dir))
    show_value(
        {"request": str(out)},
        as_json,
        lambda _: (
            f"request written to {out}\n"
            f"next: give it to the lead institution, which runs\n{_approval_of(out)}\n"
            "then: odc-analyst install analyst-certificate.pem, and restart the server"
        ),
    )


def _approval_of(request: Path) -> str:
    return f"  odc consortium approve --request {request.name} --out analyst-certificate.pem"


@app.command()
def install(
    certificate: Annotated[Path, typer.Argument(help="the file that the lead institution issued")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
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
def serve(
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="seconds to wait for a certificate that is not installed yet")
    ] = 0,
) -> None:
    """Serve the REST API over mutual TLS until interrupted."""
    settings = settings_of(data_dir, host=host, port=port, log_level=log_level)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    with loading():
        from analyst_server import serving  # here, because no other command needs a web server

    installation.wait_until_installed(settings.identity_dir, wait)
    serving.serve(settings)


@app.command()
def verify(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Compare everything that is stored with what was signed for it, and name what is damaged."""
    analyst = _open(data_dir)
    analyst.records.check()
    found = scrub.scrub(analyst)
    show_value(found.as_json(), as_json, lambda _: _scrubbed(found))
    if found.damaged:
        error = UnreadableFileError("all that is stored", f"{len(found.damaged)} arrays are damaged")
        error.hint = (
            "a damaged uplink is asked for again when its round is computed; for all else, use a backup"
        )
        raise error


@collaboration.command()
def create(
    terms: Annotated[Path, typer.Argument(help="a TOML or JSON file; `odc terms draft` writes one")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Publish the terms of a new collaboration."""
    analyst = _open(data_dir)
    text = read_text(terms)
    try:
        draft = json.loads(text) if terms.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise UnreadableFileError(terms, str(error)) from None
    row = prepare.create(analyst, prepare.complete_terms(analyst, draft))
    show_value(
        {"collaboration_id": row.id, "state": row.state},
        as_json,
        lambda shown: f"collaboration {shown['collaboration_id']} is {shown['state']}",
    )


@collaboration.command(name="list")
def list_(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List all collaborations."""
    rows = views.listing(_open(data_dir), None)
    show_value(rows, as_json, lambda shown: "\n".join(map(_line, shown)) or "no collaborations yet")


@collaboration.command()
def show(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show one collaboration, and whom it waits for."""
    row = views.status(_open(data_dir), None, collaboration_id)
    show_value(row, as_json, _details)


@collaboration.command()
def seal(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Seal a round now, without the institutions that have sent nothing."""
    analyst = _open(data_dir)
    rounds.seal(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed; the running server computes the round")


@collaboration.command()
def resume(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Compute a failed round again from the sealed uplinks."""
    analyst = _open(data_dir)
    rounds.resume(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed again; the running server computes the round")


@collaboration.command()
def release(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Release a round that was held, by ODC_ANALYST_HOLD_RELEASE or for a suspected party."""
    analyst = _open(data_dir)
    rounds.release(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "released")


@collaboration.command()
def cancel(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """End a collaboration before its release, and erase the arrays that were received."""
    analyst = _open(data_dir)
    end.cancel(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "cancelled; the arrays that were received are erased")


@collaboration.command()
def close(
    collaboration_id: CollaborationId,
    data_dir: DataDir = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="close even if an institution has not fetched its downlink")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """End a released collaboration, and erase its uplinks and downlinks; records and ledger stay."""
    analyst = _open(data_dir)
    waiting = downlinks.yet_to_fetch(analyst, collaboration_id)
    if waiting and not yes:
        error = InputError(f"no downlink was fetched yet by {', '.join(waiting)}, and closing erases it")
        error.hint = "wait until they have run `odc receive`, or close with --yes"
        raise error
    end.close(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "closed; its uplinks and downlinks are erased")


def _show_changed(analyst: Analyst, collaboration_id: str, as_json: bool, words: str) -> None:
    show_value(views.status(analyst, None, collaboration_id), as_json, lambda _: words)


@collaboration.command(name="report")
def report_(
    collaboration_id: CollaborationId,
    data_dir: DataDir = None,
    html: HtmlFile = None,
    wait: Annotated[float, typer.Option(help="seconds to wait until the model is judged")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what happened and what it cost, beside the paper's formulas."""
    analyst = _open(data_dir)
    look_until(bool, partial(report.is_settled, analyst, collaboration_id), wait_s=wait)
    value = report.for_operator(analyst, collaboration_id)
    write_page(html, report_page, value)
    show_value(value, as_json, report_text)


@token.command(name="create")
def create_token(
    scope: Annotated[
        str, typer.Option(help="read, or manage: also create, seal, resume, release, cancel, close")
    ] = "read",
    label: Annotated[str, typer.Option(help="the system that will use it")] = "",
    collaboration_id: Annotated[
        str | None,
        typer.Option("--collaboration", "-c", help="limit it to this collaboration (default: all)"),
    ] = None,
    days: Annotated[int, typer.Option(help="days until it ends")] = 90,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a token of the operator, which is shown once and not stored."""
    if scope not in get_args(Scope):
        raise InputError(f"--scope must be read or manage, got {scope}")
    analyst, generated = _open(data_dir), new_token()
    asked = {
        "digest": token_digest(generated),
        "label": label,
        "collaboration_id": collaboration_id,
        "expires_at": analyst.clock() + token_lifetime_s(days),
    }
    request = TokenRequest.from_json(json.dumps(asked).encode())
    row = api_tokens.create_for_operator(analyst, request, cast("Scope", scope))
    show_value(
        {"token": generated, **row.model_dump()},
        as_json,
        lambda _: f"{generated}\n{token_lines([row])}\nit is not shown again",
    )


@token.command(name="list")
def list_tokens(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the operator's tokens: their purpose, their end, and when each was last used."""
    rows = api_tokens.listing(_open(data_dir), None)
    show_value([row.model_dump() for row in rows], as_json, lambda _: token_lines(rows) or "no tokens")


@token.command(name="revoke")
def revoke_token(
    named: Annotated[
        str, typer.Argument(metavar="TOKEN", help="the id that `token list` shows, or the token itself")
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a token: it is refused from then on."""
    token_id = id_of(named)
    api_tokens.revoke(_open(data_dir), None, token_id)
    show_value({"revoked": token_id}, as_json, lambda _: "revoked")


def _line(row: Status) -> str:
    awaited = [member for member in row["members"] if not member["late_consumer"]]
    done = sum(member["uplink"] == "received" for member in awaited)
    return f"{row['collaboration_id']}  {row['state']:<10} {done}/{len(awaited)}  {row['title']}"


def _scrubbed(found: scrub.Scrubbed) -> str:
    lines = [f"read {found.arrays} arrays, {found.bytes:,} bytes: {len(found.damaged)} damaged"]
    for one in found.damaged:
        whose = f" of {', '.join(one.parties)}" if one.parties else ""
        lines.append(f"  {one.collaboration_id}  {one.kind}{whose}: {one.name}, in blobs/{one.blob}")
    lines += [f"not checked, because it is sealed: blobs/{key}" for key in found.unchecked]
    return "\n".join(lines)


def _details(row: Status) -> str:
    lines = [f"{row['title']}: {row['state']}"]
    if row["failure"]:
        lines.append(f"failed: {row['failure']}")
    for member in row["members"]:
        rows = "" if member["rows"] is None else f", {member['rows']} rows"
        signed = "signed" if member["accepted"] else "not signed"
        downlink = "" if member["downlink"] == "none" else f", downlink {member['downlink']}"
        late = "late consumer, " if member["late_consumer"] else ""
        refused = f", refused: {member['refused']}" if member["refused"] else ""
        sent = f"uplink {member['uplink']}{rows}{downlink}{refused}"
        lines.append(f"  {member['party']:<24} {late}terms {signed}, {sent}")
    lines += [f"waiting for {item}" for item in row["waiting_for"]]
    return "\n".join(lines)
