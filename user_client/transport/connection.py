"""The one connection to the analyst: mutual TLS, retries, and errors in our own words."""

from __future__ import annotations

import json
import logging
import re
import secrets
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import httpx

from metering.client_traffic import Traffic
from metering.client_transport import MeteredTransport
from protocol import __version__
from protocol.errors import (
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    OdcError,
    StorageBusyError,
)
from protocol.limits import MAX_ANSWER_BYTES
from protocol.operations import DISCOVER, HEALTH, Operation
from protocol.problems import from_problem
from protocol.version import negotiate
from user_client.errors import ConnectionFailedError, TlsFailedError

log = logging.getLogger(__name__)

TIMEOUT: Final = httpx.Timeout(60.0, connect=15.0)
ATTEMPTS: Final = 6
"""With the pauses below about a minute of trying: a server that restarts is back by then."""
_PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_TRANSIENT: Final = (408, 502, 503, 504)
_ONE_BYTE: Final = "bytes=0-0"
_PART: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")
_MAX_RETRY_AFTER_S: Final = 60
"""The longest wait that an analyst may ask for between two attempts."""

Identity = tuple[Path, Path]
"""Paths of a certificate and of its key."""
TransportFactory = Callable[[ssl.SSLContext, Identity | None], httpx.BaseTransport]
"""Makes the transport of a connection, given whom to trust and who we are."""


@dataclass(frozen=True)
class Answer:
    """A whole answer of the analyst, its body unpacked."""

    status: int
    headers: Mapping[str, str]
    """Their names are not case-sensitive."""
    content: bytes

    def json(self) -> Any:
        """Return the JSON value in the body; raises `ValueError` or `RecursionError`."""
        return json.loads(self.content)


@dataclass(frozen=True)
class LongAnswer:
    """An answer whose body comes piece by piece."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes]


def metered(url: str, traffic: Traffic) -> TransportFactory:
    """Return a factory of transports to ``url`` whose bytes are counted in ``traffic``."""
    return lambda context, _identity: MeteredTransport(url, context, traffic)


def trusting(root_pem: str, revocations: Path | None) -> ssl.SSLContext:
    """Return a TLS context that believes this root alone, and nobody on its revocation list (PEM)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=root_pem)
    if revocations is not None:
        context.load_verify_locations(revocations)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


