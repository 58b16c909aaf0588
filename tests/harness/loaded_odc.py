"""Loads the libraries of `odc` as the command does; tests/harness/forked.py forks what has imported this."""

from runtime.start_up import loading
from user_client.__main__ import load

with loading():
    load()
