"""What a person can prove afterwards: the ledger of a collaboration, and that the basis is forgotten."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from protocol.errors import InputError
from protocol.messages import ForgettingStatement, PrivacyRecord
from protocol.terms import Terms
from runtime.command_line import PATH, InOrder, as_json_option
from runtime.files import read_bytes
from runtime.terminal import minute, privacy_in_words, second
from user_client import evidence_verifier
from user_client.cli.options import (
    collaboration_option,
    force_option,
    open_session,
    refuse_to_overwrite,
    round_of,
    show,
    write_output,
    write_private,
)
from user_client.custody.round_directory import ANCHOR_FILES, BASIS_FILES, STATEMENT_FILE
from user_client.errors import NotForgottenError
from user_client.sdk.evidence import Evidence
from user_client.sdk.forgetting import Examined
from user_client.sdk.ledger_check import CheckedLedger
from user_client.sdk.releases import Release, list_releases
from user_client.sdk.round import Round

ledger = InOrder("ledger", help="Every step of a collaboration, signed by the analyst.")

_CAVEAT = (
    "erased means overwritten once and unlinked: a solid-state disk, a journal, a snapshot or a backup may"
    " still hold older copies (docs/nri.md)"
)


@click.command()
@click.option(
    "--yes",
    is_flag=True,
    help="erase even if something is lost, which the command names; under NRI-DC the anchor too",
)
@click.option("--check", is_flag=True, help="erase nothing: list every file and verify our statement")
@collaboration_option
@as_json_option
@click.pass_context
def forget(context: click.Context, yes: bool, check: bool, collaboration: str | None, as_json: bool) -> None:
    """Erase the secret basis and what leads to it, and sign a statement of that."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        if check:
            examined = chosen.examine()
        else:
            statement = chosen.forget(confirmed=yes)
        path = chosen.directory.path / STATEMENT_FILE
    if not check:
        value = {
            "collaboration_id": chosen.id,
            **_statement_json(statement),
            "statement": str(path),
        }
        show(as_json, value, lambda: _forgotten_text(statement, path))
        return
    value = {"collaboration_id": chosen.id, "forgotten": examined.is_forgotten, **_examined_json(examined)}
    show(as_json, value, lambda: _examined_text(examined))
    if not examined.is_forgotten:
        raise NotForgottenError(_why_not(examined))


def _statement_json(statement: ForgettingStatement) -> dict[str, Any]:
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
        "statement": _statement_json(examined.statement) if examined.statement else None,
        "statement_is_ours": examined.statement_is_ours,
    }


def _forgotten_text(statement: ForgettingStatement, path: Path) -> str:
    lines = ["erased, and signed by us:", *_erased_lines(statement), f"statement: {path}", _CAVEAT]
    return "\n".join([*lines, "next: odc forget --check"])


