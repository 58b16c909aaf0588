"""Why a computation has no result, in words for those who read the records; the log has the story."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from analyst_server.compute.sight import ArraysNotSeenError, worker_of
from runtime.storage import storage_error

log = logging.getLogger(__name__)

NEEDS_MEMORY: Final = (
    "it needs more memory than ODC_ANALYST_COMPUTE_MEMORY_MB allows, or than the machine has;"
    " the operator can raise that setting, restart the analyst and resume the round"
)


def told(name: str, error: Exception) -> str:
    """Return what the records say of an error that nobody expected, and log the rest of it."""
    if isinstance(error, ArraysNotSeenError):
        log.error("%s: %s", name, where(error))
        return str(error)
    found = NEEDS_MEMORY if isinstance(error, MemoryError) else _disk_that_failed(error)
    if found is None:
        incident = uuid.uuid4().hex[:8]
        log.exception("%s: incident %s", name, incident)
        found = f"{type(error).__name__}, see incident {incident} in the analyst's log"
    return found


def where(error: ArraysNotSeenError) -> str:
    """Return what the operator has to know, for the log: members read no path."""
    return f"the compute worker {error.worker} does not see the arrays in {error.place}: {error.found}"


def _disk_that_failed(error: Exception) -> str | None:
    """Return why arrays could not be read or written, if a disk is to blame; the log says where."""
    worker = worker_of(error)
    disk = "the analyst's disk" if worker is None else f"the disk of the compute worker {worker}"
    found = storage_error(error, disk) if isinstance(error, OSError) else None
    if found is None:
        return None
    log.error("%s: %s", found.detail, error)
    return found.detail
