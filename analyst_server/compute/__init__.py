"""What a round computes, and the processes it runs in, behind `concurrent.futures`."""

from analyst_server.compute.pool import process_pool, stop_process_pool

__all__ = ["process_pool", "stop_process_pool"]
