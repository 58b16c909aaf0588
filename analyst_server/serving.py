"""The web server: uvicorn with our protocol class, mutual TLS and the count of bytes."""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
import ssl
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from analyst_server.api.connection import AnalystProtocol
from analyst_server.api.doors import Doors, Places
from analyst_server.api.listening import GuardedCountingSocket, GuardedSocket
from analyst_server.app import create_app
from analyst_server.blobs import Blobs, S3Blobs, only_server
from analyst_server.compute import require_certificate, require_dask
from analyst_server.installation import note_stores, open_analyst, require_installed
from analyst_server.notices.notifier import Notifier
from analyst_server.notices.webhook import webhook_of
from analyst_server.services import own_arrays
from analyst_server.services.analyst import Analyst
from analyst_server.services.changes import Changes
from analyst_server.services.end import erase_ended
from analyst_server.services.rounds import forget_ended_workers
from analyst_server.settings import Settings, unknown_variables
from analyst_server.telemetry.listener import MetricsListener, Place
from analyst_server.telemetry.measures import Measures
from analyst_server.telemetry.traces import traces_from
from metering.private_parts import keep_handshakes_small
from protocol.errors import StorageError
from protocol.limits import MAX_IDLE_S
from runtime.confinement import allow_open_files, forbid_tracing, landlock_version
from runtime.files import make_directory, sync_directory
from runtime.memory import share_one_heap

log = logging.getLogger(__name__)

OWN_FILES: Final = 256
"""Descriptors for records, blobs, compute processes and threads."""
FILES_OF_A_CONNECTION: Final = 2
"""Its own, and one to read the kernel's count of its bytes."""


def serve(settings: Settings) -> None:
    """Serve until interrupted.

    Raises `InputError` while another process does, `UnreadableFileError` for a damaged database, and
    `StorageError` if the arrays of these records are not where the settings say.
    """
    if unread := unknown_variables(os.environ):
        log.warning("no setting of this version, so nothing reads it: %s", ", ".join(unread))
    if settings.compute_url:
        require_dask()  # what is missing ends a start, and no round
        require_certificate(settings.compute_url, "client")
    require_installed(settings.identity_dir)  # before the lock, whose directory would stay
    share_one_heap()  # before there are threads: each would keep the chunks of uplinks that it has freed
    with only_server(settings.data_dir):
        allow_open_files()  # a connection takes two
        forbid_tracing()
        if landlock_version() == 0:
            log.warning("this system has no Landlock: a compute process could open the analyst's key")
        keep_handshakes_small()
        analyst = open_analyst(settings)
        analyst.records.check()
        _require_blobs(analyst.blobs)
        own_arrays.settle(analyst)
        note_stores(settings)
        erase_ended(analyst)
        forget_ended_workers(analyst)
        make_directory(settings.blob_dir)
        sync_directory(settings.blob_dir.parent)  # even if it was there: whoever made it may have been killed
        owners = [uuid.uuid4().hex for _ in range(settings.compute_processes)]
        for owner in owners:  # now: of an error during its own start-up, uvicorn prints a traceback
            analyst.leases.hold(owner)
        _serve(analyst, settings, owners)


def _require_blobs(blobs: Blobs) -> None:
    """Raise an error with its reason, for the operator, before an upload or a round ends by it."""
    if not isinstance(blobs, S3Blobs):
        return
    blobs.require_direct()
    try:
        blobs.ping()
    except StorageError as error:
        said = str(error.__cause__ or error.code).partition("\n")[0][:200]
        told = type(error)(f"{error.detail}: {said}", **error.context)
        told.hint = "check the bucket, AWS_ENDPOINT_URL and the credentials: docs/operations.md, S3"
        raise told from error.__cause__


def _serve(analyst: Analyst, settings: Settings, owners: Sequence[str]) -> None:
    doors, measures = Doors(_places(settings)), Measures()
    webhook = webhook_of(settings)
    notifier = Notifier(analyst, webhook, on_attempt=measures.notified) if webhook else None
    traces = traces_from()
    app = create_app(analyst, settings, doors, owners, measures, notifier, traces)
    config = web_config(app if traces is None else traces.around(app), settings)
    kind = GuardedCountingSocket if settings.bytes_counted_by == "transport" else GuardedSocket
    listening = kind.around(config.bind_socket())
    listening.guard(doors, settings.connection_timeout_s)
    gc.collect()
    gc.freeze()  # what is loaded by now stays; collecting the rest takes milliseconds (`api.listening`)
    with _metrics(settings, measures):
        _Server(config, app.state.changes).run([listening])


def web_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """Return how uvicorn serves the application at its address: mutual TLS 1.3, and our protocol class."""
    directory = settings.identity_dir
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=AnalystProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # `api.access_log` says who asked as well
        server_header=False,
        timeout_graceful_shutdown=settings.drain_s,
        timeout_keep_alive=ceil(min(MAX_IDLE_S, settings.connection_timeout_s)),
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
    return config


def _metrics(settings: Settings, measures: Measures) -> AbstractContextManager[object]:
    """Return what answers Prometheus while it is entered; nothing if no port is set."""
    if not settings.metrics_port:
        return nullcontext()
    place = Place(
        settings.metrics_host, settings.metrics_port, settings.metrics_token_file, settings.identity_dir
    )
    return MetricsListener(place, measures.registry)


class _Server(uvicorn.Server):
    """Says when it takes requests, and answers who waits for a change before it waits for all answers."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:  # what uvicorn says of its address, it says before it listens
            log.info("ready for requests")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._changes.close()
        await super().shutdown(sockets)


def _places(settings: Settings) -> Places:
    """Return how many connections there may be, so that the limit on open files is never reached by them."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = Places(
        settings.max_connections,
        settings.max_strangers,
        settings.max_strangers_per_address,
        settings.max_connections_per_certificate,
    )
    if open_files == resource.RLIM_INFINITY:
        return wanted
    places = wanted.within((open_files - min(OWN_FILES, open_files // 2)) // FILES_OF_A_CONNECTION)
    if places.in_all < wanted.in_all:
        log.warning(
            "the limit of %d open files allows %d connections, %d of them without a certificate",
            open_files,
            places.in_all,
            places.for_strangers,
        )
    return places
