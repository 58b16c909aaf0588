"""The command `odc-analyst`, also as ``python -m analyst_server``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.start_up import start

if TYPE_CHECKING:
    from click import Group


def main() -> None:
    """Run the command."""
    os.umask(0o077)  # keys, rows and results: only the user who runs this program may read its files
    start("odc-analyst", load, extra="server")


def load() -> Group:
    """Return the Click application."""
    from analyst_server.cli import app

    return app


if __name__ == "__main__":
    main()
