from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from protocol.arrays import Layout, little_endian, raw_bytes, specify, whole_digest
from protocol.busy import TooManyRequestsError
from protocol.errors import (
    DigestMismatchError,
    DiskFullError,
    MalformedMessageError,
    NotPermittedError,
    OdcError,
    OffsetMismatchError,
    StorageBusyError,
    UploadSupersededError,
)
from protocol.limits import MIN_CHUNK_BYTES
from protocol.messages import UplinkManifest
from tests.harness.scripted_server import Pauses, connect, problem
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport.connection import ATTEMPTS
from user_client.transport.upload import MAX_BREAKS, send_uplink, stream_from

ROWS = 50_000


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "rep": little_endian(rng.standard_normal((ROWS, 2)), "f4"),
        "anchor_rep": little_endian(rng.standard_normal((4, 2)), "f4"),
        "labels": little_endian(np.arange(ROWS) % 2, "u1"),
    }


@pytest.fixture(scope="module")
def manifest(arrays: dict[str, Any]) -> UplinkManifest:
    dtypes: Any = {"rep": "f4", "anchor_rep": "f4", "labels": "u1"}
    return UplinkManifest(
        collaboration_id="c0" * 16,
        terms_digest=bytes(32),
        party="hospital-a",
        anchor_commitment=bytes(32),
        chunk_bytes=MIN_CHUNK_BYTES,
        arrays=tuple(specify(name, array, dtypes[name], MIN_CHUNK_BYTES) for name, array in arrays.items()),
    )


