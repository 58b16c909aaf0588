"""Lattice reduction by fpylll, where it is installed: never required, because its licence is the GPL."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
Integers = NDArray[np.int64]
_BLOCK_SIZE = 20


def available() -> bool:
    """Return whether lattices can be reduced on this machine."""
    return _library() is not None


def reduced(rows: Integers, *, deep: bool = False) -> Integers:
    """Return an LLL-reduced basis of the lattice that some rows span.

    The call cannot be interrupted: an interrupt takes effect when it is done.

    Parameters
    ----------
    rows : (r, c) ndarray of int64
        They may be linearly dependent; the first rows of the result are then zero.
    deep : bool
        Reduce in blocks of 20 afterwards (BKZ).

    Returns
    -------
    (r, c) ndarray of int64

    Raises
    ------
    RuntimeError
        If fpylll is not installed (`available`), or gives up.
    """
    library = _required()
    basis = library.IntegerMatrix.from_matrix(rows.tolist())
    library.LLL.reduction(basis)
    if deep:
        block = min(_BLOCK_SIZE, len(rows))
        library.BKZ.reduction(basis, library.BKZ.Param(block, flags=library.BKZ.AUTO_ABORT))
    return _array(basis)


def reducing(rows: Integers) -> Integers:
    """Return the integers U, (r, r), with which ``U @ rows`` is `reduced`, in about twice the time."""
    library = _required()
    transform = library.IntegerMatrix.identity(len(rows))
    library.LLL.reduction(library.IntegerMatrix.from_matrix(rows.tolist()), transform)
    return _array(transform)


def _required() -> Any:
    library = _library()
    if library is None:
        raise RuntimeError("lattice reduction needs fpylll")
    return library


def _array(matrix: Any) -> Integers:
    found = np.empty((matrix.nrows, matrix.ncols), dtype=np.int64)
    matrix.to_matrix(found)
    return found


def _library() -> Any:
    """Return fpylll or None. Handlers belong to the main thread, so no other one imports what sets them."""
    if "cysignals" in sys.modules or threading.current_thread() is threading.main_thread():
        return _fpylll()
    return None


@functools.cache
def _fpylll() -> Any:
    """Return fpylll, or None where it cannot be imported.

    It brings cysignals, which takes over the handlers of SIGINT, SIGHUP, SIGALRM and of crashes when it is
    imported. They are put back: a command of ours ends on Ctrl-C and on a closed terminal as it did before.
    """
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        import fpylll
    except ImportError:
        return None
    finally:
        for number, handler in before.items():
            if handler is not None and number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, handler)
    return fpylll
