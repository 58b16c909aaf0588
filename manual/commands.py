"""The reference of commands, as Markdown, from the commands themselves: every argument and every option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from analyst_server import cli as analyst_cli
from user_client.cli import main as client_cli

WRITTEN: Final = "<!-- written by `make reference` from the commands: change the code, not this file -->"
_ABOUT: Final = """\
# Options

Every argument and every option of `odc` and of `odc-analyst`, as `--help` prints them. What the commands do,
and in which order, is in [Commands](cli.md).
"""
_EVERYWHERE: Final = ("--help", "--completion")


def commands_reference() -> str:
    """Return the page about the options of all commands."""
    parts = [WRITTEN, _ABOUT]
    for program, app in (("odc", client_cli.app), ("odc-analyst", analyst_cli.app)):
        parts += _of_command(app, program, 2)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _of_command(command: Any, words: str, level: int) -> Iterator[str]:
    """Yield the section of a command, and those of the commands below it."""
    children = getattr(command, "commands", {})
    rows = [row for parameter in command.params if (row := _row(parameter)) is not None]
    if rows or not children:
        yield f"{'#' * level} `{words}`"
        yield (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows])
    for name, child in children.items():
        yield from _of_command(child, f"{words} {name}", 3)


def _row(parameter: Any) -> str | None:
    """Return the line of an argument or an option; None for those of every command and hidden ones."""
    names = [*parameter.opts, *parameter.secondary_opts]
    if names[0] in _EVERYWHERE or getattr(parameter, "hidden", False):
        return None
    is_option = parameter.param_type_name == "option"
    shown = ", ".join(f"`{name}`" for name in names) if is_option else f"`{parameter.name.upper()}`"
    said = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|").replace("<", "&lt;")
    return f"| {shown} | {said}{'' if not parameter.required else ' (required)'} |"
