"""Servers that take the uplinks of the product's client and do less with them than the analyst: a process.

Each is asyncio with mutual TLS 1.3 and no web framework. It reads a request's head and then counts bytes.
One that stores writes what comes to a file and syncs that file once, before it answers; one that checks does
so too, with the digest and the values of every chunk checked by the product's own code before; one that
discards does not look at the bytes. None of them keeps a record, or can take an upload up again.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import ssl
from pathlib import Path
from typing import BinaryIO, Final, cast

from protocol.arrays import Layout, StreamReader
from protocol.chunk_checks import check_values
from protocol.envelope import decode_stored
from protocol.messages import UplinkManifest
from protocol.operations import BEGIN_UPLINK
from runtime.files import WRITTEN_AT_ONCE_BYTES

_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]{1,18})\r\n", re.IGNORECASE)
_HEAD_ENDS: Final = b"\r\n\r\n"
_OPENED: Final = json.dumps({"upload_id": "1", "offset": 0}).encode()


class Sink(asyncio.Protocol):
    """One connection. Only requests that carry a body are understood, one after another."""

    _numbers = itertools.count()

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._head = b""
        self._left_bytes = 0
        self._file: BinaryIO | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._left_bytes:
            self._head, ends, data = (self._head + data).partition(_HEAD_ENDS)
            if not ends:
                return
            self._begin()
        self._left_bytes -= len(data)
        self._take(data)
        if not self._left_bytes:
            self._end()

    def _take(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)

    def _begin(self) -> None:
        length = _LENGTH.search(self._head + b"\r\n")
        if length is None:
            raise ValueError("a request without a length")
        self._left_bytes = int(length[1])
        if self._folder is not None and not self._is_opening():
            self._file = (self._folder / str(next(self._numbers))).open("xb")

    def _is_opening(self) -> bool:
        return self._head.startswith(BEGIN_UPLINK.method.encode())

    def _end(self) -> None:
        answer, self._head = _OPENED if self._is_opening() else b"{}", b""
        if self._file is None:
            self._answer(answer)
            return
        file, self._file = self._file, None
        synced = asyncio.get_running_loop().run_in_executor(None, _sync, file)
        synced.add_done_callback(lambda _: self._answer(answer))

    def _answer(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


class CheckingSink(Sink):
    """One connection whose bytes are checked as the analyst checks them, but for the lengths of rows."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder)
        self._manifest = bytearray()

    def _take(self, data: bytes) -> None:
        if self._file is None:
            self._manifest += data
            return
        for chunk in self._reader.feed(data):
            check_values(self._layout, chunk)
            for start in range(0, len(chunk.data), WRITTEN_AT_ONCE_BYTES):
                self._file.write(chunk.data[start : start + WRITTEN_AT_ONCE_BYTES])

    def _end(self) -> None:
        if self._is_opening():
            manifest = decode_stored(UplinkManifest, bytes(self._manifest))
            self._manifest.clear()
            self._layout = Layout(manifest.arrays, manifest.chunk_bytes)
            self._reader = StreamReader(self._layout, reuses_room=True)
        super()._end()


def _sync(file: BinaryIO) -> None:
    with file:
        os.fsync(file.fileno())


async def serve(identity: Path, port: int, folder: Path | None, *, checks: bool) -> None:
    """Serve with the certificate of a directory, and store in ``folder``, if there is one, until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity / "certificate.pem", identity / "key.pem")
    context.load_verify_locations(identity / "root.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    kind = CheckingSink if checks else Sink
    server = await asyncio.get_running_loop().create_server(
        lambda: kind(folder), "127.0.0.1", port, ssl=context
    )
    print("up", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--identity", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, help="store there; without it, discard")
    parser.add_argument("--check", action="store_true", help="check digests and values first")
    given = parser.parse_args()
    asyncio.run(serve(given.identity, given.port, given.folder, checks=given.check))


if __name__ == "__main__":
    main()
