"""What a round computes, and the processes it runs in, behind `concurrent.futures`."""

from analyst_server.compute.dask_look import DaskLook
from analyst_server.compute.dask_pool import DaskPool, require_certificate, require_dask, stop_dask_pool
from analyst_server.compute.pool import process_pool, stop_process_pool

__all__ = [
    "DaskLook",
    "DaskPool",
    "process_pool",
    "require_certificate",
    "require_dask",
    "stop_dask_pool",
    "stop_process_pool",
]
