"""The web server: uvicorn with our protocol class, mutual TLS and the count of bytes."""

from __future__ import annotations

import resource
import socket
import ssl
from contextlib import suppress

import uvicorn

from analyst_server.api.connection import AnalystProtocol
from analyst_server.app import create_app
from analyst_server.installation import open_analyst
from analyst_server.services.analyst import Analyst
from analyst_server.services.changes import Changes
from analyst_server.services.end import erase_ended
from analyst_server.services.rounds import forget_ended_workers
from analyst_server.settings import Settings
from analyst_server.store import only_server
from metering.counts import CountingSocket


def serve(settings: Settings) -> None:
    """Serve until interrupted.

    Raises `InputError` while another process does, and `UnreadableFileError` for a damaged database.
    """
    with only_server(settings.data_dir):
        _allow_all_descriptors()
        analyst = open_analyst(settings)
        analyst.records.check()
        erase_ended(analyst)
        forget_ended_workers(analyst)
        _serve(analyst, settings)


def _serve(analyst: Analyst, settings: Settings) -> None:
    directory = settings.identity_dir
    app = create_app(analyst, settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=AnalystProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=60,  # a handshake costs more than an idle connection; preparing may take a while
        ssl_keyfile=str(directory / "key.pem"),
        ssl_certfile=str(directory / "certificate.pem"),
        ssl_ca_certs=str(directory / "root.pem"),
        # asked for, never forced here: discovery, health and enrolment answer without one, and
        # `api.access` refuses everything else in words instead of a TLS alert
        ssl_cert_reqs=ssl.CERT_OPTIONAL,
    )
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
        config.ssl.num_tickets = 0  # each is larger than a certificate, and no client of ours resumes
    sockets: list[socket.socket] | None = None
    if settings.bytes_counted_by == "transport":
        sockets = [CountingSocket.around(config.bind_socket())]
    _Server(config, app.state.changes).run(sockets)


class _Server(uvicorn.Server):
    """Answers who waits for a change before it waits for all answers."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._changes.close()
        await super().shutdown(sockets)


def _allow_all_descriptors() -> None:
    """Raise the usual 1024 open files to what the system allows: a connection takes two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
