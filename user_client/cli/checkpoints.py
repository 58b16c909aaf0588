"""Checkpoints of a ledger: to be shown, cosigned and verified, also by somebody outside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from protocol.checkpoint import Note, NoteKey, load_note_key
from protocol.errors import InputError
from protocol.identity import load_certificate
from runtime.command_line import PATH, as_json_option
from runtime.files import read_bytes
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_output,
)
from user_client.sdk import checkpoints

_out_option = click.option("--out", type=PATH, help="write it to this file")
_file_argument = click.argument("file", type=PATH, help="a checkpoint")


def _written(value: dict[str, Any], data: bytes, out: Path | None, as_json: bool) -> None:
    if out is not None:
        write_output(out, data)
    text = data.decode()
    show(as_json, {**value, "file": str(out) if out else None, "text": text}, lambda: text.rstrip("\n"))


@click.command()
@_out_option
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def checkpoint(
    context: click.Context, out: Path | None, force: bool, collaboration: str | None, as_json: bool
) -> None:
    """Fetch the analyst's newest checkpoint, and check it against the whole ledger."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        note, _ = checkpoints.fetch_checkpoint(session, chosen.directory)
    _written(_json(note), note.bytes, out, as_json)


@click.command()
@_file_argument
@_out_option
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def cosign(
    context: click.Context,
    file: Path,
    out: Path | None,
    force: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Sign a checkpoint of the ledger that we have followed. Works offline."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        note = checkpoints.cosign(session, chosen.directory, Note.parse(read_bytes(file)))
    _written(_json(note), note.bytes, out, as_json)


@click.command()
@click.argument("earlier", type=PATH, help="a checkpoint that somebody has")
@click.argument("later", type=PATH, help="a newer one")
@_out_option
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def prove(
    context: click.Context,
    earlier: Path,
    later: Path,
    out: Path | None,
    force: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Prove to whoever has no entry that a ledger has only grown between two checkpoints. Works offline."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        before, after = Note.parse(read_bytes(earlier)), Note.parse(read_bytes(later))
        proof = checkpoints.prove_growth(session, chosen.directory, before, after)
    _written({"earlier": before.checkpoint.size, "later": after.checkpoint.size}, proof, out, as_json)


@click.command()
@_file_argument
@click.option(
    "--signer",
    type=PATH,
    multiple=True,
    required=True,
    help="certificate of the analyst or of a member, which must have signed",
)
@click.option(
    "--witness",
    multiple=True,
    metavar="NAME=FILE",
    help="witness outside that must have signed: its name in the file, its public key as PEM",
)
@click.option("--earlier", type=PATH, help="a checkpoint that we have seen before")
@click.option("--proof", type=PATH, help="what `odc ledger prove` wrote for the two")
@as_json_option
def verify_checkpoint(
    file: Path,
    signer: tuple[Path, ...],
    witness: tuple[str, ...],
    earlier: Path | None,
    proof: Path | None,
    as_json: bool,
) -> None:
    """Check a checkpoint with files alone: for somebody outside, who needs no membership and asks nobody."""
    if (earlier is None) != (proof is None):
        raise InputError("--earlier and --proof are given together")
    note = Note.parse(read_bytes(file))
    signers = checkpoints.check_signers(note, [load_certificate(read_bytes(path)) for path in signer])
    signers += checkpoints.check_witnesses(note, _witnesses(witness))
    value = {**_json(note), "signers": signers, "begins_with": None}
    lines = [
        f"{note.checkpoint.origin}: {note.checkpoint.size} entries",
        *(f"signed by {one}" for one in signers),
    ]
    if earlier is not None and proof is not None:
        before = Note.parse(read_bytes(earlier))
        checkpoints.check_signers(before, [load_certificate(read_bytes(signer[0]))])
        checkpoints.check_growth(before, note, read_bytes(proof))
        value["begins_with"] = before.checkpoint.size
        lines.append(f"begins with the {before.checkpoint.size} entries of the earlier checkpoint")
    show(as_json, value, lambda: "\n".join(lines))


def _witnesses(given: Sequence[str]) -> dict[str, NoteKey]:
    found = {}
    for one in given:
        name, is_given, file = one.partition("=")
        if not (name and is_given and file):
            raise InputError(f"--witness takes NAME=FILE, got {one}")
        found[name] = load_note_key(read_bytes(Path(file)))
    return found


def _json(note: Note) -> dict[str, Any]:
    found = note.checkpoint
    return {
        "collaboration_id": found.collaboration_id,
        "entries": found.size,
        "root": found.root.hex(),
        "signatures": len(note.lines),
    }


COMMANDS = (checkpoint, cosign, prove, verify_checkpoint)
"""Of `odc ledger`."""
