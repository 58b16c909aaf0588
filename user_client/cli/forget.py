"""`odc forget`: erase the secret basis, and look whether it is gone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from protocol.messages import ForgettingStatement
from runtime.terminal import second
from user_client.cli.options import AsJson, CollaborationOption, open_session, show
from user_client.custody.inventory import STATEMENT_FILE
from user_client.errors import NotForgottenError
from user_client.sdk import Examined, examine, forgotten_in_words
from user_client.sdk import forget as forget_basis

CAVEAT = (
    "erased means overwritten once and unlinked: a solid-state disk, a journal, a snapshot or a backup may"
    " still hold older copies (docs/nri.md)"
)


def forget(
    context: typer.Context,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="also where something is lost by it: the command says what; under NRI-DC the anchor too",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="erase nothing: list every file, verify our statement")
    ] = False,
    collaboration: CollaborationOption = None,
    as_json: AsJson = False,
) -> None:
    """Erase the secret basis and what leads to it, and sign that we did."""
    with open_session(context) as session:
        chosen = session.choose(collaboration)
        if check:
            examined = examine(session, chosen)
        else:
            statement = forget_basis(session, chosen, confirmed=yes)
        directory = session.home.collaboration(chosen)
    if not check:
        value = {
            "collaboration_id": chosen,
            **_as_json(statement),
            "statement": str(directory / STATEMENT_FILE),
        }
        show(as_json, value, lambda: _text(statement, value["statement"]))
        return
    value = {"collaboration_id": chosen, "forgotten": examined.is_forgotten, **_examined_json(examined)}
    show(as_json, value, lambda: _examined_text(examined))
    if not examined.is_forgotten:
        raise NotForgottenError(_why_not(examined))


def _as_json(statement: ForgettingStatement) -> dict[str, Any]:
    uplink = statement.uplink_digest
    return {
        "uplink_digest": uplink.hex() if uplink else None,
        "erased": [file.model_dump() for file in statement.erased],
    }


def _examined_json(examined: Examined) -> dict[str, Any]:
    return {
        "held": list(examined.held),
        "unknown": list(examined.unknown),
        "files": [
            {"name": file.name, "bytes": file.size_bytes, "role": file.role or None}
            for file in examined.files
        ],
        "statement": _as_json(examined.statement) if examined.statement else None,
        "statement_is_ours": examined.statement_is_ours,
    }


def _text(statement: ForgettingStatement, path: str) -> str:
    lines = ["erased, and signed by us:", *_erased_lines(statement), f"statement: {path}", CAVEAT]
    return "\n".join([*lines, "next: odc forget --check"])


def _erased_lines(statement: ForgettingStatement) -> list[str]:
    return [
        f"  {second(file.erased_at)}  {file.size_bytes:>12,} bytes  {words}"
        for file, words in zip(statement.erased, forgotten_in_words(statement), strict=True)
    ]


def _examined_text(examined: Examined) -> str:
    lines = [
        "every file of this collaboration:",
        *(
            f"  {file.name:<22} {file.size_bytes:>12,} bytes  {file.role or 'unknown'}"
            for file in examined.files
        ),
    ]
    if examined.statement is not None:
        whose = "verified" if examined.statement_is_ours else "NOT ours, or not of this round"
        lines += [f"our statement ({whose}):", *_erased_lines(examined.statement)]
    if examined.is_forgotten:
        lines += ["no file here holds the secret basis, the order of the rows, or what leads to them", CAVEAT]
    return "\n".join(lines)


def _why_not(examined: Examined) -> str:
    if examined.held:
        return f"still here: {', '.join(examined.held)}"
    if examined.unknown:
        return f"files of unknown content: {', '.join(examined.unknown)}"
    return "there is no statement of ours that anything was erased"
