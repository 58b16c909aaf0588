"""Run one member's commands in one process, one after another, without starting a new one for each.

``python -m benchmarks.wire.shell odc --home DIR``, or ``odc-analyst``, reads one command per line, as a JSON
list of words, and answers each with a line of JSON. What goes over the wire is what the commands send.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from runtime.start_up import loading

Commands = Callable[..., Any]


def run(commands: Commands, program: str, words: list[str]) -> dict[str, Any]:
    """Run one command and return its exit code with its output or its error."""
    from protocol.errors import OdcError
    from runtime.terminal import exit_code, for_terminal

    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            commands(words, prog_name=program, standalone_mode=False)
    except OdcError as error:
        return {"exit_code": exit_code(error), "error": for_terminal(program, error)}
    return {"exit_code": 0, "printed": printed.getvalue()}


def load(program: str) -> Commands:
    """Return the commands of one side, without loading the other side's libraries."""
    with loading():
        if program == "odc":
            from user_client.__main__ import load as load_odc

            return load_odc()
        from analyst_server.cli import app

        return app


def main(program: str, *first: str) -> None:
    commands = load(program)
    for line in sys.stdin:
        print(json.dumps(run(commands, program, [*first, *json.loads(line)])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
