"""All commands of `odc`, put together from the modules of this package in the order of the help."""

from __future__ import annotations

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

app = typer.Typer(rich_markup_mode=None)
app.add_typer(consortium.app, name="consortium")
app.add_typer(terms.app, name="terms")
app.add_typer(round_commands.anchor, name="anchor")
app.add_typer(audit.ledger, name="ledger")
app.add_typer(access.token, name="token")
app.command(name="round")(walk.round_)
for command in checkpoints.COMMANDS:
    audit.ledger.command()(command)
for module in (access, desk, walk, round_commands, parts, evaluation, model, cohort, audit, browser):
    for command in module.COMMANDS:
        app.command()(command)
