"""One institution in one process: the commands of `odc`, one after another, without starting anew.

``python -m benchmarks.wire.institution HOME`` reads a command a line, as a JSON list of words, and
answers each with a line of JSON. What goes over the wire is what the commands send.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from typing import Any

from protocol.errors import OdcError, for_terminal
from user_client.cli.main import app


def run(home: str, words: list[str]) -> dict[str, Any]:
    """Run one command and return its exit code, and its JSON or its error."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            app(["--home", home, *words, "--json"], prog_name="odc", standalone_mode=False)
    except OdcError as error:
        return {"exit_code": error.exit_code, "error": for_terminal("odc", error)}
    return {"exit_code": 0, "answer": json.loads(printed.getvalue())}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(sys.argv[1], json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
