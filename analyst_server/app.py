"""Wiring: builds the parts of the analyst's process and hands them to each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from anyio import to_thread
from cryptography.hazmat.primitives.serialization import Encoding
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from analyst_server.api import description, downlink, listing, routes, status, uploads
from analyst_server.api.access import RequireIdentity
from analyst_server.api.access_log import AccessLog
from analyst_server.api.admission import Admission, Rates, Requests
from analyst_server.api.balanced import BehindBalancer
from analyst_server.api.bodies import CompressedAnswers
from analyst_server.api.doors import Doors, Places
from analyst_server.api.problems import on_hang_up, on_http_error, on_odc_error, on_os_error, on_unexpected
from analyst_server.browser import acting, drafting, keys, live, looking, sign_in
from analyst_server.browser.visits import Sessions
from analyst_server.compute import DaskLook, DaskPool, process_pool, stop_dask_pool, stop_process_pool
from analyst_server.compute.dask_look import LOOK_EVERY_S
from analyst_server.notices.notifier import Notifier
from analyst_server.services import api_tokens, certificates, own_arrays
from analyst_server.services.analyst import Analyst
from analyst_server.services.certificate_end import CertificateEnd
from analyst_server.services.changes import Changes
from analyst_server.services.checkpoints import Checkpoints
from analyst_server.services.ingest import Ingest
from analyst_server.services.meter import Meter
from analyst_server.services.readiness import Readiness
from analyst_server.services.regular_looks import RegularLooks
from analyst_server.services.worker import Worker, Workers
from analyst_server.settings import Settings
from analyst_server.telemetry.collected import Collected
from analyst_server.telemetry.measures import Measures
from analyst_server.telemetry.traces import Traces
from protocol.coding import Coding
from protocol.errors import OdcError

API: Final = (routes, listing, status, uploads, downlink)
BROWSER: Final = (sign_in, drafting, keys, looking, live, acting)
ON_ERROR: Final = {
    OdcError: on_odc_error,
    OSError: on_os_error,
    ClientDisconnect: on_hang_up,
    HTTPException: on_http_error,
    Exception: on_unexpected,
}
LAST_WORDS_S: Final = 10.0
"""For requests that were cut off to keep what has arrived, before the stores are closed."""


def create_app(
    analyst: Analyst,
    settings: Settings,
    doors: Doors | None = None,
    owners: Sequence[str] = (),
    measures: Measures | None = None,
    notifier: Notifier | None = None,
    traces: Traces | None = None,
) -> FastAPI:
    """Return the application; its lifespan runs the round workers and closes the stores.

    ``owners`` are the names under which the workers hold rounds; without them each draws one.
    ``measures`` is told what happens, for Prometheus, and ``traces`` of each step of a computation;
    ``notifier`` tells others what waits for them. The lifespan ends the last two as well.
    """
    dask = DaskLook(settings.compute_url)
    requests, readiness = Requests(), Readiness(analyst, has_workers=dask.has_workers)
    doors, measures = doors or Doors(Places()), measures or Measures()
    names: Sequence[str | None] = owners or [None] * settings.compute_processes

    def on_step(stage: str, outcome: str, seconds: float) -> None:
        measures.step(stage, outcome, seconds)
        if traces is not None:
            traces.step(stage, outcome, seconds)

    workers = Workers([_worker(analyst, settings, owner, on_step) for owner in names])
    analyst.records.on_open = measures.opened
    measures.registry.register(
        Collected(analyst, doors, readiness, lambda: workers.are_alive, lambda: requests.under_way)
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        background = _Background(
            requests,
            workers,
            Meter(analyst.records, settings.bytes_counted_by, analyst.clock, measures.carried),
            (
                RegularLooks(partial(certificates.follow_revocations, analyst), CertificateEnd(analyst).look),
                # a thread of its own: one that waits for a scheduler follows no revocation
                RegularLooks(dask.look, every_s=LOOK_EVERY_S),
            ),
            notifier,
            traces,
        )
        background.start()
        try:
            yield {
                "meter": background.meter,
                "workers": workers,
                "doors": doors,
                "connection_timeout_s": settings.connection_timeout_s,
            }
        finally:
            await background.stop()
            analyst.records.dispose()

    app = _Analyst(lifespan=lifespan, openapi_url=None)  # an operation of the table serves it
    _share(app, analyst, settings, readiness)
    for room in (*API, *BROWSER):
        app.include_router(room.router)
    for kind, handler in ON_ERROR.items():
        app.add_exception_handler(kind, handler)
    _guard(app, analyst, settings, requests, measures)
    return app


@dataclass(frozen=True)
class _Background:
    """What runs beside the requests, for as long as the application does."""

    requests: Requests
    workers: Workers
    meter: Meter
    looks: tuple[RegularLooks, ...]
    notifier: Notifier | None
    traces: Traces | None

    def start(self) -> None:
        self.workers.start()
        self.meter.start()
        if self.notifier is not None:
            self.notifier.start()
        for look in self.looks:
            look.start()

    async def stop(self) -> None:
        await self.requests.wait_until_over(LAST_WORDS_S)
        if self.notifier is not None:
            await to_thread.run_sync(self.notifier.stop)
        await to_thread.run_sync(self.workers.stop)
        self.meter.stop()
        for look in self.looks:
            await to_thread.run_sync(look.stop)
        if self.traces is not None:  # here: after the lifespan uvicorn ends the process by the signal it got
            await to_thread.run_sync(self.traces.close)


def _share(app: FastAPI, analyst: Analyst, settings: Settings, readiness: Readiness) -> None:
    """Put what the routes need into the state of the application."""
    app.state.analyst = analyst
    app.state.ingest = Ingest(analyst)
    app.state.completing = 0
    app.state.writers = uploads.writers_for(analyst.blobs)
    app.state.readiness = readiness
    app.state.checkpoints = Checkpoints(analyst)
    app.state.body_idle_timeout_s = settings.body_idle_timeout_s
    app.state.changes = Changes(analyst.records)
    app.state.status_wait_s = settings.status_wait_s
    app.state.sessions = Sessions(analyst)


def _guard(
    app: FastAPI, analyst: Analyst, settings: Settings, requests: Requests, measures: Measures
) -> None:
    """Put around the routes what every request passes, from the inside out."""
    check_token = partial(api_tokens.check, analyst)
    app.add_middleware(RequireIdentity, root=analyst.root, clock=analyst.clock, check_token=check_token)
    certificate = analyst.certificate.public_bytes(Encoding.DER)
    app.add_middleware(CompressedAnswers, coding=Coding.of(certificate))
    app.add_middleware(Admission, rates=Rates(settings.requests_per_s), requests=requests)
    if settings.behind_balancer:
        app.add_middleware(
            BehindBalancer, root=analyst.root, clock=analyst.clock, certificate=analyst.certificate
        )
    app.add_middleware(AccessLog, observe=measures.request)


class _Analyst(FastAPI):
    """An application that is described by the table of operations."""

    def openapi(self) -> dict[str, Any]:
        return description.document()


def _worker(
    analyst: Analyst, settings: Settings, owner: str | None, on_step: Callable[[str, str, float], None]
) -> Worker:
    own_process = partial(
        process_pool,
        1,
        memory_bytes=settings.compute_memory_bytes,
        blob_dir=settings.blob_dir,
        ports=analyst.blobs.ports,
    )
    on_dask = bool(settings.compute_url)

    def dask_pool() -> DaskPool:
        return DaskPool(settings.compute_url, own_arrays.noted(analyst) or "")

    return Worker(
        analyst,
        dask_pool if on_dask else own_process,
        stop_dask_pool if on_dask else stop_process_pool,
        poll_s=settings.poll_s,
        lease_s=settings.lease_s,
        hold_release=settings.hold_release,
        train_on_suspected_rows=settings.train_on_suspected_rows,
        owner=owner,
        make_own=own_process if on_dask else None,
        on_step=on_step,
    )
