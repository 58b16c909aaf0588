"""What both commands share of Click: kinds of values, options, completion, and how a program ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class

from runtime.terminal import WrongCommandLineError

PATH: Final = click.Path(path_type=Path, readable=False)  # a file that cannot be read is told of in our words
SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "show_default": True}
"""The settings of a program, which its commands inherit."""


_WHOLE: Final = 1000
"""More characters than a sentence has."""


class InOrder(click.Group):
    """A group whose help lists its commands in the order in which they were added, each with a sentence."""

    sections: Mapping[str, Sequence[str]] = {}
    """The names of its commands by headings, in the order of the help; without any they have one heading."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them on as many lines as they take, where Click cuts them off at the end of the first."""
        for heading, names in (self.sections or {"Commands": self.list_commands(context)}).items():
            found = [(name, self.get_command(context, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, each.get_short_help_str(_WHOLE)) for name, each in found if each])


as_json_option: Final = click.option("--json", "as_json", is_flag=True, help="print JSON for machines")


def completion_option(program: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a program that prints what lets a shell complete its commands and options."""

    def show(context: click.Context, _: click.Parameter, shell: str | None) -> None:
        found = get_completion_class(shell) if shell else None
        if found is not None:
            variable = f"_{program}_COMPLETE".replace("-", "_").upper()
            click.echo(found(context.command, {}, program, variable).source())
            context.exit()

    return click.option(
        "--completion",
        type=click.Choice(["bash", "zsh", "fish"]),
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f'print what lets a shell complete: eval "$({program} --completion bash)"',
    )


def version_option(program: str, version: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a program that prints its version."""
    return click.version_option(version, message=f"{program} %(version)s", help="print the version")


def run(program: str, application: Callable[..., object]) -> NoReturn:
    """Run a program of Click, and end the process.

    Raises what its commands raise, `KeyboardInterrupt` if a person interrupts them, and with ``--json``
    `WrongCommandLineError` in the place of Click's own words.
    """
    try:
        code = application(prog_name=program, standalone_mode=False)
    except click.ClickException as error:
        if "--json" in sys.argv[1:]:
            raise WrongCommandLineError(error.format_message()) from None
        error.show()
        code = error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    sys.exit(code if isinstance(code, int) else 0)
