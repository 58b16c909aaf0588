"""All commands of `odc`, put together from the modules of this package in the order of the help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from user_client.cli import (
    access,
    audit,
    browser,
    checkpoints,
    cohort,
    consortium,
    desk,
    downlink,
    evaluation,
    model,
    parts,
    round_commands,
    sitting,
    terms,
    where,
)

for command in checkpoints.COMMANDS:
    audit.ledger.add_command(command)
_MODULES: Final = (
    access,
    desk,
    where,
    round_commands,
    downlink,
    parts,
    evaluation,
    model,
    cohort,
    audit,
    browser,
)
_GROUPS: Final = (consortium.app, terms.app, round_commands.anchor, audit.ledger, access.token)
COMMANDS: Final[Mapping[str, click.Command]] = {
    str(each.name): each
    for each in (sitting.round_, *(command for module in _MODULES for command in module.COMMANDS), *_GROUPS)
}
"""All commands by their names, and the groups of commands behind them."""