class AnalystConnection:
    """Requests to one analyst. Every method raises `OdcError` and nothing else.

    Parameters
    ----------
    url : str
        Address of the analyst, https.
    root_pem : str
        The consortium's root: the only certificate authority believed.
    identity : (Path, Path), optional
        Certificate and key of the institution; None before it has joined.
    traffic : Traffic
        Where bytes are counted.
    pause : callable
        Waits between attempts; an argument so that tests do not wait.
    revocations : Path, optional
        The root's revocation list (PEM): an analyst on it is not talked to.
    key_password : bytes, optional
        Decrypts the key of ``identity``, if that is encrypted.
    attempts : int
        How often a request is sent until it is answered; 1 for a caller that comes back anyway.
    transport : callable, optional
        Makes the transport of the requests; `metered` does if none is given.
    """

    def __init__(
        self,
        url: str,
        root_pem: str,
        identity: Identity | None,
        traffic: Traffic,
        pause: Callable[[float], None] = time.sleep,
        revocations: Path | None = None,
        key_password: bytes | None = None,
        attempts: int = ATTEMPTS,
        transport: TransportFactory | None = None,
    ) -> None:
        self._root_pem, self._identity, self._revocations = root_pem, identity, revocations
        context = trusting(root_pem, revocations)
        if identity is not None:
            # always given, because OpenSSL would otherwise ask at the terminal
            context.load_cert_chain(*identity, password=lambda: key_password or b"")
        self._url = url.rstrip("/")
        self._pause = pause
        self._attempts = attempts
        self._transport = transport or metered(self._url, traffic)
        self._client = httpx.Client(
            base_url=self._url,
            transport=self._transport(context, identity),
            timeout=TIMEOUT,
            headers={"user-agent": f"odc/{__version__}", "accept-encoding": "gzip"},
        )
        for said_anyway in ("accept", "connection"):  # */* and keep-alive: 37 bytes a request
            del self._client.headers[said_anyway]

    def __repr__(self) -> str:
        return f"<AnalystConnection {self._url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._client.close()

    def discover(self) -> dict[str, Any]:
        """Return what the analyst says of itself; raises `UnsupportedVersionError`."""
        found = self.ask_json(DISCOVER)
        versions = found.get("wire_versions")
        if not isinstance(versions, list) or not all(isinstance(item, int) for item in versions):
            raise MalformedMessageError("discovery", "names no wire versions; is this an ODC analyst?")
        negotiate(versions, peer="the analyst")
        return found

    def ask(self, operation: Operation, body: bytes | None = None, *, query: str = "", **ids: str) -> Answer:
        """Send a request of an operation, again and again until it is answered.

        Parameters
        ----------
        body : bytes, optional
            In the media type of the operation.
        query : str
            What follows the question mark in the address.
        ids : str
            The ids in the operation's path.
        """
        media_type = operation.body.media_type if operation.body else None
        path = operation.url(**ids) + (f"?{query}" if query else "")
        headers = {"content-type": media_type} if body is not None and media_type else None
        return self.request(operation.method, path, content=body, headers=headers)

    def ask_json(self, operation: Operation, body: bytes | None = None, **ids: str) -> dict[str, Any]:
        """Send a request and return the JSON object in the answer."""
        return json_object(self.ask(operation, body, **ids))

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request that may be sent again, until it is answered.

        Every request of the protocol may: repeating one is acknowledged like the first.
        """
        for pause_s in self.pauses_s:
            try:
                return self.request_once(method, path, content=content, headers=headers)
            except TlsFailedError:
                raise  # trying again does not mend a certificate
            except (ConnectionFailedError, StorageBusyError) as error:
                self.wait(error, pause_s)
        try:
            return self.request_once(method, path, content=content, headers=headers)
        except TlsFailedError:
            raise
        except ConnectionFailedError as error:
            # whoever answers, if only to be busy, has believed our certificate
            if error.was_answered or not self._is_answered_without_certificate():
                raise
        try:  # it may have come up between the two
            return self.request_once(method, path, content=content, headers=headers)
        except ConnectionFailedError as error:
            raise TlsFailedError(f"{self._url} refused this institution's certificate") from error

    @property
    def pauses_s(self) -> Sequence[float]:
        """How long to wait after each attempt that failed, but for the last."""
        return _PAUSES_S[: self._attempts - 1]

    def wait(self, error: OdcError, pause_s: float) -> None:
        """Wait before the next attempt: as long as the analyst asked for with the error, if it did."""
        asked_s = error.context.get("retry_after_s")
        if isinstance(asked_s, int) and 0 <= asked_s <= _MAX_RETRY_AFTER_S:
            # everybody is asked to wait the same time, and must not come back at the same moment
            pause_s = max(pause_s, asked_s * (1 + secrets.randbelow(256) / 1024))
        log.warning("%s; trying again in %.3g s", error.detail, pause_s)
        self._pause(pause_s)

    def request_once(
        self,
        method: str,
        path: str,
        *,
        content: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request once; a problem document in the answer is raised as its error."""
        with (
            self._translated(),
            self._client.stream(method, path, content=content, headers=headers) as response,
        ):
            answer = _read_bounded(response)
        raise_for_problem(answer, method)
        return answer

    def _is_answered_without_certificate(self) -> bool:
        """Return whether the analyst talks to somebody who shows no certificate.

        A server that does not believe ours hangs up in the handshake, and its alert is lost: to us it
        looks like one that is down.
        """
        if self._identity is None:
            return False
        try:
            with httpx.Client(
                transport=self._transport(trusting(self._root_pem, self._revocations), None), timeout=TIMEOUT
            ) as stranger:
                return stranger.get(f"{self._url}{HEALTH.path}").is_success
        except httpx.HTTPError:
            return False

    @contextmanager
    def stream(
        self, operation: Operation, *, headers: Mapping[str, str] | None = None, **ids: str
    ) -> Iterator[LongAnswer]:
        """Yield a long answer while it comes; `Download` fetches one through several connections."""
        path = operation.url(**ids)
        # arrays do not compress, and what is not unpacked cannot grow
        sent = {**(headers or {}), "accept-encoding": "identity"}
        with (
            self._translated(),
            self._client.stream("GET", path, headers=sent) as response,
        ):
            if not response.is_success:
                raise_for_problem(_read_bounded(response), "GET")
            yield LongAnswer(response.status_code, response.headers, response.iter_raw())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise what httpx raises as one of our errors."""
        try:
            yield
        except httpx.TransportError as error:
            raise _translate(error, self._url) from error
        except httpx.RequestError as error:
            raise MalformedMessageError("answer", f"cannot be read ({type(error).__name__})") from None


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
        tag = answer.headers.get("etag")
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


def _read_bounded(response: httpx.Response) -> Answer:
    """Return a whole answer of at most `MAX_ANSWER_BYTES`, unpacked.

    A piece of 64 KiB unpacks to 64 MiB at most, which gzip cannot exceed: that much more is held.
    """
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise LimitExceededError("answer in bytes", MAX_ANSWER_BYTES)
    return Answer(response.status_code, response.headers, bytes(body))


def _translate(error: httpx.TransportError, url: str) -> ConnectionFailedError:
    text = str(error)
    if "certificate revoked" in text:
        return TlsFailedError(f"the lead institution has revoked the certificate of {url}")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return TlsFailedError(f"{url} did not show a certificate of this consortium")
    if "ALERT" in text.upper() and ("CERTIFICATE" in text.upper() or "UNKNOWN_CA" in text.upper()):
        return TlsFailedError(f"{url} refused this institution's certificate")
    if "EOF" in text:  # cut off in the handshake: a server that goes down, or a balancer without one
        return ConnectionFailedError(f"no answer from {url} (cut off)")
    if "SSL" in text or "TLS" in text.upper():
        return TlsFailedError(f"TLS with {url} failed: {type(error).__name__}")
    reason = "timed out" if isinstance(error, httpx.TimeoutException) else type(error).__name__
    return ConnectionFailedError(f"no answer from {url} ({reason})")


def json_object(answer: Answer) -> dict[str, Any]:
    """Return the JSON object in an answer; raises `MalformedMessageError`."""
    try:
        value = answer.json()
    except (ValueError, RecursionError):
        raise MalformedMessageError("answer", "is not JSON; is this an ODC analyst?") from None
    if not isinstance(value, dict):
        raise MalformedMessageError("answer", "is not a JSON object")
    return value


def raise_for_problem(answer: Answer, method: str) -> None:
    """Raise the error that the answer to a request carries, if it carries one."""
    if 200 <= answer.status < 300 or answer.status == HTTPStatus.NOT_MODIFIED:
        return
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = answer.json()
        except (ValueError, RecursionError):  # cut short, or the answer to a HEAD, which has no body
            problem = None
        if isinstance(problem, dict):
            raise from_problem(problem)
    if answer.status == 404 and method == "HEAD":
        raise NotFoundError("the analyst knows no such upload of this institution")
    if answer.status in _TRANSIENT:
        busy = ConnectionFailedError(f"the analyst answered {answer.status}, it may be restarting")
        busy.was_answered = True
        raise busy
    error = OdcError(f"the analyst answered {answer.status} without saying why")
    error.hint = "a proxy in between may have answered instead: ask for direct access to the analyst's port"
    raise error
