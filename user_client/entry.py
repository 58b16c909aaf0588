"""What the command `odc` starts: the first thing that can go wrong is an import."""

from __future__ import annotations

import sys

from protocol.loading import loading


def main() -> None:
    """Run the command; without its libraries, or when it is interrupted, say so in a line."""
    try:
        with loading():
            from user_client.cli.main import main as run

        run()
    except ModuleNotFoundError as error:
        sys.stderr.write(f"odc: error: the library {error.name} is not installed here\n")
        sys.stderr.write("odc: hint: install the package with its extra: [client]\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("odc: stopped; run it again, it goes on\n")
        sys.exit(130)
