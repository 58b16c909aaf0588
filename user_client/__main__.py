"""The command `odc`, also as ``python -m user_client``."""

from __future__ import annotations

from collections.abc import Callable

from runtime.start_up import as_whole_process, start
from user_client.memory import return_what_is_freed


def run() -> None:
    """Run the command as a process of its own."""
    as_whole_process(main)


def main() -> None:
    """Run the command."""
    start("odc", _load, extra="client")


def _load() -> Callable[..., object]:
    return_what_is_freed()
    from user_client.cli.main import app

    return app


if __name__ == "__main__":
    run()