@pytest.fixture
def payload(arrays: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "uplink.payload"
    path.write_bytes(b"".join(map(raw_bytes, arrays.values())))
    return path


class Analyst:
    """Keeps an upload's whole chunks, or its bytes, and breaks the line or refuses when it is told to."""

    def __init__(self, manifest: UplinkManifest) -> None:
        self.layout = Layout(manifest.arrays, manifest.chunk_bytes)
        self.kept = b""
        self.keeps_begun = False
        """Whether it keeps what came of a chunk that is not whole."""
        self.breaks: list[int | OdcError | Exception] = []
        """What befalls the next appends: a number of bytes after which the line breaks, or an error."""
        self.appends: list[tuple[int, int]] = []
        self.headers: dict[str, str] = {}
        self.offset_header: Callable[[], str | None] = lambda: str(len(self.kept))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            begun = self.layout.place_of(len(self.kept))[1]
            return httpx.Response(
                201, json={"upload_id": "u1", "offset": len(self.kept) - begun, "begun": begun}
            )
        assert request.url.path == "/v1/uploads/u1"
        if request.method == "HEAD":
            found = self.offset_header()
            headers = {} if found is None else {"upload-offset": found}
            if self.keeps_begun and found == str(len(self.kept)):
                begun = self.layout.place_of(len(self.kept))[1]
                headers = {"upload-offset": str(len(self.kept) - begun), "upload-begun": str(begun)}
            return httpx.Response(204, headers=headers)
        return self._append(request)

    def _append(self, request: httpx.Request) -> httpx.Response:
        offset = int(request.headers["upload-offset"])
        self.headers = dict(request.headers)
        if self.keeps_begun and offset == len(self.kept) - self.layout.place_of(len(self.kept))[1]:
            self.kept = self.kept[:offset]
        if offset != len(self.kept):
            return refused(OffsetMismatchError(len(self.kept), offset))
        event = self.breaks.pop(0) if self.breaks else None
        if isinstance(event, OdcError):
            return refused(event)
        if isinstance(event, Exception):
            raise event
        received = self._receive(request.stream, event)  # type: ignore[arg-type]
        whole = [end for end in self._ends() if end <= offset + len(received)]
        if self.keeps_begun:
            self.kept += received
        else:
            self.kept += received[: (whole[-1] if whole else 0) - offset] if whole else b""
        self.appends.append((offset, len(self.kept)))
        if event is not None:
            raise httpx.ReadError("[Errno 104] Connection reset by peer")
        return httpx.Response(200, content=b"receipt")

    def _ends(self) -> list[int]:
        return [self.layout.slot(index).stream_end for index in range(self.layout.chunk_count)]

    @staticmethod
    def _receive(stream: Iterator[bytes], limit: int | None) -> bytes:
        data = bytearray()
        for piece in stream:
            data += piece
            if limit is not None and len(data) > limit:
                return bytes(data[:limit])
        return bytes(data)


def refused(error: OdcError) -> httpx.Response:
    return problem(409, error.to_problem())


def send(analyst: Analyst, manifest: UplinkManifest, payload: Path, **options: Any) -> tuple[bytes, Pauses]:
    pauses = Pauses()
    connection = connect(analyst, Pauses())
    receipt = send_uplink(connection, "c0" * 16, b"signed", manifest, payload, pause=pauses, **options)
    return receipt, pauses


@pytest.fixture
def analyst(manifest: UplinkManifest) -> Analyst:
    return Analyst(manifest)


def whole_stream(manifest: UplinkManifest, payload: Path) -> bytes:
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    return b"".join(stream_from(payload, layout, 0, lambda _done, _all: None))


def test_an_uplink_goes_out_in_one_append(analyst: Analyst, manifest: UplinkManifest, payload: Path) -> None:
    receipt, pauses = send(analyst, manifest, payload)
    assert (receipt, pauses, len(analyst.appends)) == (b"receipt", [], 1)
    assert analyst.kept == whole_stream(manifest, payload)


def test_the_stream_is_each_chunk_behind_its_digest(manifest: UplinkManifest, payload: Path) -> None:
    data, stream, start = payload.read_bytes(), b"", 0
    for spec in manifest.arrays:
        end = start + spec.payload_bytes
        for place in range(start, end, MIN_CHUNK_BYTES):
            chunk = data[place : min(place + MIN_CHUNK_BYTES, end)]
            stream += hashlib.sha256(chunk).digest() + chunk
        start = end
    assert whole_stream(manifest, payload) == stream


def test_the_append_says_its_length_and_digest(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    send(analyst, manifest, payload)
    whole = hashlib.sha256(b"".join(spec.digest for spec in manifest.arrays)).digest()
    assert analyst.headers["content-length"] == str(analyst.layout.stream_bytes)
    assert analyst.headers["upload-complete"] == "?1"
    assert analyst.headers["odc-whole-digest"] == f"sha-256=:{base64.b64encode(whole).decode()}:"
    assert analyst.headers["repr-digest"] == analyst.headers["odc-whole-digest"]  # for older analysts
    assert analyst.headers["incremental"] == "?1"
    assert whole_digest(spec.digest for spec in manifest.arrays) == whole


@pytest.mark.parametrize("cut", [1, 32, 70_000, 200_000, 400_000])
def test_after_a_break_it_goes_on_at_the_last_whole_chunk(
    analyst: Analyst, manifest: UplinkManifest, payload: Path, cut: int
) -> None:
    analyst.breaks = [cut]
    assert send(analyst, manifest, payload)[0] == b"receipt"
    assert analyst.appends[1][0] == analyst.appends[0][1]
    assert analyst.kept == whole_stream(manifest, payload)


@pytest.mark.parametrize("cut", [1, 32, 33, 70_000, 200_000])
def test_after_a_break_it_goes_on_inside_a_chunk_where_the_analyst_keeps_that(
    analyst: Analyst, manifest: UplinkManifest, payload: Path, cut: int
) -> None:
    analyst.keeps_begun, analyst.breaks = True, [cut] * 2
    receipt, pauses = send(analyst, manifest, payload)
    assert (receipt, pauses) == (b"receipt", [])
    assert [offset for offset, _ in analyst.appends] == [0, cut, 2 * cut]
    assert analyst.kept == whole_stream(manifest, payload)


def test_what_had_begun_is_sent_again_if_its_chunk_is_refused(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.keeps_begun = True
    boundary = analyst.layout.stream_offset(1)
    analyst.kept = whole_stream(manifest, payload)[: boundary + 500]
    analyst.breaks = [DigestMismatchError("chunk 1 of rep")]

    def dropped() -> str:
        analyst.kept = analyst.kept[:boundary]
        return str(boundary)

    analyst.offset_header = dropped
    assert send(analyst, manifest, payload)[0] == b"receipt"
    assert analyst.appends == [(boundary, analyst.layout.stream_bytes)]


def test_many_breaks_with_progress_are_no_reason_to_give_up(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [70_000] * 5
    receipt, pauses = send(analyst, manifest, payload)
    assert (receipt, pauses) == (b"receipt", [])


def test_what_is_stored_while_we_wait_is_not_sent_again(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    """A second analyst answers while the first, whose line broke, still writes what has come."""
    analyst.keeps_begun, analyst.breaks = True, [40_000] * (MAX_BREAKS + 5)
    stored = 0

    def store(_pause_s: float) -> None:
        nonlocal stored
        stored = len(analyst.kept)

    def whole_chunks() -> str:
        reached = len(analyst.kept)
        return str(reached if stored == reached else reached - analyst.layout.place_of(reached)[1])

    analyst.offset_header = whole_chunks
    connection = connect(analyst, Pauses())
    assert send_uplink(connection, "c0" * 16, b"signed", manifest, payload, pause=store) == b"receipt"
    sent = sum(until - offset for offset, until in analyst.appends)
    assert sent < 1.5 * analyst.layout.stream_bytes


def test_bytes_that_come_and_go_are_no_progress(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    """A busy analyst has a part of a chunk each time we ask, and another has dropped it each time."""
    analyst.breaks = [StorageBusyError("the analyst's database is busy", retry_after_s=1)] * (3 * MAX_BREAKS)
    analyst.offset_header = partial(next, cycle(["100", "0"]))
    with pytest.raises(StorageBusyError):
        send(analyst, manifest, payload)
    assert len(analyst.breaks) == 3 * MAX_BREAKS - (MAX_BREAKS + 2)


def test_breaks_without_progress_are_waited_out_longer_and_longer(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [1] * 8
    receipt, pauses = send(analyst, manifest, payload)
    assert receipt == b"receipt"
    assert len(pauses) == 8
    assert pauses == sorted(pauses)


def test_a_line_that_stays_broken_is_given_up(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [1] * (2 * MAX_BREAKS)
    with pytest.raises(ConnectionFailedError):
        send(analyst, manifest, payload)
    assert len(analyst.appends) == MAX_BREAKS + 1


def test_an_analyst_that_is_busy_is_no_break(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    busy = TooManyRequestsError("more than 200 requests a second", retry_after_s=5)
    analyst.breaks = [70_000, *[busy] * (MAX_BREAKS + 5)]
    receipt, pauses = send(analyst, manifest, payload)
    assert (receipt, pauses) == (b"receipt", [])
    assert analyst.kept == whole_stream(manifest, payload)


def full(**asked: int) -> DiskFullError:
    return DiskFullError("the analyst's disk is full", **asked)


def test_a_full_disk_is_waited_for_as_long_as_the_analyst_asks(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [full(retry_after_s=10)] * (ATTEMPTS - 1)
    receipt, pauses = send(analyst, manifest, payload)
    assert receipt == b"receipt"
    assert len(pauses) == ATTEMPTS - 1
    assert all(10 <= pause_s <= 16 for pause_s in pauses)
    analyst.kept, analyst.breaks = b"", [full(retry_after_s=10)] * ATTEMPTS
    with pytest.raises(DiskFullError):
        send(analyst, manifest, payload)


def test_a_full_disk_that_waits_for_a_person_ends_the_upload(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [full(), full()]
    with pytest.raises(DiskFullError):
        send(analyst, manifest, payload)
    assert len(analyst.breaks) == 1


def test_an_upload_that_was_begun_goes_on_where_it_stood(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.kept = whole_stream(manifest, payload)[: analyst.layout.stream_offset(3)]
    send(analyst, manifest, payload)
    assert analyst.appends == [(analyst.layout.stream_offset(3), analyst.layout.stream_bytes)]


def test_an_upload_whose_receipt_was_lost_is_completed_with_nothing(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.kept = whole_stream(manifest, payload)
    assert send(analyst, manifest, payload)[0] == b"receipt"
    assert analyst.headers["content-length"] == "0"


def test_another_offset_than_ours_is_asked_for(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [OffsetMismatchError(7, 0)]
    assert send(analyst, manifest, payload)[0] == b"receipt"


def test_a_chunk_damaged_on_the_way_is_sent_again(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [DigestMismatchError("chunk 0 of rep")]
    assert send(analyst, manifest, payload)[0] == b"receipt"


def test_a_payload_that_is_not_what_was_signed_is_given_up(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [DigestMismatchError("rep")] * 5
    with pytest.raises(DigestMismatchError):
        send(analyst, manifest, payload)
    assert len(analyst.breaks) >= 3


def test_an_upload_that_was_put_back_to_nothing_is_given_up(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    """The analyst clears an upload whose arrays are not the signed ones."""
    analyst.kept = whole_stream(manifest, payload)
    analyst.breaks = [DigestMismatchError("rep")]
    analyst.offset_header = lambda: "0"
    with pytest.raises(DigestMismatchError):
        send(analyst, manifest, payload)


@pytest.mark.parametrize("error", [NotPermittedError("no"), UploadSupersededError("another")], ids=str)
def test_a_refusal_ends_the_upload(
    analyst: Analyst, manifest: UplinkManifest, payload: Path, error: OdcError
) -> None:
    analyst.breaks = [error]
    with pytest.raises(type(error)):
        send(analyst, manifest, payload)


def test_a_certificate_that_is_not_believed_ends_the_upload(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    analyst.breaks = [httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")]
    with pytest.raises(TlsFailedError):
        send(analyst, manifest, payload)


@pytest.mark.parametrize("found", [None, "", "x", "-1", "999999999"])
def test_an_offset_that_is_none_is_malformed(
    analyst: Analyst, manifest: UplinkManifest, payload: Path, found: str | None
) -> None:
    analyst.breaks = [1, 1]
    analyst.offset_header = lambda: found
    with pytest.raises(MalformedMessageError, match="upload offset"):
        send(analyst, manifest, payload)


@pytest.mark.parametrize(
    "opened",
    [
        httpx.Response(201, text="<html>"),
        httpx.Response(201, json=[]),
        httpx.Response(201, json={}),
        httpx.Response(201, json={"upload_id": "u1", "offset": "x"}),
        httpx.Response(201, json={"upload_id": "u1", "offset": None}),
    ],
)
def test_an_upload_that_opens_nowhere_is_malformed(
    manifest: UplinkManifest, payload: Path, opened: httpx.Response
) -> None:
    with pytest.raises(MalformedMessageError):
        send_uplink(connect(lambda _request: opened), "c0" * 16, b"signed", manifest, payload)


def test_the_progress_is_told_in_bytes_until_the_end(
    analyst: Analyst, manifest: UplinkManifest, payload: Path
) -> None:
    told: list[tuple[int, int]] = []
    send(analyst, manifest, payload, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (analyst.layout.stream_bytes, analyst.layout.stream_bytes)


def test_one_chunk_is_held_at_a_time(manifest: UplinkManifest, payload: Path) -> None:
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    assert max(map(len, stream_from(payload, layout, 0, lambda *_: None))) == MIN_CHUNK_BYTES
