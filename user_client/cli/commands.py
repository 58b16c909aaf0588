"""All commands of `odc`, put together from the modules of this package in the order of the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import typer

from user_client.cli import (
    access,
    audit,
    browser,
    checkpoints,
    cohort,
    consortium,
    desk,
    evaluation,
    model,
    parts,
    round_commands,
    terms,
    walk,
)

_GROUPS: Final = {
    "consortium": consortium.app,
    "terms": terms.app,
    "anchor": round_commands.anchor,
    "ledger": audit.ledger,
    "token": access.token,
}
for command in checkpoints.COMMANDS:
    audit.ledger.command()(command)


def declared() -> dict[str, Callable[..., None] | typer.Typer]:
    """Return all commands by their names, and the groups of commands behind them."""
    found: dict[str, Callable[..., None] | typer.Typer] = {"round": walk.round_}
    for module in (access, desk, walk, round_commands, parts, evaluation, model, cohort, audit, browser):
        for command in module.COMMANDS:
            found[typer.main.get_command_name(command.__name__)] = command
    return found | _GROUPS
