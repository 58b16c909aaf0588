"""What a terminal says of a large table that is being read."""

from __future__ import annotations

import io
import sys

import pytest

from user_client.cli.progress import Pace, busy, upload_progress

MB = 10**6


class _Watch:
    """A clock that is set by hand, and what was said."""

    def __init__(self) -> None:
        self.now, self.said = 0.0, list[str]()
        self.pace = Pace("reading", self.said.append, lambda: self.now)

    def note(self, now: float, done: int, total: int = 100 * MB) -> str:
        self.now = now
        self.pace.note(done, total)
        return self.said[-1] if self.said else ""


def test_it_says_how_much_is_read_how_fast_and_how_long_it_will_take() -> None:
    watch = _Watch()
    watch.note(5, 0)
    said = "reading: 20.0 MB of 100.0 MB read, 2.0 MB/s, 0:40 left"
    assert watch.note(15, 20 * MB) == said
    assert watch.note(20, 30 * MB, 1830 * MB).endswith("2.0 MB/s, 15:00 left")


def test_once_all_is_read_it_is_the_step_that_goes_on() -> None:
    watch = _Watch()
    watch.note(0, 1 * MB)
    watch.note(1, 50 * MB)
    assert watch.note(2, 100 * MB) == "reading"


def test_a_second_time_through_the_table_counts_by_itself() -> None:
    watch = _Watch()
    watch.note(0, 0)
    watch.note(100, 100 * MB)
    watch.note(110, 10 * MB)  # begins
    assert watch.note(120, 60 * MB) == "reading: 60.0 MB of 100.0 MB read, 6.0 MB/s, 0:07 left"


def test_of_a_small_table_nothing_is_said() -> None:
    watch = _Watch()
    watch.note(0, 0, 1 * MB)
    assert watch.note(1, MB // 2, 1 * MB) == ""


def test_without_a_place_for_errors_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``2>&-`` in a shell."""
    monkeypatch.setattr(sys, "stderr", None)
    with busy(False, "reading") as say, upload_progress(False) as show:
        say("still reading")
        show(1, 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_an_analyst_says_of_its_progress_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With markup of Rich in it, too."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with busy(False, "waiting for [/others]") as say:
        say("the analyst is [/x]")
