"""What the commands of the analyst's operator share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from protocol.errors import InputError
from runtime.terminal import shown

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="print JSON for machines")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="also write a page to this file")]


def show_value(value: T, as_json: bool, people: Callable[[T], str]) -> None:
    """Print a value, for people or as JSON."""
    typer.echo(shown(value, as_json=as_json, people=people))


def write_page(path: Path | None, page: Callable[[T], str], value: T) -> None:
    """Write a value as a page; raises `InputError` if the file cannot be written."""
    if path is None:
        return
    try:
        path.write_text(page(value), "utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
