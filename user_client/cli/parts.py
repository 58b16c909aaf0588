"""`odc part` and `odc predict --with`: predictions for rows whose columns several institutions hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_private,
)
from user_client.cli.progress import reading
from user_client.cli.table_options import TableArgument, reads_table
from user_client.sdk.joined_rows import own_group
from user_client.sdk.parts import JoinedPredictor, make_part
from user_client.sdk.predictor import Predictor
from user_client.sdk.round import Round
from user_client.tables import read_parts

WithParts = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        help="where rows are joined: the file that another institution made by `odc part` for the same rows;"
        " repeat for each",
    ),
]


@reads_table
def part(
    context: typer.Context,
    table: TableArgument,
    out: Annotated[Path, typer.Option(help="file to write, for the institution that predicts")] = Path(
        "rows.odcpart"
    ),
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Write our part of predictions for rows of which others hold the other columns. Nothing is sent.

    Give the file to the institution that predicts, and to nobody else: it says which of its rows are in our
    table, and holds a projection of ours of them.
    """
    refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        directory = round_of(session, collaboration, as_json=as_json).directory
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


COMMANDS: Final[tuple[Callable[..., None], ...]] = (part,)
"""The commands of this module that stand directly behind `odc`."""
