"""What the C library's allocator does with memory that is free again, and which errors say that none is left.

glibc keeps it for whoever asks next, in one heap for each of some threads. From the first large array that is
freed on, it takes the next large ones from these heaps too. That adds to the peak of a command that reads a
table with threads and then takes step after step with large arrays. Other C libraries have no such settings.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

# malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MAPPED_FROM_BYTES: Final = 2**20
_KEPT_BYTES: Final = 16 * 2**20
"""What the heap keeps of memory that was freed last: the system clears what it returns and takes again. What
is made of a part of a table while it is encoded has room in it."""
_SAYS_SO: Final = ("std::bad_alloc", "Failed to allocate memory", "Cannot allocate memory")
"""In the texts of libraries in C++, whose errors are of kinds of their own."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there was no memory left."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SAYS_SO)


def share_one_heap() -> None:
    """Have all threads share one heap, so that what one has freed is there for the next.

    For a process that is ours: the setting holds for all of it, and for threads that begin later.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, 1)


def return_what_is_freed() -> None:
    """Have large arrays returned to the system when they are freed, and all threads share one heap.

    For a process that is ours, as `share_one_heap`.
    """
    share_one_heap()
    library = _glibc()
    if library is not None:
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back() -> None:
    """Return free memory at the end of a step, which the next one would not use."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> Any:
    """Return the C library if it is glibc, else None."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") else None
    except (OSError, TypeError):  # Windows
        return None
