"""The one connection to the analyst: mutual TLS, retries, and errors in our own words."""

from __future__ import annotations

import json
import logging
import re
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import httpx

from metering.client_traffic import Traffic
from metering.client_transport import MeteredTransport
from protocol import __version__
from protocol.busy import TooManyRequestsError
from protocol.errors import (
    DiskFullError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    OdcError,
    StorageBusyError,
)
from protocol.limits import MAX_ANSWER_BYTES
from protocol.operations import DISCOVER, HEALTH, Operation
from protocol.problems import from_problem
from protocol.tracing import HEADER, new_trace, traceparent
from protocol.version import negotiate
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport.failures import translate
from user_client.transport.packing import Packing
from user_client.transport.trust import show, trusting

log = logging.getLogger(__name__)

TIMEOUT: Final = httpx.Timeout(60.0, connect=15.0)
ATTEMPTS: Final = 6
"""With the pauses below some twenty seconds of trying, and more where nothing answers at all."""
_PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_TRANSIENT: Final = (408, 502, 503, 504)
_MAX_RETRY_AFTER_S: Final = 60
"""The longest wait that an analyst may ask for between two attempts."""
_MOST_TURNED_AWAY_S: Final = 600.0
"""How long an analyst that answers may go on asking us to come back later."""

_MOST_VERSIONS: Final = 100
"""Wire versions that an analyst may name, and the number of the last."""

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
    timeout_s : float, optional
        How long each step of a request may take: to connect, and to wait for the next bytes. `TIMEOUT` if it
        is not said.
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
        timeout_s: float | None = None,
        transport: TransportFactory | None = None,
    ) -> None:
        self._root_pem, self._identity, self._revocations = root_pem, identity, revocations
        context = trusting(root_pem, revocations)
        if identity is not None:
            show(context, *identity, key_password)
        self._url = url.rstrip("/")
        self._pause = pause
        self._attempts = attempts
        self._timeout = TIMEOUT if timeout_s is None else httpx.Timeout(timeout_s)
        self._turned_away_s = 0.0
        self._was_answered = False
        self._trace = new_trace()
        self._packing = Packing(identity[0] if identity else None)
        self._transport = transport or metered(self._url, traffic)
        self._client = httpx.Client(
            base_url=self._url,
            transport=self._transport(context, identity),
            timeout=self._timeout,
            headers={"user-agent": f"odc/{__version__}"},
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
        if not (
            isinstance(versions, list) and len(versions) <= _MOST_VERSIONS and all(map(_is_version, versions))
        ):
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
        if body is None:
            return self.request(operation.method, path)
        headers = {"content-type": media_type} if media_type else {}
        # what is compared with the papers' formulas is sent as it is: its bytes are explained one by one
        packed, said = self._packing.packed(body) if operation.kind == "control" else (body, {})
        try:
            return self.request(operation.method, path, content=packed, headers={**headers, **said})
        except MalformedMessageError:
            if not said:
                raise
        self._packing.give_up()  # an analyst of an earlier version, since its last answer
        return self.request(operation.method, path, content=body, headers=headers)

    def ask_json(
        self, operation: Operation, body: bytes | None = None, *, query: str = "", **ids: str
    ) -> dict[str, Any]:
        """Send a request and return the JSON object in the answer."""
        return json_object(self.ask(operation, body, query=query, **ids))

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        tries_again: bool = True,
    ) -> Answer:
        """Send a request that may be sent again, until it is answered.

        Every request of the protocol may: repeating one is acknowledged like the first. With ``tries_again``
        False, a caller who comes back anyway is told of a failure at once.
        """
        for pause_s in self.pauses_s if tries_again else ():
            try:
                return self._request_admitted(method, path, content, headers)
            except TlsFailedError:
                raise  # trying again does not mend a certificate
            except (ConnectionFailedError, StorageBusyError, DiskFullError) as error:
                self.wait(error, pause_s)
        try:
            return self._request_admitted(method, path, content, headers)
        except TlsFailedError:
            raise
        except ConnectionFailedError as error:
            # whoever answers, if only to be busy, has believed our certificate; who does not hangs up at once
            is_silent = isinstance(error.__cause__, httpx.TimeoutException)
            if error.was_answered or is_silent or not self._is_answered_without_certificate():
                raise
        try:  # it may have come up between the two
            return self.request_once(method, path, content=content, headers=headers)
        except ConnectionFailedError as error:
            raise TlsFailedError(f"{self._url} refused this institution's certificate") from error

    def _request_admitted(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str] | None
    ) -> Answer:
        """Send a request, and again as often as the analyst asks to come back later."""
        while True:
            try:
                return self.request_once(method, path, content=content, headers=headers)
            except TooManyRequestsError as error:
                self.wait_turn(error)

    def wait_turn(self, error: TooManyRequestsError) -> None:
        """Wait as long as an analyst asks that admits no request now: no failure, and no attempt.

        Raises the error itself where that goes on for ten minutes, and for a caller that comes back anyway.
        """
        if self._attempts == 1 or self._turned_away_s > _MOST_TURNED_AWAY_S:
            raise error
        asked_s = error.context.get("retry_after_s")
        if not isinstance(asked_s, int) or not 1 <= asked_s <= _MAX_RETRY_AFTER_S:
            asked_s = 1
        pause_s = _spread(asked_s)
        self._turned_away_s += pause_s
        log.info("%s; asking again in %.3g s, as the analyst wants", error.detail, pause_s)
        self._pause(pause_s)

    @property
    def pauses_s(self) -> Sequence[float]:
        """How long to wait after each attempt that failed, but for the last."""
        return _PAUSES_S[: self._attempts - 1]

    def wait(self, error: OdcError, pause_s: float) -> None:
        """Wait before the next attempt: as long as the analyst asked for with the error, if it did.

        Raises the error itself if waiting does not mend it, and nothing was answered before.
        """
        if not self._was_answered and isinstance(error, ConnectionFailedError) and not error.may_pass:
            raise error
        if waits_for_a_person(error):
            raise error
        pause_s = as_long_as_asked(error, pause_s)
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
            self._client.stream(method, path, content=content, headers=self._with_ours(headers)) as response,
        ):
            answer = self._read(response)
        log.info("%s %s: %d, trace %s", method, path, answer.status, self._trace)
        self._was_answered = True
        raise_for_problem(answer, method)
        self._turned_away_s = 0.0
        return answer

    def _with_ours(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return headers with those of every request; the id of a trace (70 bytes) if our log has it too."""
        told = {HEADER: traceparent(self._trace)} if log.isEnabledFor(logging.INFO) else {}
        return {"accept-encoding": self._packing.offered, **(headers or {}), **told}

    def _read(self, response: httpx.Response) -> Answer:
        """Return a whole answer of at most `MAX_ANSWER_BYTES`, unpacked."""
        self._packing.meet(response)
        answer = _read_bounded(response)
        return replace(answer, content=self._packing.unpacked(answer.headers, answer.content))

    def _is_answered_without_certificate(self) -> bool:
        """Return whether the analyst talks to somebody who shows no certificate.

        A server that does not believe ours hangs up in the handshake, and its alert is lost: to us it
        looks like one that is down.
        """
        if self._identity is None:
            return False
        try:
            with httpx.Client(
                transport=self._transport(trusting(self._root_pem, self._revocations), None),
                timeout=self._timeout,
            ) as stranger:
                return stranger.get(f"{self._url}{HEALTH.path}").is_success
        except (httpx.HTTPError, httpx.InvalidURL):
            return False

    @contextmanager
    def stream(
        self, operation: Operation, *, headers: Mapping[str, str] | None = None, **ids: str
    ) -> Iterator[LongAnswer]:
        """Yield a long answer while it comes; `Download` fetches one through several connections."""
        path = operation.url(**ids)
        # arrays do not compress, and what is not unpacked cannot grow
        sent = self._with_ours({**(headers or {}), "accept-encoding": "identity"})
        with (
            self._translated(),
            self._client.stream("GET", path, headers=sent) as response,
        ):
            if not response.is_success:
                raise_for_problem(self._read(response), "GET")
            yield LongAnswer(response.status_code, response.headers, response.iter_raw())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise what httpx raises as one of our errors."""
        try:
            yield
        except httpx.TransportError as error:
            raise translate(error, self._url) from error
        except (httpx.RequestError, httpx.InvalidURL) as error:  # the second: of a redirect
            raise MalformedMessageError("answer", f"cannot be read ({type(error).__name__})") from None


def waits_for_a_person(error: OdcError) -> bool:
    """Return whether an error is a full disk, here or at an analyst that does not say when to come back."""
    return isinstance(error, DiskFullError) and "retry_after_s" not in error.context


def as_long_as_asked(error: OdcError, pause_s: float) -> float:
    """Return how long to wait before the next attempt: a pause, or longer if the analyst asked for it."""
    asked_s = error.context.get("retry_after_s")
    if isinstance(asked_s, int) and 0 <= asked_s <= _MAX_RETRY_AFTER_S:
        return max(pause_s, _spread(asked_s))
    return pause_s


def _is_version(item: object) -> bool:
    return isinstance(item, int) and 0 <= item < _MOST_VERSIONS


def _spread(pause_s: float) -> float:
    """Return a pause, up to a quarter longer: everybody was told the same, and must not come back at once."""
    return pause_s * (1 + secrets.randbelow(256) / 1024)


def _read_bounded(response: httpx.Response) -> Answer:
    """Return a whole answer of at most `MAX_ANSWER_BYTES`, unpacked if it came in gzip.

    A piece of 64 KiB unpacks to 64 MiB at most, which gzip cannot exceed: that much more is held.
    """
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise LimitExceededError("answer in bytes", MAX_ANSWER_BYTES)
    return Answer(response.status_code, response.headers, bytes(body))


def version_of(headers: Mapping[str, str]) -> str | None:
    """Return the version that an answer names (ETag); None for none, or for one that cannot be sent back."""
    tag = headers.get("etag")
    return tag if tag is not None and tag.isascii() and tag.isprintable() else None


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
    if answer.headers.get("content-type", "").lower().startswith("application/problem+json"):
        try:
            problem = answer.json()
        except (ValueError, RecursionError):  # cut short, or the answer to a HEAD, which has no body
            problem = None
        if isinstance(problem, dict):
            raise from_problem(problem)
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        asked_s = answer.headers.get("retry-after", "")
        told = {"retry_after_s": int(asked_s)} if re.fullmatch("[0-9]{1,9}", asked_s) else {}
        raise TooManyRequestsError("the analyst has had too many requests", **told)
    if answer.status == 404 and method == "HEAD":
        raise NotFoundError("the analyst knows no such upload of this institution")
    if answer.status in _TRANSIENT:
        busy = ConnectionFailedError(f"the analyst answered {answer.status}, it may be restarting")
        busy.was_answered = True
        raise busy
    error = OdcError(f"the analyst answered {answer.status} without saying why")
    error.hint = "a proxy in between may have answered instead: ask for direct access to the analyst's port"
    raise error
