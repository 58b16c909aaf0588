"""The command `odc`, also as ``python -m user_client``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.memory import return_what_is_freed
from runtime.start_up import as_whole_process, leave_out, start

if TYPE_CHECKING:
    from click import Group


def run() -> None:
    """Run the command as a process of its own."""
    as_whole_process(main)


def main() -> None:
    """Run the command."""
    start("odc", load, extra="client")


def load() -> Group:
    """Return the Click application, in a process that is `odc` and nothing else."""
    return_what_is_freed()
    # blocks of rows are small: a second thread of OpenBLAS would wait for the first, on the core that reads
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    leave_out("httpx._main")  # httpx looks for its own command, which loads Rich
    leave_out("pandas")  # Arrow looks for it at the first array; it takes a tenth of a second, for nothing
    from user_client.cli.main import app

    return app


if __name__ == "__main__":
    run()
