"""`odc token`: let other systems of this institution read its rounds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runtime.terminal import token_lifetime_s, token_lines
from user_client.cli.options import AsJson, open_session, show
from user_client.sdk import create_token, list_tokens, revoke_token

app = typer.Typer(no_args_is_help=True, help="API tokens: other systems of ours read our rounds.")


@app.command()
def create(
    context: typer.Context,
    label: Annotated[str, typer.Option(help="which system it is for")] = "",
    collaboration: Annotated[
        str | None,
        typer.Option("--collaboration", "-c", help="the only one it may read [default: all of ours]"),
    ] = None,
    days: Annotated[int, typer.Option(help="how long it holds, with our certificate at most")] = 90,
    as_json: AsJson = False,
) -> None:
    """Make a token that reads status, report and ledger. It is shown once and kept nowhere."""
    with open_session(context) as session:
        made = create_token(
            session, lifetime_s=token_lifetime_s(days), label=label, collaboration_id=collaboration
        )
    value: dict[str, Any] = {"token": made.token, **made.row.model_dump()}
    show(as_json, value, lambda: f"{made.token}\n{token_lines([made.row])}\nit is not shown again")


@app.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """Show our tokens: what for, until when, and when each was last used."""
    with open_session(context) as session:
        rows = list_tokens(session)
    show(as_json, {"tokens": [row.model_dump() for row in rows]}, lambda: token_lines(rows) or "no tokens")


@app.command()
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="its id, as `odc token list` shows it, or the token itself")],
    as_json: AsJson = False,
) -> None:
    """Take a token back: the analyst refuses it from then on."""
    with open_session(context) as session:
        revoke_token(session, token)
    show(as_json, {"revoked": True}, lambda: "revoked")
