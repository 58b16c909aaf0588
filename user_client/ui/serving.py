"""Start and end the pages: a port of the loopback, a browser, and an end after a while without anybody."""

from __future__ import annotations

import asyncio
import socket
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import uvicorn

from protocol.errors import InputError
from user_client.local_http import LocalProtocol
from user_client.ui.app import create_app
from user_client.ui.entry import Entry
from user_client.ui.work import Desk

HOST: Final = "127.0.0.1"
_LOOKS_EVERY_S: Final = 1.0
_MOST_AT_WORK: Final = 50


def serve_pages(
    desk: Desk, *, port: int, idle_minutes: float, opens_browser: bool, tell: Callable[[str], None]
) -> None:
    """Serve the pages until interrupted, or until nobody has asked for one for a while.

    Parameters
    ----------
    port : int
        0 for one that is free.
    idle_minutes : float
        Work that is under way is finished before the pages end.
    tell : callable
        Is given the address that opens once.

    Raises
    ------
    InputError
        If the port is taken.
    """
    with _listening(port) as listening:
        entry = Entry(f"{HOST}:{listening.getsockname()[1]}")
        app = create_app(desk, entry)
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=LocalProtocol,
            limit_concurrency=_MOST_AT_WORK,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)

        async def run() -> None:
            watching = asyncio.create_task(_end_when_idle(server, app.state, desk, idle_minutes * 60))
            await server.serve(sockets=[listening])
            watching.cancel()

        tell(entry.url)
        if opens_browser:
            webbrowser.open(entry.url)
        try:
            with suppress(KeyboardInterrupt):
                asyncio.run(run())
        finally:
            desk.close()


async def _end_when_idle(server: uvicorn.Server, state: object, desk: Desk, idle_s: float) -> None:
    while not server.should_exit:
        await asyncio.sleep(_LOOKS_EVERY_S)
        seen: float = getattr(state, "seen")  # noqa: B009  # a State has any attribute
        if not desk.is_busy and time.monotonic() - seen > idle_s:
            server.should_exit = True


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        refused = InputError(f"port {port} of {HOST} cannot be used: {error.strerror}")
        refused.hint = "name another with --port, or leave it out for one that is free"
        raise refused from None
