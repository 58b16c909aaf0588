"""A TCP balancer that passes TLS through: each connection goes to the next of several servers."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PIECE_BYTES = 2**14


@dataclass
class Balancer:
    """Passes on what comes to its port; a server that is down is passed over, as after a failed check."""

    servers: Sequence[int]
    """Their ports."""
    cut_after: int | None = None
    """How many bytes a client may send on a connection before it breaks."""
    pause_s: float = 0.0
    """Between two pieces of a client."""
    on_bytes: Callable[[int, int], None] = lambda _server, _sent: None
    """Told of the port of a server, and of how many bytes a connection has brought it."""
    served: list[int] = field(default_factory=list)
    """The server of each connection that brought more than a request without a body has."""
    _listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _turn: Iterator[int] = field(default_factory=itertools.count)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def run(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self, client: socket.socket) -> None:
        first = next(self._turn)
        for number in range(len(self.servers)):
            port = self.servers[(first + number) % len(self.servers)]
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=5)
            except OSError:
                continue
            server.settimeout(None)
            with client, server:
                back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
                back.start()
                self._bring(client, server, port)
                back.join()
            return
        client.close()

    def _bring(self, client: socket.socket, server: socket.socket, port: int) -> None:
        sent, is_noted = 0, False
        with suppress(OSError):
            while data := client.recv(PIECE_BYTES):
                server.sendall(data)
                sent += len(data)
                if sent > 4 * PIECE_BYTES and not is_noted:
                    self.served.append(port)
                    is_noted = True
                self.on_bytes(port, sent)
                if self.cut_after is not None and sent >= self.cut_after:
                    break
                if self.pause_s:
                    time.sleep(self.pause_s)
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE_BYTES):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def balancer(servers: Sequence[int]) -> Iterator[Balancer]:
    """Yield a balancer that runs."""
    made = Balancer(servers)
    threading.Thread(target=made.run, daemon=True).start()
    yield made
    made.close()
