"""Arithmetic that takes numbers near the smallest as zero.

What no row needs of a network shrinks in training until a float can hold it with fewer and fewer digits
(*denormal*, below 1e-38 in single precision). Intel processors take a hundred times as long for such
numbers, and a fit with many of them ten times as long. No prediction depends on them.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_FLUSH_TO_ZERO: Final = 0x8000
"""Of the register MXCSR: no result is denormal."""
_DENORMALS_ARE_ZEROS: Final = 0x0040
"""No operand is."""


class _Environment(ctypes.Structure):
    """C's `fenv_t`, as glibc has it on x86-64."""

    _fields_ = (("x87", ctypes.c_uint32 * 7), ("mxcsr", ctypes.c_uint32))


@contextmanager
def tiny_as_zero() -> Iterator[None]:
    """Take denormal numbers as zero in this thread, and for good in threads that it starts meanwhile.

    Where this is not glibc on x86-64, nothing changes.
    """
    library = _glibc_on_x86()
    if library is None:
        yield
        return
    before = _mxcsr(library)
    _set_mxcsr(library, before | _FLUSH_TO_ZERO | _DENORMALS_ARE_ZEROS)
    try:
        yield
    finally:
        _set_mxcsr(library, before)


def _glibc_on_x86() -> Any:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        library = ctypes.CDLL("libm.so.6")
        library.fegetenv, library.fesetenv  # noqa: B018  # to have them looked up
    except (OSError, AttributeError):  # another C library
        return None
    return library


def _mxcsr(library: Any) -> int:
    environment = _Environment()
    library.fegetenv(ctypes.byref(environment))
    return int(environment.mxcsr)


def _set_mxcsr(library: Any, value: int) -> None:
    environment = _Environment()
    library.fegetenv(ctypes.byref(environment))  # for all that is not to change
    environment.mxcsr = value
    library.fesetenv(ctypes.byref(environment))
