"""Loads the libraries of `odc` as its commands do; tests/harness/forked.py forks what has imported this."""

import typer.main

from runtime.start_up import loading
from user_client.__main__ import load

with loading():
    commands = typer.main.get_command(load()).commands  # type: ignore[attr-defined]  # it is a group
    list(commands.values())  # they are loaded when they are asked for
