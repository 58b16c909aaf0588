"""`odc-analyst backup` and `odc-analyst restore`."""

from __future__ import annotations

from pathlib import Path

import click

from analyst_server.backup import Backup, back_up
from analyst_server.backup import restore as put_back
from analyst_server.cli_options import (
    data_dir_option,
    open_as_operator,
    settings_of,
    show_value,
)
from analyst_server.installation import unix_now
from analyst_server.services.acts import Act, note
from analyst_server.settings import Settings
from protocol.errors import StorageError
from runtime.command_line import PATH, as_json_option
from runtime.terminal import minute


@click.command()
@click.argument("directory", type=PATH, help="a new directory for the copy")
@data_dir_option
@as_json_option
def backup(directory: Path, data_dir: Path | None, as_json: bool) -> None:
    """Copy everything the analyst has, its key included, while the server runs."""
    settings = settings_of(data_dir)
    found = back_up(settings, directory, now=unix_now())
    _note(settings, "back up", directory)
    show_value(
        found.as_json(),
        as_json,
        lambda _: f"{_size(found)} copied to {directory}; the analyst's key is among them: keep it as safe",
    )


@click.command()
@click.argument("directory", type=PATH, help="what `odc-analyst backup` has written")
@data_dir_option
@as_json_option
def restore(directory: Path, data_dir: Path | None, as_json: bool) -> None:
    """Put a backup into an empty data directory, after comparing every file with its digest."""
    settings = settings_of(data_dir)
    found = put_back(settings, directory)
    _note(settings, "restore", directory, upgrades=True)  # no server has them yet
    show_value(
        found.as_json(),
        as_json,
        lambda _: f"{_size(found)} restored as of {minute(found.made_at)}; run `odc-analyst serve`",
    )


def _note(settings: Settings, act: Act, directory: Path, *, upgrades: bool = False) -> None:
    """Write down what was done, for the audit; where that cannot be written, what was done is done."""
    try:
        with open_as_operator(settings, upgrades=upgrades).records.begin(write=True) as unit:
            note(unit, act, unix_now(), str(directory))
    except StorageError as error:
        click.echo(f"`odc-analyst audit` will not show this: {error.detail}", err=True)


def _size(found: Backup) -> str:
    return f"{found.files} files with {found.bytes / 1e6:,.1f} MB"
