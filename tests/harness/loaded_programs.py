"""Loads the libraries of both programs as they do; tests/harness/forked.py forks what has imported this."""

import analyst_server.__main__
import user_client.__main__
from runtime.start_up import loading

with loading():
    for load in (user_client.__main__.load, analyst_server.__main__.load):
        list(load().commands.values())  # those of `odc` are loaded when they are asked for
    import analyst_server.serving  # `serve` loads it when it is called
