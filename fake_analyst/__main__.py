"""The command `odc-fake-analyst`, also as ``python -m fake_analyst``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; its libraries are those of both sides."""
    try:
        from fake_analyst.command import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"odc-fake-analyst: error: the library {error.name} is not installed here\n")
        sys.stderr.write("odc-fake-analyst: hint: install the package with its extra: [demo]\n")
        sys.exit(1)
    sys.exit(run())


if __name__ == "__main__":
    main()
