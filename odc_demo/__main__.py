"""The command `odc-demo`, also as ``python -m odc_demo``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; its libraries are those of both sides."""
    try:
        from odc_demo.play import main as play
    except ModuleNotFoundError as error:
        sys.stderr.write(f"odc-demo: error: the library {error.name} is not installed here\n")
        sys.stderr.write("odc-demo: hint: install the package with its extra: [demo]\n")
        sys.exit(1)
    sys.exit(play())


if __name__ == "__main__":
    main()
