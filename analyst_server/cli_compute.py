"""`odc-analyst compute-worker`: a worker of the Dask scheduler that computes rounds."""

from __future__ import annotations

from typing import Annotated

import typer

from analyst_server.cli_options import DataDir, log_lines, settings_of
from analyst_server.compute.dask_worker import WorkerPlace, keep_worker
from analyst_server.installation import blobs_of
from protocol.errors import InputError
from runtime.logs import JsonLines, set_up


def compute_worker(
    scheduler: Annotated[
        str | None, typer.Option(help="address of the scheduler [env: ODC_ANALYST_COMPUTE_URL]")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="address that the scheduler reaches this worker by")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0: any free one")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Compute rounds for an analyst whose ODC_ANALYST_COMPUTE_URL is a Dask scheduler, until interrupted."""
    settings = settings_of(data_dir, compute_url=scheduler)
    set_up(JsonLines() if settings.log_format == "json" else log_lines(), settings.log_level.upper())
    if not settings.compute_url:
        error = InputError("a compute worker needs the address of its scheduler")
        error.hint = "odc-analyst compute-worker --scheduler tcp://HOST:8786"
        raise error
    place = WorkerPlace(
        scheduler=settings.compute_url,
        memory_bytes=settings.compute_memory_mb * 2**20,
        blob_dir=settings.blob_dir,
        ports=blobs_of(settings).ports,
        host=host,
        port=port,
    )
    keep_worker(place)
