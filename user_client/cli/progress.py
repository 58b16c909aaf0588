"""What a terminal shows while a command works: a bar of what is sent, and how much of a table is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from user_client.tables import Source

if TYPE_CHECKING:
    from rich.console import Console

PROGRESS_AFTER_BYTES = 4 * 2**20
"""Less is sent, or read, before a person has read the bar."""


@contextmanager
def upload_progress(as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that shows a progress bar on a terminal if there is much to send."""
    console = _terminal(as_json)
    if console is None:
        yield lambda _done, _all: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = ("sending", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("uplink", total=None, visible=False)

    def show_progress(done: int, total: int) -> None:
        bar.start()  # not before: what is sent may be asked about first
        bar.update(task, completed=done, total=total, visible=total > PROGRESS_AFTER_BYTES)

    try:
        yield show_progress
    finally:
        bar.stop()


@contextmanager
def busy(as_json: bool, words: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that a step is under way; yield a callback that changes what is said of it."""
    console = _terminal(as_json)
    if console is None:
        yield lambda _: None
        return
    from rich.text import Text  # what an analyst says has no markup

    with console.status(Text(words)) as status:
        yield lambda said: status.update(Text(said))


@contextmanager
def reading(as_json: bool, table: Source, words: str) -> Iterator[Source]:
    """Yield the table for a step that reads it; on a terminal show how much of it is read, and how fast."""
    with busy(as_json, words) as say:
        yield replace(table, watch=Pace(words, say).note)


@dataclass
class Pace:
    """Says how much of a table has been read, how fast that goes, and how long it will take.

    A table may be read more than once: each time counts by itself.
    """

    words: str
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _begun_at: float | None = None
    _done: int = 0

    def note(self, done: int, total: int) -> None:
        """Note how many bytes of a file are read, and how many it has."""
        now = self.clock()
        if self._begun_at is None or done < self._done:
            self._begun_at = now
        elapsed_s, self._done = now - self._begun_at, done
        if total <= PROGRESS_AFTER_BYTES:
            return
        if done >= total or elapsed_s <= 0:  # what follows the reading takes time too
            self.say(self.words)
            return
        from rich.filesize import decimal

        rate = done / elapsed_s
        minutes, seconds = divmod(round((total - done) / rate), 60)
        self.say(
            f"{self.words}: {decimal(done)} of {decimal(total)} read, {decimal(int(rate))}/s,"
            f" {minutes}:{seconds:02} left"
        )


def _terminal(as_json: bool) -> Console | None:
    """Return the terminal of a person who watches; Rich is loaded for them alone."""
    if as_json or sys.stderr is None or not sys.stderr.isatty():  # None: it was closed
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None
