"""The command `odc-analyst`, also as ``python -m analyst_server``."""

from __future__ import annotations

import os
from collections.abc import Callable

from runtime.start_up import start


def main() -> None:
    """Run the command."""
    os.umask(0o077)  # keys, rows and results: only the user who runs this program may read its files
    start("odc-analyst", _load, extra="server")


def _load() -> Callable[..., object]:
    from analyst_server.cli import app

    return app


if __name__ == "__main__":
    main()
