"""One event to one address, signed as the Standard Webhooks specification says (standardwebhooks.com).

The HTTP client of the standard library will do: it follows no redirect, and the analyst goes without the
client's (docs/adr/0070). A proxy in ``HTTPS_PROXY`` is used unless ``NO_PROXY`` names the host.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from analyst_server.settings import Settings
from metering.private_parts import open_by
from protocol import __version__
from protocol.errors import InputError
from runtime.files import read_text
from runtime.hosts import is_loopback

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # what every secret of the specification begins with
SECRET_BYTES: Final = range(24, 65)
"""How long a secret may be, as the specification has it."""
MOST_SECRETS: Final = 4
DEADLINE_S: Final = 10.0
"""How long an attempt may take as a whole, however slowly the receiver speaks."""
GONE: Final = 410
"""The receiver wants no more of this event; the specification asks senders to heed that."""
_SECURE, _PLAIN = "https", "http"
_SHORTEST_S: Final = 0.001  # 0 would mean a socket that does not block


def signature(secret: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature of an event, ``v1,`` and an HMAC-SHA256 of ``id.timestamp.body`` in base64."""
    signed = b".".join((event_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def secrets_in(path: Path) -> tuple[bytes, ...]:
    """Return the secrets of a file, one a line; each signs, so that a receiver can go from one to the next.

    Raises `InputError`, without what the file says.
    """
    lines = read_text(path).split()
    if not 1 <= len(lines) <= MOST_SECRETS:
        raise _no_secret(path, f"{len(lines)} lines")
    return tuple(_secret(path, line) for line in lines)


def _secret(path: Path, line: str) -> bytes:
    try:
        found = base64.b64decode(line.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not line.startswith(SECRET_PREFIX) or len(found) not in SECRET_BYTES:
        raise _no_secret(path, "another line")
    return found


def _no_secret(path: Path, came: str) -> InputError:
    error = InputError(
        f"{path}: expected 1 to {MOST_SECRETS} lines, each {SECRET_PREFIX} and 24 to 64 bytes in base64,"
        f" came {came}"
    )
    error.hint = f'create one with: printf "{SECRET_PREFIX}%s\\n" "$(openssl rand -base64 32)"'
    return error


def checked_address(url: str) -> str:
    """Return the address of a webhook.

    Raises `ValueError`, without the address: its path may be what keeps others from using it.
    """
    refused = ValueError("is no address of the form https://HOST/PATH")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise refused from None
    is_readable = port != 0 and bool(parts.hostname) and url.isascii() and url.isprintable()
    if not is_readable or " " in url or parts.scheme not in (_SECURE, _PLAIN):
        raise refused
    if parts.username is not None or parts.fragment:
        raise ValueError("has a user or a fragment in it, and neither would be sent")
    if parts.scheme == _PLAIN and not is_loopback(str(parts.hostname)):
        raise ValueError("is http, which goes to the loopback alone: use https")
    return url


@dataclass(frozen=True)
class Delivery:
    """What came of one attempt: the receiver's status, or why there was none."""

    status: int | None
    reason: str
    seconds: float

    @property
    def is_done(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_unwanted(self) -> bool:
        return self.status == GONE

    @property
    def text(self) -> str:
        return f"HTTP {self.status} {self.reason}".rstrip() if self.status else self.reason


@dataclass(eq=False)
class Webhook:
    """Where events are sent, one at a time."""

    url: str = field(repr=False)
    secrets: Sequence[bytes] = field(repr=False)
    deadline_s: float = DEADLINE_S
    _open: _Line | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Return the host alone, for a log."""
        return str(urlsplit(self.url).hostname)

    def send(self, event_id: str, body: bytes, at: int) -> Delivery:
        """Send an event; ``at`` is the time of this attempt. Of the answer nothing but its head is read."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"odc-analyst/{__version__}",
            "webhook-id": event_id,
            "webhook-timestamp": str(at),
            "webhook-signature": " ".join(signature(one, event_id, at, body) for one in self.secrets),
            "Connection": "close",
        }
        began = time.perf_counter()
        try:
            status, reason = self._post(urlsplit(self.url), body, headers)
        except (OSError, HTTPException) as error:
            return Delivery(None, _in_words(error), time.perf_counter() - began)
        return Delivery(status, reason, time.perf_counter() - began)

    def cut_off(self) -> None:
        """End the attempt that is under way, from any thread."""
        line = self._open
        if line is not None:
            line.cut()

    def _post(self, parts: SplitResult, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        line = self._open = _Line(self.deadline_s)
        connection = _connection(parts, self.deadline_s)
        open_by(connection, line.connect)
        # a timeout of the socket is for one read: who sends a byte now and then would hold us for ever
        too_late = threading.Timer(self.deadline_s, line.cut)
        too_late.daemon = True
        too_late.start()
        try:
            target = urlunsplit(("", "", parts.path, parts.query, "")) or "/"
            connection.request("POST", target, body, headers)
            answer = connection.getresponse()
            return answer.status, _printable(answer.reason)
        except (OSError, HTTPException):
            if line.is_cut:
                raise TimeoutError from None
            raise
        finally:
            too_late.cancel()
            self._open = None
            connection.close()
            line.close()


class _Line:
    """The socket of one attempt: it can be cut from any thread, also before it is there.

    A look-up of a name ends when it ends, but nothing is sent after the line was cut.
    """

    def __init__(self, deadline_s: float) -> None:
        self._ends_at = time.monotonic() + deadline_s
        self._socket: socket.socket | None = None
        self.is_cut = False

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Return what `socket.create_connection` does, in the time that is left; raises `TimeoutError`."""
        left_s = max(self._ends_at - time.monotonic(), _SHORTEST_S)
        made = socket.create_connection(address, left_s)
        self._socket = made.dup()  # TLS takes the descriptor of what it wraps, before its handshake
        if self.is_cut:  # looked at after the socket is known: `cut` does both the other way round
            made.close()
            raise TimeoutError
        return made

    def cut(self) -> None:
        self.is_cut = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def webhook_of(settings: Settings) -> Webhook | None:
    """Return where the settings want events to be sent, None for nowhere.

    Raises `InputError` if the address or the file with the secret cannot be used.
    """
    if not settings.webhook_url:
        return None
    try:
        url = checked_address(settings.webhook_url)
    except ValueError as found:
        error = InputError(f"ODC_ANALYST_WEBHOOK_URL {found}")
        error.hint = "https://HOST/PATH, or http://127.0.0.1:PORT/PATH for a program on this machine"
        raise error from None
    if settings.webhook_secret_file is None:
        error = InputError("a webhook needs a secret, so that its receiver can tell who has sent an event")
        error.hint = "set ODC_ANALYST_WEBHOOK_SECRET_FILE to a file with a secret"
        raise error
    return Webhook(url, secrets_in(settings.webhook_secret_file))


def _connection(parts: SplitResult, timeout_s: float) -> HTTPConnection:
    host, port = str(parts.hostname), parts.port
    if parts.scheme == _PLAIN:
        return HTTPConnection(host, port, timeout=timeout_s)
    context = ssl.create_default_context()
    proxy = urllib.request.getproxies().get(_SECURE)
    if not proxy or urllib.request.proxy_bypass(host):
        return HTTPSConnection(host, port, timeout=timeout_s, context=context)
    through = urlsplit(proxy if "://" in proxy else f"{_PLAIN}://{proxy}")
    connection = HTTPSConnection(
        str(through.hostname), through.port or 80, timeout=timeout_s, context=context
    )
    login = {}
    if through.username is not None:
        pair = f"{unquote(through.username)}:{unquote(through.password or '')}"
        login = {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    connection.set_tunnel(host, port or 443, login)
    return connection


def _in_words(error: OSError | HTTPException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    said = getattr(error, "strerror", None) or type(error).__name__
    return f"no answer: {_printable(str(said))}"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text[:100])
