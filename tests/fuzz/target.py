"""What a target is, and the rule that every one of them checks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from protocol.errors import OdcError

LONGEST_DETAIL: Final = 2000
"""Characters of an error that a peer's bytes have caused: it may end in a log, one line each."""


class Run(Protocol):
    """Tries one input. What it raises is a finding; what it returns says in a word how it went."""

    def __call__(self, data: bytes, /) -> str: ...


@dataclass(frozen=True)
class Target:
    """A decoder, or a set of them that share what they need.

    Attributes
    ----------
    set_up : callable
        Makes the run; it may write to the directory that it is given, which is empty, and says what is to be
        closed after the last input.
    seeds : callable
        Returns valid inputs, and some that are not quite, to begin with.
    share : int
        How much of all runs it gets: what is quick to try, or lets strangers in, gets more.
    """

    name: str
    set_up: Callable[[Path, ExitStack], Run]
    seeds: Callable[[], Iterable[bytes]]
    share: int


@contextmanager
def ready(target: Target) -> Iterator[Run]:
    """Yield the run of a target, in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as closing:
        yield target.set_up(Path(directory), closing)


def stateless(run: Run) -> Callable[[Path, ExitStack], Run]:
    """Return the ``set_up`` of a target that needs nothing."""
    return lambda _directory, _closing: run


def refused(error: OdcError) -> str:
    """Return in a word how an input was refused; fail unless the error may be shown and logged."""
    assert error.detail.isprintable(), f"{type(error).__name__} is not printable: {error.detail!r}"
    assert len(error.detail) < LONGEST_DETAIL, f"{type(error).__name__} of {len(error.detail)} characters"
    return f"{error.code}: {shape_of(error.detail)}"


def shape_of(text: str) -> str:
    """Return a text without its numbers, names and quotations, so that the same reason has the same shape."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|[0-9a-f]{8,}|[0-9]+", "_", text)[:120]


def outcome(decode: Callable[[], str], *expected: type[OdcError]) -> str:
    """Return what a decoder makes of an input, or how it refuses it by one of the errors of its contract."""
    try:
        return decode()
    except expected as error:
        return refused(error)


def named(name: str, data: bytes) -> bytes:
    """Return an input that begins with a line which says what it is."""
    return name.encode() + b"\n" + data


def split_name(data: bytes) -> tuple[str, bytes]:
    """Return the first line of an input, and the rest."""
    name, _, rest = data.partition(b"\n")
    return name.decode("latin-1"), rest
