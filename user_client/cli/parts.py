"""`odc part` and `odc predict --with`: predictions for rows whose columns several institutions hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from runtime.command_line import PATH, as_json_option
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_private,
)
from user_client.cli.progress import reading
from user_client.cli.table_options import reads_table, table_argument
from user_client.sdk.joined_rows import own_group
from user_client.sdk.parts import JoinedPredictor, make_part
from user_client.sdk.predictor import Predictor
from user_client.sdk.round import Round
from user_client.tables import Source, read_parts


@click.command()
@table_argument
@click.option(
    "--out", type=PATH, default="rows.odcpart", help="file to write, for the institution that predicts"
)
@force_option
@collaboration_option
@as_json_option
@reads_table
@click.pass_context
def part(
    context: click.Context, table: Source, out: Path, force: bool, collaboration: str | None, as_json: bool
) -> None:
    """Write our part of predictions for rows of which others hold the other columns. Nothing is sent.

    Give the file to the institution that predicts, and to nobody else: it says which of its rows are in our
    table, and holds a projection of ours of them.
    """
    refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        directory = round_of(session, collaboration, as_json=as_json, received=True).directory
    with reading(as_json, table, "computing our part") as watched:
        content, rows = make_part(directory, read_parts(watched))
    write_private(out, content)
    show(
        as_json,
        {"rows": rows, "part": str(out)},
        lambda: (
            f"our part for {rows:,} rows written to {out}: give it to the institution that predicts, which"
            f" runs `odc predict TABLE --with {out.name}`"
        ),
    )


def predictor_with(chosen: Round, files: Sequence[Path]) -> tuple[Predictor, Predictor | JoinedPredictor]:
    """Return the model, and what predicts with it: where rows are joined, with the parts of the others."""
    if not files and own_group(chosen.directory) is None:
        predictor = chosen.predictor()
        return predictor, predictor
    joined = JoinedPredictor(chosen.directory, files)
    return joined.predictor, joined


COMMANDS: Final[tuple[click.Command, ...]] = (part,)
"""The commands of this module that stand directly behind `odc`."""
