"""`odc-analyst audit`: what happened, and who did it, for a program that collects such things."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from analyst_server.cli_options import data_dir_option, open_as_operator, settings_of
from analyst_server.services import audit as trails
from protocol.errors import InputError
from runtime.command_line import as_json_option


@click.command()
@click.option(
    "--since",
    default="1970-01-01",
    metavar="TIME",
    help="from this time on: 2026-11-24, or 2026-11-24T08:00:00Z",
)
@data_dir_option
@as_json_option
def audit(since: str, data_dir: Path | None, as_json: bool) -> None:
    """Print every step of every collaboration, and who acted here, oldest first; with --json a line each."""
    analyst = open_as_operator(settings_of(data_dir))
    for line in trails.trail(analyst, _seconds(since)):
        click.echo(json.dumps(line) if as_json else _text(line))


def _seconds(since: str) -> int:
    try:
        parsed = datetime.fromisoformat(since)
    except ValueError:
        raise InputError(f"--since is no time of the form 2026-11-24T08:00:00Z: {since}") from None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())


def _text(line: trails.Line) -> str:
    about = line["collaboration_id"][:8] if line["collaboration_id"] else "-"
    who = line["party"] if line["kind"] == "ledger" else f"{line['actor_kind']} {line['actor']}"
    words = f"{line['time']}  {line['kind']:<6}  {about:<8}  {line['event']:<20}  {who or 'the analyst'}"
    return f"{words}  {line['subject']}" if line["kind"] == "act" and line["subject"] else words