def _erased_lines(statement: ForgettingStatement) -> list[str]:
    roles = {**BASIS_FILES, **ANCHOR_FILES}
    return [
        f"  {second(file.erased_at)}  {file.size_bytes:>12,} bytes  {file.name}"
        + (f" ({roles[file.name]})" if file.name in roles else "")
        for file in statement.erased
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
        lines += [
            "no file here contains the secret basis or the order of the rows, or leads to them",
            _CAVEAT,
        ]
    return "\n".join(lines)


def _why_not(examined: Examined) -> str:
    if examined.held:
        return f"these files still contain or reveal the basis: {', '.join(examined.held)}"
    if examined.unknown:
        return f"files of unknown content: {', '.join(examined.unknown)}"
    return "we have signed no statement that anything was erased"


@ledger.command()
@click.option("--out", type=PATH, help="also write the ledger to this file")
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def fetch(
    context: click.Context, out: Path | None, force: bool, collaboration: str | None, as_json: bool
) -> None:
    """Fetch the ledger and check it as `odc ledger verify` does."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        data, checked = chosen.fetch_ledger()
    if out is not None:
        write_output(out, data)
    _show(chosen, checked, as_json=as_json)


@ledger.command()
@click.argument(
    "file",
    type=PATH,
    required=False,
    help="a ledger, ours or another member's; the one fetched last otherwise",
)
@collaboration_option
@as_json_option
@click.pass_context
def verify(context: click.Context, file: Path | None, collaboration: str | None, as_json: bool) -> None:
    """Check a ledger against everything we have signed and received. Works offline."""
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        checked = chosen.verify_ledger(read_bytes(file) if file else chosen.stored_ledger())
    _show(chosen, checked, as_json=as_json)


def _show(chosen: Round, checked: CheckedLedger, *, as_json: bool) -> None:
    value = _ledger_json(chosen.id, checked)
    has_groups = chosen.terms_were_shown and chosen.directory.load(Terms).model_groups is not None
    show(as_json, value, lambda: _ledger_text(value, checked, has_groups=has_groups))


def _ledger_json(collaboration_id: str, checked: CheckedLedger) -> dict[str, Any]:
    return {
        "collaboration_id": collaboration_id,
        "entries": len(checked.entries),
        "state": checked.entries[-1].state.value,
        "head": checked.head.hex(),
        "signed_at": checked.signed_at,
        "checked": list(checked.checked),
        "members": list(checked.members),
        "trained_on": None if checked.trained_on is None else list(checked.trained_on),
        "receivers": list(checked.receivers),
    }


def _ledger_text(value: dict[str, Any], checked: CheckedLedger, *, has_groups: bool) -> str:
    models = "each model was trained on" if has_groups else "the model was trained on the"
    lines = [
        f"{entry.index:>5}  {second(entry.at)}  {entry.event:<16} {entry.party or 'analyst':<24}"
        f" {entry.state}"
        for entry in checked.entries
    ]
    ours = ", ".join(value["checked"]) or "nothing yet"
    lines += [
        f"the ledger passed verification: {value['entries']} entries,"
        f" signed by the analyst at {second(value['signed_at'])}",
        f"compared with our files: {ours}",
        *([f"{models} uplinks of: {', '.join(value['trained_on'])}"] if value["trained_on"] else []),
        *(
            [f"the same as these had seen when they sent: {', '.join(value['members'])}"]
            if value["members"]
            else []
        ),
        *(
            [f"and as these had seen with their downlinks: {', '.join(value['receivers'])}"]
            if value["receivers"]
            else []
        ),
        f"head: {value['head']}",
        "other members must see the same head after as many entries, or they were shown another ledger",
    ]
    return "\n".join(lines)


@click.command()
@as_json_option
@click.pass_context
def releases(context: click.Context, as_json: bool) -> None:
    """List what we have sent, over all rounds. Works offline."""
    with open_session(context) as session:
        found = list(list_releases(session.home))
    show(as_json, {"releases": [asdict(release) for release in found]}, lambda: _releases_text(found))


def _releases_text(found: list[Release]) -> str:
    lines = []
    for release in found:
        lines.append(
            f"{minute(release.received_at)}  {release.collaboration_id}  {release.title}:"
            f" {release.rows:,} rows, {release.latent_dim} numbers each"
        )
        lines += [f"  {words}" for words in privacy_in_words(PrivacyRecord(**release.privacy))]
    return "\n".join(lines or ["nothing was sent yet"])


@click.command()
@click.option("--out", type=PATH, help="write the archive, a ZIP file, to this file")
@click.option("--verifier", is_flag=True, help="only print the program that verifies an archive")
@force_option
@collaboration_option
@as_json_option
@click.pass_context
def evidence(
    context: click.Context,
    out: Path | None,
    verifier: bool,
    force: bool,
    collaboration: str | None,
    as_json: bool,
) -> None:
    """Write all that we can show an auditor of a collaboration to one signed archive. Works offline."""
    if verifier:
        click.echo(Path(evidence_verifier.__file__).read_text(), nl=False)
        return
    if out is None:
        raise InputError("name the archive to write: --out FILE.zip")
    refuse_to_overwrite(out, force=force)
    with open_session(context) as session:
        chosen = round_of(session, collaboration, as_json=as_json)
        made = chosen.evidence()
    write_private(out, made.archive)
    value = {
        "collaboration_id": chosen.id,
        "out": str(out),
        "bytes": len(made.archive),
        "files": made.files,
        "absent": made.absent,
        "doubts": made.doubts,
        "root_fingerprint": made.root_fingerprint,
    }
    show(as_json, value, lambda: _evidence_text(made, out))


def _evidence_text(made: Evidence, out: Path) -> str:
    lines = [f"{out}: {len(made.archive):,} bytes, signed by us; no secret and no row is in it"]
    lines += [f"  {name:<16} {what}" for name, what in made.files.items()]
    if made.absent:
        lines += ["not in it, because it has not happened or is not stored here:"]
        lines += [f"  {name:<16} would come with `{command}`" for name, command in made.absent.items()]
    lines += ["its verifier says:", *(f"  {fact}" for fact in made.facts)]
    lines += [f"  DOUBT: {doubt}" for doubt in made.doubts]
    return "\n".join(
        [
            *lines,
            "an auditor verifies it without our software: odc evidence --verifier > verify_evidence.py, then",
            f'  python verify_evidence.py {out.name} --root "{made.root_fingerprint}"',
        ]
    )


COMMANDS: Final[tuple[click.Command, ...]] = (forget, releases, evidence)
"""The commands of this module that stand directly behind `odc`."""
