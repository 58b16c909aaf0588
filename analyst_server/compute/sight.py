"""What a compute worker sees of the arrays: of another machine, a directory may not be mounted there.

An error that comes up there says at which worker, and keeps its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from analyst_server.blobs import Blobs, DamagedBlobError, id_of

_AT: Final = "at the compute worker "


class ArraysNotSeenError(Exception):
    """A compute worker does not see the arrays of this installation; nothing is wrong with these.

    Members read its text, which has no path; ``place`` and ``found`` are for the log.
    """

    def __init__(self, worker: str, place: str, found: str) -> None:
        super().__init__(worker, place, found)
        self.worker, self.place, self.found = worker, place, found

    def __str__(self) -> str:
        return (
            f"the compute worker {self.worker} does not see the arrays of this installation, with which"
            " nothing is wrong: the operator has to mount the directory of ODC_ANALYST_BLOB_URL there, under"
            " the same path, start the worker again and resume the round; the analyst's log has the path"
        )


def require_arrays(arguments: Iterable[Any], store_id: str, worker: str) -> None:
    """Raise `ArraysNotSeenError` unless every store of blobs among some arguments has an id.

    An empty id stands for records that name none.
    """
    for blobs in (one for one in arguments if store_id and isinstance(one, Blobs)):
        try:
            found = id_of(blobs)
        except OSError as error:  # it is another directory that this worker may read
            raise ArraysNotSeenError(worker, blobs.place, f"it may not be read: {error.strerror}") from error
        if found != store_id:
            raise ArraysNotSeenError(worker, blobs.place, f"it has the id {found}, not {store_id}")


@contextmanager
def at(worker: str) -> Iterator[None]:
    """Let an error that is about a disk say at which worker it came up first."""
    try:
        yield
    except (OSError, DamagedBlobError) as error:
        if worker_of(error) is None:
            error.add_note(_AT + worker)
        raise


def worker_of(error: BaseException) -> str | None:
    """Return at which worker an error came up, None if it was at no worker."""
    notes = (note for note in getattr(error, "__notes__", ()) if note.startswith(_AT))
    return next((note.removeprefix(_AT) for note in notes), None)
