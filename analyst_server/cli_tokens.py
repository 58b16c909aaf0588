"""`odc-analyst token`: the API tokens of the analyst's operator."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

import click

from analyst_server.cli_options import (
    data_dir_option,
    open_as_operator,
    settings_of,
    show_value,
    whole_id,
)
from analyst_server.services import api_tokens
from protocol.errors import InputError
from protocol.tokens import Scope, TokenRequest, id_of, new_token, token_digest
from runtime.command_line import InOrder, as_json_option
from runtime.terminal import token_lifetime_s, token_lines

token = InOrder("token", help="Manage the API tokens of the analyst's operator.")


@token.command(name="create")
@click.option(
    "--scope",
    default="read",
    help="read, or manage: also create, seal, resume, release, exclude, cancel, close",
)
@click.option("--label", default="", help="the system that will use it")
@click.option(
    "--collaboration", "-c", "collaboration_id", help="limit it to this collaboration (default: all)"
)
@click.option("--days", type=int, default=90, help="days until it ends")
@data_dir_option
@as_json_option
def create_token(
    scope: str, label: str, collaboration_id: str | None, days: int, data_dir: Path | None, as_json: bool
) -> None:
    """Create a token of the operator, which is shown once and not stored."""
    if scope not in get_args(Scope):
        raise InputError(f"--scope must be read or manage, got {scope}")
    analyst, generated = open_as_operator(settings_of(data_dir)), new_token()
    meant = None if collaboration_id is None else whole_id(analyst, collaboration_id)
    request = TokenRequest.of(
        digest=token_digest(generated),
        label=label,
        collaboration_id=meant,
        expires_at=analyst.clock() + token_lifetime_s(days),
    )
    row = api_tokens.create_for_operator(analyst, request, cast("Scope", scope))
    show_value(
        {"token": generated, **row.model_dump()},
        as_json,
        lambda _: f"{generated}\n{token_lines([row])}\nit is not shown again",
    )


@token.command(name="list")
@data_dir_option
@as_json_option
def list_tokens(data_dir: Path | None, as_json: bool) -> None:
    """List the operator's tokens: their purpose, their end, and when each was last used."""
    rows = api_tokens.listing(open_as_operator(settings_of(data_dir)), None)
    show_value([row.model_dump() for row in rows], as_json, lambda _: token_lines(rows) or "no tokens")


@token.command(name="revoke")
@click.argument("named", metavar="TOKEN", help="the id that `token list` shows, or the token itself")
@data_dir_option
@as_json_option
def revoke_token(named: str, data_dir: Path | None, as_json: bool) -> None:
    """Revoke a token: it is refused from then on."""
    token_id = id_of(named)
    api_tokens.revoke(open_as_operator(settings_of(data_dir)), None, token_id)
    show_value({"revoked": token_id}, as_json, lambda _: "revoked")
