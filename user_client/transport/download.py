"""One long answer of the analyst, fetched through as many connections as it takes."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from typing import Final

from protocol.busy import TooManyRequestsError
from protocol.errors import MalformedMessageError, StorageBusyError
from protocol.operations import Operation
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport.connection import AnalystConnection, LongAnswer, version_of

log = logging.getLogger(__name__)

_ONE_BYTE: Final = "bytes=0-0"
_PART: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")


class Download:
    """One long answer in pieces, through as many connections as it takes; iterate over it once.

    Each connection goes on where the one before broke off. The analyst names the version of what it sends
    (ETag), so that no two are put together (docs/protocol.md, "A downlink in parts"). Iterating raises
    `ConnectionFailedError` if the line stays broken without a byte of progress, and what the analyst answers.
    """

    def __init__(
        self, connection: AnalystConnection, operation: Operation, *, tag: str | None = None, **ids: str
    ) -> None:
        self._connection, self._operation, self._ids = connection, operation, ids
        self._tag = tag
        self._received = 0
        self._length: int | None = None
        self._is_whole = False

    def __repr__(self) -> str:
        return f"<Download of {self._operation.name}, {self._received} bytes so far>"

    def __iter__(self) -> Generator[bytes, None, None]:
        """Yield the pieces, through as many connections as it takes."""
        pauses = iter(self._connection.pauses_s)
        while not self._is_whole:
            before = self._received
            try:
                yield from self._one_connection()
            except TlsFailedError:
                raise  # trying again does not mend a certificate
            except TooManyRequestsError as error:
                self._connection.wait_turn(error)
            except (ConnectionFailedError, StorageBusyError) as error:
                if self._received == self._length:
                    return  # only the end of the connection was lost
                if self._received > before:
                    pauses = iter(self._connection.pauses_s)
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
                log.info("%d bytes have arrived", self._received)
                self._connection.wait(error, pause_s)

    def _one_connection(self) -> Generator[bytes, None, None]:
        headers = {"range": f"bytes={self._received}-"}
        if self._tag is not None and self._received:
            headers["if-range"] = self._tag
        with self._connection.stream(self._operation, headers=headers, **self._ids) as answer:
            skipped_bytes = self._check(answer)
            for piece in answer.pieces:
                fresh = piece[skipped_bytes:]
                skipped_bytes -= len(piece) - len(fresh)
                self._received += len(fresh)
                if fresh:
                    yield fresh
        self._is_whole = True

    def _check(self, answer: LongAnswer) -> int:
        """Return how many bytes of an answer we have already; note its version.

        An analyst that sends everything again names no version, or never did: every array has its digest.
        """
        tag = version_of(answer.headers)
        if self._received and tag != self._tag:
            raise MalformedMessageError("downlink", "it changed while it was being fetched; fetch it again")
        self._tag = tag
        if answer.status != 206:
            return self._received
        part = _PART.fullmatch(answer.headers.get("content-range", ""))
        if part is None or int(part[1]) != self._received:
            raise MalformedMessageError("downlink", "the part that came is not the one that was asked for")
        self._length = int(part[2])
        return 0

    @property
    def tag(self) -> str | None:
        """The version, as the analyst names it; with it another `Download` can acknowledge this one."""
        return self._tag

    def acknowledge(self) -> None:
        """Tell the analyst that everything has arrived and is kept; it then knows that it may be erased.

        Raises `ConnectionFailedError` as any request does. An analyst that names no version asks for nothing.
        """
        if self._tag is not None:
            # one byte at most, should the analyst have another version by now
            headers = {"if-none-match": self._tag, "range": _ONE_BYTE}
            self._connection.request("GET", self._operation.url(**self._ids), headers=headers)
