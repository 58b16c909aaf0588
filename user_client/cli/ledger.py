"""`odc ledger`: every step of a collaboration, checked here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from runtime.files import read_bytes
from runtime.terminal import second
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    open_session,
    refuse_to_overwrite,
    show,
    write_output,
)
from user_client.sdk import CheckedLedger, fetch_ledger, stored_ledger, verify_ledger

app = typer.Typer(no_args_is_help=True, help="Every step of a collaboration, signed by the analyst.")


@app.command()
def fetch(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="write the ledger there, too")] = None,
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the ledger, and check it as `verify` does."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        data, checked = fetch_ledger(session, chosen)
    if out is not None:
        write_output(out, data)
    value = _value(chosen, checked)
    show(as_json, value, lambda: _text(value, checked))


@app.command()
def verify(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="a ledger, ours or another member's; the last fetched otherwise")
    ] = None,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Check a ledger against all we have signed and received. Nobody is asked."""
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        data = read_bytes(file) if file else stored_ledger(session, chosen)
        checked = verify_ledger(session, chosen, data)
    value = _value(chosen, checked)
    show(as_json, value, lambda: _text(value, checked))


def _value(collaboration_id: str, checked: CheckedLedger) -> dict[str, Any]:
    return {
        "collaboration_id": collaboration_id,
        "entries": len(checked.entries),
        "state": checked.entries[-1].state.value,
        "head": checked.head.hex(),
        "signed_at": checked.signed_at,
        "checked": list(checked.checked),
    }


def _text(value: dict[str, Any], checked: CheckedLedger) -> str:
    lines = [
        f"{entry.index:>5}  {second(entry.at)}  {entry.event:<16} {entry.party or 'analyst':<24}"
        f" {entry.state}"
        for entry in checked.entries
    ]
    ours = ", ".join(value["checked"]) or "nothing yet"
    lines += [
        f"the ledger holds: {value['entries']} entries,"
        f" signed by the analyst at {second(value['signed_at'])}",
        f"compared with ours: {ours}",
        f"head: {value['head']}",
        "other members see the same head after as many entries, or they were told something else",
    ]
    return "\n".join(lines)
