"""`odc-analyst verify`: what of everything that is stored is not as it was signed."""

from __future__ import annotations

from pathlib import Path

import click

from analyst_server.cli_options import (
    data_dir_option,
    open_as_operator,
    settings_of,
    show_value,
)
from analyst_server.services import own_arrays, scrub
from analyst_server.services.analyst import Analyst
from analyst_server.settings import Settings
from protocol.errors import InputError, OdcError, StorageError, UnreadableFileError
from protocol.version import OlderServerError
from runtime.command_line import as_json_option
from runtime.waiting import look_until


@click.command()
@click.option(
    "--wait",
    type=float,
    default=0,
    help="seconds to try again while a server starts, upgrades the records or is busy",
)
@data_dir_option
@as_json_option
def verify(wait: float, data_dir: Path | None, as_json: bool) -> None:
    """Compare everything that is stored with what was signed for it, and name what is damaged."""
    found = scrub.scrub(_opened(settings_of(data_dir), wait))
    show_value(found.as_json(), as_json, lambda _: _text(found))
    if found.damaged:
        damaged = UnreadableFileError("all that is stored", f"{len(found.damaged)} arrays are damaged")
        damaged.hint = (
            "a damaged uplink is asked for again when its round is computed; for all else, use a backup"
        )
        raise damaged
    if found.unreadable:
        unreadable = OlderServerError(f"{len(found.unreadable)} records that are named above")
        unreadable.hint = (
            "all else was checked; upgrade this server if a newer one shares these records, else they are"
            " damaged: restore a backup"
        )
        raise unreadable


def _opened(settings: Settings, wait_s: float) -> Analyst:
    """Return the analyst with its records checked; an error that a starting server may end is waited for."""

    def look() -> Analyst | OdcError:
        try:
            analyst = open_as_operator(settings)
            analyst.records.check()
            own_arrays.require_for_command(analyst)
        except UnreadableFileError:
            raise
        except (InputError, StorageError) as error:
            return error
        return analyst

    found = look_until(lambda seen: isinstance(seen, Analyst), look, wait_s=wait_s)
    if isinstance(found, OdcError):
        raise found
    return found


def _text(found: scrub.Scrubbed) -> str:
    lines = [f"read {found.arrays} arrays, {found.bytes:,} bytes: {len(found.damaged)} damaged"]
    lines += [f"  {_whose(one)}: {one.name}, in blobs/{one.blob}" for one in found.damaged]
    lines += [f"not checked, because it cannot be read here: {_whose(one)}" for one in found.unreadable]
    lines += [f"not checked, because it is sealed: blobs/{key}" for key in found.unchecked]
    return "\n".join(lines)


def _whose(one: scrub.Found) -> str:
    of = f" of {', '.join(one.parties)}" if one.parties else ""
    return f"{one.collaboration_id}  {one.kind}{of}"
