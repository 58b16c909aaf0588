"""`odc-analyst`: run the server and its collaborations."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from pydantic import ValidationError

from analyst_server import installation
from analyst_server.installation import open_analyst, unix_now
from analyst_server.pages.plan_page import plan_page
from analyst_server.pages.plan_text import plan_text
from analyst_server.pages.report_page import report_page
from analyst_server.pages.report_text import report_text
from analyst_server.services import api_tokens, downlinks, end, planning, prepare, report, rounds, views
from analyst_server.services.analyst import Analyst
from analyst_server.settings import Settings
from protocol import __version__
from protocol.codec import explain
from protocol.errors import InputError, UnreadableFileError
from protocol.invitation import Invitation
from protocol.terms import RowType
from protocol.tokens import Scope, TokenRequest, id_of, new_token, token_digest
from runtime.files import read_text
from runtime.start_up import loading
from runtime.terminal import shown, token_lifetime_s, token_lines

app = typer.Typer(
    no_args_is_help=True,
    help="The analyst of an ODC consortium.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
collaboration = typer.Typer(no_args_is_help=True, help="Collaborations: one round each.")
app.add_typer(collaboration, name="collaboration")
token = typer.Typer(no_args_is_help=True, help="API tokens of the analyst's operator.")
app.add_typer(token, name="token")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="keys, database and blobs [env: ODC_ANALYST_DATA_DIR]")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON for machines")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="write it as a page there")]
CollaborationId = Annotated[str, typer.Argument(help="as `collaboration list` shows it")]


def _settings(data_dir: Path | None = None, **options: Any) -> Settings:
    given = {key: value for key, value in options.items() if value is not None}
    if data_dir is not None:
        given["data_dir"] = data_dir
    try:
        return Settings(**given)
    except ValidationError as error:
        raise InputError(f"settings: {explain(error)}") from None


def _show(value: Any, as_json: bool, people: Callable[[Any], str]) -> None:
    typer.echo(shown(value, as_json=as_json, people=people))


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
    """Make this analyst's key and a request for its certificate."""
    settings = _settings(data_dir)
    parsed = Invitation.from_json(read_text(invitation))
    out.write_bytes(installation.join(settings.identity_dir, parsed, now=unix_now()))
    value = {
        "request": str(out),
        "root_fingerprint": parsed.root_fingerprint,
        "key_fingerprint": installation.own_key_fingerprint(settings.identity_dir),
    }
    _show(
        value,
        as_json,
        lambda shown: (
            f"request written to {out}\n"
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
    """Ask for a new certificate of the same key, before the old one ends."""
    out.write_bytes(installation.renew(_settings(data_dir).identity_dir))
    _show(
        {"request": str(out)},
        as_json,
        lambda _: (
            f"request written to {out}\n"
            f"next: give it to the lead institution, which runs\n{_approval_of(out)}\n"
            "then: odc-analyst install analyst-certificate.pem, and start the server again"
        ),
    )


def _approval_of(request: Path) -> str:
    return f"  odc consortium approve --request {request.name} --out analyst-certificate.pem"


@app.command()
def install(
    certificate: Annotated[Path, typer.Argument(help="the file the lead institution issued")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Put the certificate beside its key."""
    settings = _settings(data_dir)
    pem = read_text(certificate).encode()
    identity = installation.install(settings.identity_dir, pem, now=unix_now())
    _show(
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
    """Serve the REST API over mutual TLS, until interrupted."""
    settings = _settings(data_dir, host=host, port=port, log_level=log_level)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    with loading():
        from analyst_server import serving  # here, because no other command needs a web server

    installation.wait_until_installed(settings.identity_dir, wait)
    serving.serve(settings)


@app.command()
def plan(
    parties: Annotated[int, typer.Option(help="institutions, c")],
    rows: Annotated[int, typer.Option(help="rows of each, n")],
    features: Annotated[int, typer.Option(help="encoded features, m")],
    latent_dim: Annotated[int, typer.Option(help="numbers a row becomes, l")],
    model_parameters: Annotated[float, typer.Option(help="numbers in the model, N; 25e6 is understood")],
    anchor_rows: Annotated[
        int | None, typer.Option(help="rows of the formulas' anchor, a [default: m]")
    ] = None,
    bits: Annotated[int, typer.Option(help="bits of a number in the formulas, q")] = 32,
    participation: Annotated[
        list[float] | None,
        typer.Option(help="share of parties in a federated round, p; repeat for more [default: 1, 0.1]"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="federated rounds to compare with, R [default: twice the break-even]")
    ] = None,
    rep_dtype: Annotated[str, typer.Option(help="number type of our terms: f2, f4, f8 or i1")] = "f4",
    anchor_kind: Annotated[
        str, typer.Option(help="anchor of our terms: haar, gaussian, uniform or public")
    ] = "haar",
    classes: Annotated[int, typer.Option(help="classes of the label")] = 2,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what a round would cost, by the paper's formulas (3) to (8) and as we send it."""
    options: dict[str, Any] = {"participation": tuple(participation)} if participation else {}
    try:
        scenario = planning.Scenario(
            parties=parties,
            rows=rows,
            anchor_rows=features if anchor_rows is None else anchor_rows,
            features=features,
            latent_dim=latent_dim,
            model_parameters=round(model_parameters),
            bits=bits,
            rounds=rounds,
            rep_dtype=cast("RowType", rep_dtype),  # checked there
            anchor_kind=anchor_kind,
            classes=classes,
            **options,
        )
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None
    value = planning.plan(scenario)
    _write_page(html, plan_page, value)
    _show(value, as_json, plan_text)


@collaboration.command()
def create(
    terms: Annotated[Path, typer.Argument(help="a TOML or JSON file; `odc terms draft` writes one")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Publish the terms of a new collaboration."""
    analyst = open_analyst(_settings(data_dir))
    text = read_text(terms)
    try:
        draft = json.loads(text) if terms.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise UnreadableFileError(terms, str(error)) from None
    row = prepare.create(analyst, prepare.complete_terms(analyst, draft))
    _show(
        {"collaboration_id": row.id, "state": row.state},
        as_json,
        lambda shown: f"collaboration {shown['collaboration_id']} is {shown['state']}",
    )


@collaboration.command(name="list")
def list_(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List all collaborations."""
    rows = views.listing(open_analyst(_settings(data_dir)), None)
    _show(rows, as_json, lambda shown: "\n".join(map(_line, shown)) or "no collaborations yet")


@collaboration.command()
def show(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show one collaboration and whom it waits for."""
    row = views.status(open_analyst(_settings(data_dir)), None, collaboration_id)
    _show(row, as_json, _details)


@collaboration.command()
def seal(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Seal now, without the institutions that have sent nothing."""
    analyst = open_analyst(_settings(data_dir))
    rounds.seal(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed; the running server computes the round")


@collaboration.command()
def resume(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Take a failed round up again from what was sealed."""
    analyst = open_analyst(_settings(data_dir))
    rounds.resume(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "sealed again; the running server computes the round")


@collaboration.command()
def release(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Release a round that ODC_ANALYST_HOLD_RELEASE has held."""
    analyst = open_analyst(_settings(data_dir))
    rounds.release(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "released")


@collaboration.command()
def cancel(collaboration_id: CollaborationId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Give a collaboration up before its release, and erase what was received of it."""
    analyst = open_analyst(_settings(data_dir))
    end.cancel(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "cancelled; what was received of it is erased")


@collaboration.command()
def close(
    collaboration_id: CollaborationId,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="even if somebody has not fetched its downlink")] = False,
    as_json: AsJson = False,
) -> None:
    """End a released collaboration, and erase its uplinks and downlinks; records and ledger stay."""
    analyst = open_analyst(_settings(data_dir))
    waiting = downlinks.yet_to_fetch(analyst, collaboration_id)
    if waiting and not yes:
        error = InputError(f"no downlink was fetched yet by {', '.join(waiting)}, and after this none can be")
        error.hint = "wait for `odc receive` there, or close it all the same with --yes"
        raise error
    end.close(analyst, collaboration_id)
    _show_changed(analyst, collaboration_id, as_json, "closed; its uplinks and downlinks are erased")


def _show_changed(analyst: Analyst, collaboration_id: str, as_json: bool, words: str) -> None:
    _show(views.status(analyst, None, collaboration_id), as_json, lambda _: words)


@collaboration.command(name="report")
def report_(
    collaboration_id: CollaborationId,
    data_dir: DataDir = None,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened and what it cost, beside the paper's formulas."""
    value = report.for_operator(open_analyst(_settings(data_dir)), collaboration_id)
    _write_page(html, report_page, value)
    _show(value, as_json, report_text)


@token.command(name="create")
def create_token(
    scope: Annotated[
        str, typer.Option(help="read, or manage: also create, seal, resume, release, cancel, close")
    ] = "read",
    label: Annotated[str, typer.Option(help="which system it is for")] = "",
    collaboration_id: Annotated[
        str | None, typer.Option("--collaboration", "-c", help="the only one it is for [default: all]")
    ] = None,
    days: Annotated[int, typer.Option(help="how long it holds")] = 90,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a token of the operator. It is shown once and kept nowhere."""
    if scope not in get_args(Scope):
        raise InputError(f"--scope must be read or manage, got {scope}")
    analyst, drawn = open_analyst(_settings(data_dir)), new_token()
    asked = {
        "digest": token_digest(drawn),
        "label": label,
        "collaboration_id": collaboration_id,
        "expires_at": analyst.clock() + token_lifetime_s(days),
    }
    request = TokenRequest.from_json(json.dumps(asked).encode())
    row = api_tokens.create_for_operator(analyst, request, cast("Scope", scope))
    _show(
        {"token": drawn, **row.model_dump()},
        as_json,
        lambda _: f"{drawn}\n{token_lines([row])}\nit is not shown again",
    )


@token.command(name="list")
def list_tokens(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the operator's tokens: what for, until when, and when each was last used."""
    rows = api_tokens.listing(open_analyst(_settings(data_dir)), None)
    _show([row.model_dump() for row in rows], as_json, lambda _: token_lines(rows) or "no tokens")


@token.command(name="revoke")
def revoke_token(
    named: Annotated[
        str, typer.Argument(metavar="TOKEN", help="its id, as `token list` shows it, or the token itself")
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Take a token back: it is refused from then on."""
    token_id = id_of(named)
    api_tokens.revoke(open_analyst(_settings(data_dir)), None, token_id)
    _show({"revoked": token_id}, as_json, lambda _: "revoked")


def _line(row: dict[str, Any]) -> str:
    done = sum(member["uplink"] == "received" for member in row["members"])
    return f"{row['collaboration_id']}  {row['state']:<10} {done}/{len(row['members'])}  {row['title']}"


def _details(row: dict[str, Any]) -> str:
    lines = [f"{row['title']}: {row['state']}"]
    if row["failure"]:
        lines.append(f"failed: {row['failure']}")
    for member in row["members"]:
        rows = "" if member["rows"] is None else f", {member['rows']} rows"
        signed = "signed" if member["accepted"] else "not signed"
        downlink = "" if member["downlink"] == "none" else f", downlink {member['downlink']}"
        lines.append(f"  {member['party']:<24} terms {signed}, uplink {member['uplink']}{rows}{downlink}")
    lines += [f"waiting for {item}" for item in row["waiting_for"]]
    return "\n".join(lines)


def _write_page(path: Path | None, page: Callable[[Any], str], value: Any) -> None:
    if path is None:
        return
    try:
        path.write_text(page(value), "utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
