"""`odc-analyst compute-worker`: a worker of the Dask scheduler that computes rounds."""

from __future__ import annotations

from pathlib import Path

import click

from analyst_server.cli_options import data_dir_option, log_lines, settings_of
from analyst_server.compute.dask_worker import WorkerPlace, keep_worker
from analyst_server.installation import blobs_of
from protocol.errors import InputError
from runtime.logs import JsonLines, set_up


@click.command()
@click.option("--scheduler", help="address of the scheduler [env: ODC_ANALYST_COMPUTE_URL]")
@click.option("--host", help="address that the scheduler reaches this worker by")
@click.option(
    "--port", type=click.IntRange(min=0, max=65535), default=0, help="port to listen on; 0: any free one"
)
@data_dir_option
def compute_worker(scheduler: str | None, host: str | None, port: int, data_dir: Path | None) -> None:
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
