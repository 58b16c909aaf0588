"""Blobs in S3-compatible storage, which can neither append nor rename.

A blob is an *index*, a small object that lists pieces, and the pieces, which lie beside it and never change::

    KEY                   index of the whole blob; to put it is to commit
    KEY.part              index of the partial one
    KEY.pieces/RUN/N      pieces of one run, which began with an append at 0; N is random

A blob that gets another key keeps its pieces where they are. Two processes that go on with one blob put
pieces of different names, and the index of one of them counts: so neither changes what the other has put.

An append is held back in memory until there is a piece of it; `S3Blobs.sync` puts what is held back, and the
index after it. So an index never names a piece that is not there, and others read what was synced last.
The server compares each body with its SHA-256, which is signed with the request.
"""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from analyst_server.blobs.s3_index import Growing, Index
from analyst_server.blobs.stores import RETRY_AFTER_S, Blobs, too_short
from protocol.errors import InputError, StorageBusyError, StorageError

HELD_BACK_BYTES: Final = 8 * 2**20
"""Of each partial blob: so much of an upload comes again after a crash."""
PIECE_BYTES: Final = 64 * 2**20
"""Of more bytes at once; sent in parts, several at a time."""
MAPPED_FROM_BYTES: Final = 64 * 2**20
"""A longer range is read into a file without a name and mapped, so that memory need not hold it."""
PIECE_NUMBER_BITS: Final = 48
"""Of a random number: few enough for any reader of JSON, and no two pieces of a run have the same."""
RETRIES: Final[Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=20)}
_TIMES: Final = {"connect_timeout": "5s", "timeout": "60s"}
_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
)
_PING: Final = ".ping"

_remembered: dict[str, str] = {}
_own_scratch: list[Path] = []


def remember_access(scratch: Path | None = None) -> None:
    """Keep what the environment says of S3, for a process that is about to forget its environment.

    A store that was pickled on another machine reads large ranges into ``scratch``, if it is given: the
    directory that was pickled with it is not of this machine.
    """
    _remembered.update(_given(os.environ))
    _own_scratch[:] = [scratch] if scratch else []


def _given(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in _VARIABLES if environment.get(name)}


