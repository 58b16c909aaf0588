"""Starts commands quickly: a process that has loaded both programs, and forks for each command.

It reads one JSON object for each command from its input, and answers with its process id, and with its exit
code once it has ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import sqlalchemy.dialects.sqlite
import sqlalchemy.orm
import uvicorn  # noqa: F401  # is only to be loaded, as two of those below

import analyst_server.cli
import analyst_server.serving
import user_client.cli.main
import user_client.sdk.surface
from analyst_server.__main__ import main as odc_analyst
from analyst_server.compute.sequence import load_libraries
from protocol.codec import Message
from tests.faults.campaign.children import end_at_once, start_compute_children_by_fork
from user_client.__main__ import main as odc

_STARTED_AGAIN: Final = "jemalloc_bg_thd"
"""A thread of pyarrow's allocator, which starts it again in a forked process."""

_LOADED_LATE: Final = (
    "anyio._backends._asyncio",
    "encodings.idna",
    "fastapi.telemetry._runtime",
    "multiprocessing.popen_spawn_posix",
    "pyarrow.pandas_compat",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
)
"""What the programs' libraries load when they come to it."""


def serve() -> None:
    """Fork for each line of the input until it ends; a child leaves this function to run its command."""
    _load()
    gc.freeze()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    _say({"ready": True})
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    unread = b""
    while True:
        for key, _ in waiting.select():
            if key.fd == woken:
                os.read(woken, 4096)
                _reap()
                continue
            came = os.read(0, 65536)
            if not came:
                return
            *lines, unread = (unread + came).split(b"\n")
            for line in lines:
                asked = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(woken)
                    os.close(wakes)
                    _run(asked)
                    return
                _say({"pid": pid})


def _load() -> None:
    load_libraries()
    _prepare()
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    if others := [name for name in names[1:] if name != _STARTED_AGAIN]:
        raise RuntimeError(f"a library has started threads, which a fork would lose: {others}")


def _prepare() -> None:
    """Load and build what each process would at its first use; that takes longer than the use."""
    for name in _LOADED_LATE:
        importlib.import_module(name)
    for application in (user_client.cli.main.app, analyst_server.cli.app):
        list(application.commands.values())  # `odc` loads a command that is asked for
    sqlalchemy.orm.configure_mappers()
    kinds: list[type[Message]] = [Message]
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.model_rebuild()


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _run(asked: dict[str, Any]) -> None:
    for descriptor, (path, flags) in enumerate(
        (
            (os.devnull, os.O_RDONLY),
            (asked["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            (asked["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        )
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.update(asked["environment"])
    os.chdir(asked["directory"])
    sys.argv = [asked["program"], *asked["words"]]
    if "serve" in sys.argv and start_compute_children_by_fork():
        return
    if "serve" in sys.argv:
        odc_analyst()
    else:
        _end_with(odc if asked["program"] == "odc" else odc_analyst)


def _end_with(main: Callable[[], None]) -> NoReturn:
    """Run a program and end this process at once, with its databases closed: SQLite writes then."""
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  # what the interpreter would do
        traceback.print_exc()
        code = 1
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    end_at_once(code if isinstance(code, int) else int(code is not None))
