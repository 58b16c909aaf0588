"""What the commands share: options, the session they mean, and how they print."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from protocol.errors import InputError
from user_client.custody.files import read_text
from user_client.sdk import Session, renew_in_time

PROGRESS_AFTER_BYTES = 4 * 2**20
"""Less than this is over before a person has read the bar."""


@dataclass(frozen=True)
class Options:
    """The options before the command."""

    home: Path


@contextmanager
def open_session(context: typer.Context) -> Iterator[Session]:
    """Yield the session of the institution the command was started for.

    A command that talked to the analyst also sees to it that our certificate does not end unnoticed.
    """
    with Session(context.ensure_object(Options).home) as session:
        yield session
        if session.is_connected():
            renew_in_time(session)


def show(as_json: bool, value: dict[str, Any], people: Callable[[], str]) -> None:
    """Print JSON for machines or a text for people."""
    typer.echo(json.dumps(value, indent=2) if as_json else people())


def set_up_logging(verbose: bool) -> None:
    told = "%(asctime)s %(name)s: %(message)s" if verbose else "odc: %(message)s"
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=told)
    logging.getLogger("httpx").setLevel(logging.WARNING)


@contextmanager
def upload_progress(as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that draws a bar for people, on a terminal, when there is much to send."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield lambda _done, _all: None
        return
    columns = ("sending", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("uplink", total=None, visible=False)
        yield lambda done, total: bar.update(
            task, completed=done, total=total, visible=total > PROGRESS_AFTER_BYTES
        )


@contextmanager
def busy(as_json: bool, words: str) -> Iterator[None]:
    """Show people, on a terminal, that something goes on whose end nobody knows."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield
        return
    with console.status(words):
        yield


CollaborationOption = Annotated[
    str | None, typer.Option("--collaboration", "-c", help="its id; needed when there are several")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON for machines")]
Force = Annotated[bool, typer.Option("--force", help="overwrite the file if it exists")]
TableArgument = Annotated[Path, typer.Argument(help="CSV (also .gz) or Parquet")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help="file with the passphrase of the root key; asked for otherwise [env: ODC_PASSPHRASE_FILE]",
    ),
]


def passphrase(file: Path | None, *, confirm: bool = False) -> str:
    """Return the passphrase of the root key, from a file or from the person at the terminal."""
    named = file or (Path(os.environ["ODC_PASSPHRASE_FILE"]) if "ODC_PASSPHRASE_FILE" in os.environ else None)
    if named is not None:
        return read_text(named).strip()
    return str(typer.prompt("Passphrase of the root key", hide_input=True, confirmation_prompt=confirm))


def refuse_to_overwrite(path: Path, *, force: bool) -> None:
    """Raise `InputError` if a file would be lost that nobody gave up."""
    if path.exists() and not force:
        raise InputError(f"{path} exists; name another with --out, or overwrite it with --force")


def write_output(path: Path, data: bytes) -> None:
    """Write a file a person named; raises `InputError`."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
