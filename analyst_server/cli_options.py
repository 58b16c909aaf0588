"""What the commands of the analyst's operator share."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from analyst_server.installation import open_analyst, require_noted_stores
from analyst_server.services import views
from analyst_server.services.acts import Actor, act_as
from analyst_server.services.analyst import Analyst
from analyst_server.settings import Settings, variable
from protocol.codec import explained
from protocol.errors import InputError, NotFoundError
from protocol.texts import is_id
from runtime.command_line import PATH
from runtime.logs import Lines
from runtime.terminal import quoted, shown

T = TypeVar("T")
data_dir_option = click.option(
    "--data-dir", type=PATH, help="directory of keys, database and blobs [env: ODC_ANALYST_DATA_DIR]"
)
html_file_option = click.option("--html", type=PATH, help="also write a page to this file")


def settings_of(
    data_dir: Path | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    log_level: str | None = None,
    compute_url: str | None = None,
) -> Settings:
    """Return the settings of the environment, replaced by the options that were given.

    Raises `InputError` for one that cannot be used, and if the data directory is no directory.
    """
    options: dict[str, Any] = {
        "data_dir": data_dir,
        "host": host,
        "port": port,
        "log_level": log_level,
        "compute_url": compute_url,
    }
    try:
        found = Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        wrong = "; ".join(f"{variable(str(where[0]))}: {why}" for where, _, why in explained(error))
        refused = InputError(f"settings: {wrong}")
        refused.hint = "correct the variable, or the option of the same name: docs/operations.md, settings"
        raise refused from None
    _require_directory(found.data_dir)
    return found


def _require_directory(path: Path) -> None:
    """Raise `InputError` if there is something else at a path, or above it."""
    for one in (path, *path.parents):
        if os.path.lexists(one):
            if one.is_dir():
                return
            error = InputError(f"{one} is no directory, and the analyst's files lie in one")
            error.hint = "name the analyst's data directory: --data-dir, or ODC_ANALYST_DATA_DIR"
            raise error


def whole_id(analyst: Analyst, given: str) -> str:
    """Return the id of the collaboration that is given by it, or by its first digits.

    Raises `NotFoundError` for what is neither. Whether a whole id is one of a collaboration is not looked up.
    """
    if is_id(given):
        return given
    found = []
    if re.fullmatch("[0-9a-f]{4,31}", given):
        found = views.listing(analyst, None, begins=given)
    if len(found) > 1:
        names = ", ".join(f"{row['title']} ({row['collaboration_id']})" for row in found)
        raise InputError(f"several collaborations have an id that begins so: {names}")
    if not found:
        error = NotFoundError(f"no collaboration has the id {quoted(given)}, or one that begins so")
        error.hint = "its id, or the first four digits of it or more: `odc-analyst collaboration list`"
        raise error
    return found[0]["collaboration_id"]


def log_lines() -> Lines:
    """Return how a line of the log looks for people; its time has the offset from UTC."""
    return Lines("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S%z")


def open_as_operator(settings: Settings, *, upgrades: bool = False) -> Analyst:
    """Open the analyst for a command: what it does is written down as done by the user of this machine.

    Raises `InputError` for tables of an earlier version, unless the command ``upgrades`` them: a server of
    that version may be running.
    """
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        user = f"uid {os.getuid()}"
    act_as(Actor("host", user, is_operator=True))
    require_noted_stores(settings)
    return open_analyst(settings, upgrades=upgrades)


def show_value(value: T, as_json: bool, people: Callable[[T], str]) -> None:
    """Print a value, for people or as JSON."""
    click.echo(shown(value, as_json=as_json, people=people))


def write_page(path: Path | None, page: Callable[[T], str], value: T) -> None:
    """Write a value as a page; raises `InputError` if the file cannot be written."""
    if path is not None:
        write_out(path, page(value).encode())


def write_out(path: Path, content: bytes) -> None:
    """Write a file that an option names; raises `InputError` if that cannot be done."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
