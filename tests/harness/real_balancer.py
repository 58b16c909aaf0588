"""HAProxy and nginx with the configurations of deploy/balancer, at other addresses."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.compose import REPOSITORY
from tests.harness.consortium import WAIT_S


@contextmanager
def real_balancer(
    program: str, configuration: str, changes: Mapping[str, str], directory: Path, port: int
) -> Iterator[None]:
    """Run a balancer until it listens; the test that needs it is skipped where it is not installed.

    Parameters
    ----------
    configuration : str
        A file of deploy/balancer.
    changes : mapping
        What is replaced in it, by what.
    directory : Path
        Where it may write.
    """
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: apt install haproxy nginx libnginx-mod-stream)")
    text = (REPOSITORY / "deploy" / "balancer" / configuration).read_text()
    for before, after in changes.items():
        text = text.replace(before, after)
    module = Path(path).parents[1] / "lib/nginx/modules/ngx_stream_module.so"
    text = text.replace("modules/ngx_stream_module.so", str(module))
    (directory / configuration).write_text(text)
    here = f"daemon off; pid {directory}/pid; error_log stderr;"
    words = {
        "haproxy": ["-f", str(directory / configuration)],
        "nginx": ["-p", str(directory), "-c", str(directory / configuration), "-g", here],
    }[program]
    running = subprocess.Popen([path, *words], cwd=directory)
    try:
        deadline = time.monotonic() + WAIT_S
        while not _listens(port):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
    finally:
        running.terminate()
        running.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
