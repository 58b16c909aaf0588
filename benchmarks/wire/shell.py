"""One member in one process: its commands, one after another, without starting anew for each.

``python -m benchmarks.wire.shell odc --home DIR``, or ``odc-analyst``, reads a command a line, as a JSON
list of words, and answers each with a line of JSON. What goes over the wire is what the commands send.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from typing import Any

import typer

from protocol.errors import OdcError, for_terminal


def run(app: typer.Typer, program: str, words: list[str]) -> dict[str, Any]:
    """Run one command and return its exit code, and what it printed or its error."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            app(words, prog_name=program, standalone_mode=False)
    except OdcError as error:
        return {"exit_code": error.exit_code, "error": for_terminal(program, error)}
    return {"exit_code": 0, "printed": printed.getvalue()}


def load(program: str) -> typer.Typer:
    """Return the commands of one side; the other side's libraries stay where they are."""
    if program == "odc":
        from user_client.cli.main import app as institution

        return institution
    from analyst_server.cli import app as analyst

    return analyst


def main(program: str, *first: str) -> None:
    app = load(program)
    for line in sys.stdin:
        print(json.dumps(run(app, program, [*first, *json.loads(line)])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
