"""`odc-analyst notify`: what is still to be told of who is waited for, and whether the receiver takes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from analyst_server.cli_options import (
    data_dir_option,
    open_as_operator,
    settings_of,
    show_value,
)
from analyst_server.installation import unix_now
from analyst_server.notices.webhook import Webhook, webhook_of
from analyst_server.services.waits import trial_notice
from protocol.errors import InputError
from runtime.command_line import as_json_option


@click.command()
@click.option("--test", is_flag=True, help="send a test event now, and say what came back")
@data_dir_option
@as_json_option
def notify(test: bool, data_dir: Path | None, as_json: bool) -> None:
    """Show the events that are not delivered to the webhook yet; with --test send one that says nothing."""
    settings = settings_of(data_dir)
    webhook = webhook_of(settings)
    if webhook is None:
        error = InputError("nobody is told who is waited for: there is no webhook")
        error.hint = "set ODC_ANALYST_WEBHOOK_URL and ODC_ANALYST_WEBHOOK_SECRET_FILE"
        raise error
    if test:
        _send_test(webhook, as_json)
        return
    with open_as_operator(settings).records.begin() as unit:
        rows = [
            {
                "id": row.id,
                "type": json.loads(row.body)["type"],
                "created_at": row.created_at,
                "attempts": row.attempts,
                "next_at": row.next_at,
            }
            for row in unit.notices()
        ]
    show_value({"host": webhook.host, "pending": rows}, as_json, _pending)


def _send_test(webhook: Webhook, as_json: bool) -> None:
    notice = trial_notice(now := unix_now())
    found = webhook.send(notice.id, notice.body.encode(), now)
    if not found.is_done:
        error = InputError(f"{webhook.host} did not take the test event: {found.text}")
        error.hint = "expected an answer of 200 to 299; redirects are not followed, a proxy is in HTTPS_PROXY"
        raise error
    value = {"id": notice.id, "status": found.status, "seconds": round(found.seconds, 3)}
    show_value(value, as_json, lambda _: f"{webhook.host} took the test event {notice.id}: {found.text}")


def _pending(value: dict[str, Any]) -> str:
    lines = [
        f"{one['id']}  {one['type']}  of {_time(one['created_at'])}, {one['attempts']} attempts,"
        f" next {_time(one['next_at'])}"
        for one in value["pending"]
    ]
    return "\n".join(lines) or f"nothing is left to tell {value['host']}"


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
