"""The commands on the model that came back, beside predicting with it: export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from protocol.errors import InputError
from user_client.cli.options import (
    AsJson,
    CollaborationOption,
    Force,
    busy,
    open_session,
    refuse_to_overwrite,
    show,
    write_output,
    write_private,
)


def export(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="ONNX file; its card goes beside it")] = Path("model.onnx"),
    force: Force = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one ONNX file from the raw columns of a table to the answer, for other programs in this house.

    It holds the secret map F_i G_i and must not leave the institution. A card in Markdown goes beside it.
    """
    card = out.with_suffix(".md")
    if card == out:
        raise InputError(f"{out} would be the card: name the model with another ending, such as .onnx")
    for path in (out, card):
        refuse_to_overwrite(path, force=force)
    with open_session(context) as session:
        chosen = session.round(collaboration)
        with busy(as_json, "putting the file together"):
            found = chosen.export()
    write_private(out, found.onnx_file)
    write_output(card, found.card.encode())
    show(
        as_json,
        {"model": str(out), "card": str(card), "largest_difference": found.largest_difference},
        lambda: (
            f"{out} and {card} written; over made-up rows, its answers differ from those of `odc predict` by"
            f" {found.largest_difference:.1e} at most\n{out} holds the secret map F_i G_i: only you can read"
            " it, and it must stay inside this institution"
        ),
    )


COMMANDS: Final[tuple[Callable[..., None], ...]] = (export,)
"""The commands of this module that stand directly behind `odc`."""