class S3Blobs(Blobs):
    """A store below ``s3://BUCKET/PREFIX``; how it is reached, and by whom, stands in the environment.

    ``scratch`` is a directory for large ranges. What is pickled is the address alone.
    """

    holds_back_bytes = HELD_BACK_BYTES
    reads_copies = True

    def __init__(self, url: str, scratch: Path) -> None:
        found = urlsplit(url)
        if found.scheme != "s3" or not found.hostname or found.username or found.query or found.fragment:
            error = InputError("the address of the blobs cannot be read")
            error.hint = (
                "s3://BUCKET/PREFIX, with the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
                " or file:///PATH with the whole path of a directory"
            )
            raise error
        self._bucket, self._prefix = found.netloc, found.path.strip("/")
        self._scratch = scratch
        self._growing: dict[str, Growing] = {}
        self._lock = threading.RLock()
        self._opened: Any = None

    def __repr__(self) -> str:
        return f"<S3Blobs in {self.place}>"

    @property
    def place(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def __reduce__(self) -> tuple[type[S3Blobs], tuple[str, Path]]:
        return S3Blobs, (self.place, self._scratch)

    @property
    def ports(self) -> tuple[int, ...]:
        endpoint = urlsplit(self._access().get("AWS_ENDPOINT_URL", "https://"))
        return (endpoint.port or (80 if endpoint.scheme == "http" else 443),)

    def require_direct(self) -> None:
        """Raise `InputError` if the environment names a proxy, which a process that computes cannot reach."""
        access, proxies = self._access(), getproxies_environment()
        region = access.get("AWS_REGION") or access.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = urlsplit(access.get("AWS_ENDPOINT_URL", f"https://s3.{region}.amazonaws.com"))
        host = endpoint.hostname or ""
        is_direct = proxy_bypass(host) or _is_in_a_network(host, proxies.get("no", ""))
        if not is_direct and {endpoint.scheme, "all"} & set(proxies):
            error = InputError(
                f"the S3 server {host} would be reached through a proxy, and rounds could not read it"
            )
            error.hint = f"add {host} to NO_PROXY, and let this machine connect to it"
            raise error

    @staticmethod
    def _access() -> dict[str, str]:
        return _remembered or _given(os.environ)

    @property
    def _store(self) -> Any:
        """The client, made when it is first used: its threads give up what this process has given up."""
        with self._lock:
            if self._opened is None:
                self._opened = _client(self._bucket, self._access())
            return self._opened

    # objects

    def _place(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def _put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        with _errors(key):
            self._store.put(self._place(key), data)

    def _get(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError), _errors(key):
            return bytes(self._store.get(self._place(key)).bytes())
        return None

    def _delete(self, *keys: str) -> None:
        if keys:
            with suppress(FileNotFoundError), _errors(keys[0]):
                self._store.delete([self._place(key) for key in keys])

    def _listed(self, folder: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys below a folder with their sizes."""
        below = self._place(folder) if folder else self._prefix
        with _errors(folder):
            for page in self._store.list(f"{below}/" if below else None):
                for one in page:
                    path = str(one["path"])
                    yield path[len(self._prefix) + 1 :] if self._prefix else path, int(one["size"])

    def _index(self, key: str) -> Index | None:
        data = self._get(key)
        return None if data is None else Index.decode(data, key.removesuffix(".part"))

    # whole blobs

    def exists(self, key: str) -> bool:
        return self._get(key) is not None

    def whole_keys(self) -> list[str]:
        keys = (key for key, _ in self._listed())
        return sorted(
            key for key in keys if not key.endswith(".part") and ".pieces/" not in key and key != _PING
        )

    def read(self, key: str, offset: int = 0, length: int | None = None) -> memoryview:
        return self._of_index(key, lambda index: self._fetch(key, index, offset, length))

    def read_copy(self, key: str, offset: int, length: int) -> bytes:
        return bytes(self.read(key, offset, length))

    def _of_index(self, key: str, act: Callable[[Index], memoryview]) -> memoryview:
        """Do something with a blob, once more if it is replaced meanwhile and its pieces are gone."""
        index = self._index(key)
        while index is not None:
            try:
                return act(index)
            except FileNotFoundError:
                again = self._index(key)
                if again is not None and again.run == index.run:
                    raise
                index = again
        raise FileNotFoundError(key)

    def _fetch(self, key: str, index: Index, offset: int, length: int | None) -> memoryview:
        """Return a range of the pieces, as a copy of our own."""
        end = index.size if length is None else min(index.size, offset + length)
        if end <= offset:
            return memoryview(b"")
        target = self._memory(end - offset)
        at = 0
        for number, first, last in index.ranges(offset, end):
            for start in range(first, last, PIECE_BYTES):
                stop = min(start + PIECE_BYTES, last)
                with _errors(key):
                    found = self._store.get_range(self._place(index.place(number)), start=start, end=stop)
                target[at : at + stop - start] = found
                at += stop - start
        return target.toreadonly()

    def _memory(self, size: int) -> memoryview:
        if size < MAPPED_FROM_BYTES:
            return memoryview(bytearray(size))
        with tempfile.TemporaryFile(dir=_own_scratch[0] if _own_scratch else self._scratch) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that is full says so now
            return memoryview(mmap.mmap(file.fileno(), size))

    def stored_bytes(self) -> int:
        with self._lock:
            return sum(size for _, size in self._listed()) + sum(
                len(one.held) for one in self._growing.values()
            )

    def ping(self) -> None:
        self._put(_PING, b"ping")
        self._delete(_PING)

    # partial blobs

    def append(self, key: str, offset: int, data: bytes | bytearray | memoryview) -> None:
        left = memoryview(data).cast("B")
        with self._lock:
            growing = self._growing.get(key)
            if offset == 0:
                if growing is None or growing.index.pieces:
                    self._discard_stored(key)
                growing = Growing(Index(secrets.token_hex(8), key))
            elif growing is None:
                index = self._index(_part(key))
                if index is None:
                    raise FileNotFoundError(key)
                growing = Growing(index)
            if growing.size < offset:
                raise too_short(key, offset)
            self._growing[key] = growing
        growing.held[max(offset - growing.index.size, 0) :] = b""
        if growing.index.size > offset:
            growing.index = growing.index.cut(offset)
        self._grow(growing, left)

    def _grow(self, growing: Growing, left: memoryview) -> None:
        while len(growing.held) + len(left) >= HELD_BACK_BYTES:
            taken = (PIECE_BYTES if not growing.held else HELD_BACK_BYTES) - len(growing.held)
            self._put_piece(growing, left[:taken])
            left = left[taken:]
        growing.held += left

    def _put_piece(self, growing: Growing, more: memoryview | bytes = b"") -> None:
        """Put what is held back, and more, as a piece."""
        body = growing.held + more if growing.held else more
        if len(body):
            number = secrets.randbits(PIECE_NUMBER_BITS)
            self._put(growing.index.place(number), body)
            growing.index = growing.index.with_piece(number, len(body))
            growing.held.clear()

    def write(self, key: str, data: bytes | bytearray | memoryview) -> None:
        growing = Growing(Index(secrets.token_hex(8), key))
        self._grow(growing, memoryview(data).cast("B"))
        self._put_piece(growing)
        self._put_whole(key, growing.index)

    def partial_size(self, key: str) -> int | None:
        growing = self._growing.get(key)
        if growing is not None:
            return growing.size
        index = self._index(_part(key))
        return None if index is None else index.size

    def partial_keys(self, folder: str) -> set[str]:
        with self._lock:
            growing = set(self._growing)
        keys = growing | {
            key.removesuffix(".part") for key, _ in self._listed(folder) if key.endswith(".part")
        }
        return {key for key in keys if key.rpartition("/")[0] == folder}

    def read_partial(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        growing = self._growing.get(key)
        index = self._index(_part(key)) if growing is None else growing.index
        if index is None:
            raise FileNotFoundError(key)
        held = bytes(growing.held) if growing is not None else b""
        end = index.size + len(held) if length is None else offset + length
        stored = self._fetch(key, index, offset, max(min(end, index.size) - offset, 0))
        return bytes(stored) + held[max(offset - index.size, 0) : max(end - index.size, 0)]

    def sync(self, key: str) -> None:
        growing = self._growing.get(key)
        if growing is None:
            return
        self._put_piece(growing)
        self._put(_part(key), growing.index.encode())
        self._growing.pop(key, None)

    def commit(self, key: str, whole: str | None = None) -> None:
        growing = self._growing.get(key)
        if growing is not None:
            self._put_piece(growing)
        index = self._index(_part(key)) if growing is None else growing.index
        if index is None:
            raise FileNotFoundError(key)
        self._put_whole(whole or key, index, then=lambda: self._forget_part(key))

    def _forget_part(self, key: str) -> None:
        self._growing.pop(key, None)
        self._delete(_part(key))

    def _put_whole(self, key: str, index: Index, then: Callable[[], None] = lambda: None) -> None:
        replaced = self._index(key)
        self._put(key, index.encode())
        then()
        if replaced is not None and replaced.run != index.run:
            self._erase_run(replaced)

    def hand_over(self, key: str, new_key: str) -> None:
        index = self._index(_part(key))
        if index is not None:
            self._put(_part(new_key), index.encode())
            self._delete(_part(key))

    def let_go(self, key: str) -> None:
        with self._lock:
            self._growing.pop(key, None)

    def discard(self, key: str) -> None:
        self.let_go(key)
        self._discard_stored(key)

    def abandon(self, key: str) -> None:
        self.let_go(key)
        self._delete(_part(key))  # its pieces may be those of an index that was handed over

    def tidy(self, key: str, keep: str) -> None:
        whole = self._index(key)
        kept = {_part(keep)}
        if whole is not None:
            kept |= {whole.place(number) for number, _ in whole.pieces}
        self._delete(*(left for left in self._named(f"{key}.") if left not in kept))

    def _named(self, beginning: str) -> Iterator[str]:
        """Yield the keys that begin so; S3 itself lists whole folders."""
        folder = beginning.rpartition("/")[0]
        return (key for key, _ in self._listed(folder) if key.startswith(beginning))

    def _discard_stored(self, key: str) -> None:
        index = self._index(_part(key))
        if index is None:
            return
        self._delete(_part(key))
        whole = self._index(key)  # a commit that was cut off leaves both
        if whole is None or whole.run != index.run:
            self._erase_run(index)

    def _erase_run(self, index: Index) -> None:
        self._delete(*(one for one, _ in self._listed(f"{index.of}.pieces/{index.run}")))

    def erase(self, folder: str) -> None:
        with self._lock:
            for key in [key for key in self._growing if key.startswith(f"{folder}/")]:
                del self._growing[key]
        # indexes first: none is left that names a piece that is gone
        keys = sorted((key for key, _ in self._listed(folder)), key=lambda key: ".pieces/" in key)
        self._delete(*keys)


def _is_in_a_network(host: str, listed: str) -> bool:
    """Return whether an address is in one of the networks of a list such as ``NO_PROXY``."""
    for one in listed.split(","):
        with suppress(ValueError):  # a name, here or there
            if ip_address(host) in ip_network(one.strip(), strict=False):
                return True
    return False


def _part(key: str) -> str:
    return key + ".part"


def _client(bucket: str, access: Mapping[str, str]) -> Any:
    try:
        from obstore.store import S3Store
    except ImportError:
        error = InputError("what speaks to S3 is not installed")
        error.hint = "pip install 'orthonormal-data-collaboration[s3]'"
        raise error from None
    missing = [name for name in _VARIABLES[:2] if name not in access]
    if missing:
        raise InputError(f"blobs are in S3, and {' and '.join(missing)} not in the environment")
    endpoint = access.get("AWS_ENDPOINT_URL", "")
    config: Any = {name.lower(): value for name, value in access.items()}
    is_plain = endpoint.startswith("http://")
    # without TLS no certificate is checked; a machine without any authority, such as our image, is fine then
    options: Any = {**_TIMES, "allow_http": is_plain, "allow_invalid_certificates": is_plain}
    return S3Store(
        bucket,
        config=config,
        client_options=options,
        retry_config=RETRIES,
    )


@contextmanager
def _errors(key: str) -> Iterator[None]:
    """Raise what S3 cannot do as errors that the services know; none of them has an address in it."""
    from obstore import exceptions as said

    try:
        yield
    except (FileNotFoundError, said.NotFoundError):
        raise FileNotFoundError(key) from None
    except (said.PermissionDeniedError, said.UnauthenticatedError, PermissionError) as error:
        raise StorageError("the analyst's blob store refuses its credentials") from error
    except said.BaseError as error:
        raise StorageBusyError(
            "the analyst's blob store does not answer", retry_after_s=RETRY_AFTER_S
        ) from error
