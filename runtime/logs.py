"""What a log line looks like: one line, whatever is in it, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from protocol.texts import LINE_ENDS, visible

FIELDS: Final = "fields"
"""The attribute of a record that has what its message says, by name."""

REQUEST: Final = "request"
ROUND: Final = "collaboration_id"
"""What a line may be about besides what it says."""
_about: ContextVar[Mapping[str, str]] = ContextVar("about", default={})  # noqa: B039  # never changed


def tell(name: str, value: str) -> None:
    """Let every line of this task or thread say what it is about, from now on."""
    _about.set({**_about.get(), name: value})


def told(name: str) -> str | None:
    """Return what the lines of this task or thread say about a name."""
    return _about.get().get(name)


@contextmanager
def telling(**about: str) -> Iterator[None]:
    """Let every line of a block say what it is about."""
    before = _about.set({**_about.get(), **about})
    try:
        yield
    finally:
        _about.reset(before)


class Lines(logging.Formatter):
    """Writes one line of text for each record, and the traceback of an error below it.

    A name in a message that a peer has chosen cannot end the line, or move the cursor of who reads it.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name of the library
        text = visible(super().formatMessage(record))
        for each in LINE_ENDS:
            text = text.replace(each, f"<U+{ord(each):04X}>")
        about = " ".join(f"{name}={value}" for name, value in _about.get().items())
        return f"{text} [{about}]" if about else text


class JsonLines(logging.Formatter):
    """Writes one JSON object for each record, on one line: for a program that collects logs."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_about.get(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content)


class _ErrorOutput(logging.StreamHandler[TextIO]):
    """Writes to what is the error output now: while progress is drawn, that puts lines above it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up(formatter: logging.Formatter, level: int | str) -> None:
    """Write the log to the error output; a second call changes nothing."""
    handler = _ErrorOutput()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler])
