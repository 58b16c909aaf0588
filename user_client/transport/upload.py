"""The resumable upload of one uplink: append, and after a break ask for the offset and continue there."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from protocol.arrays import Layout, frame, whole_digest
from protocol.busy import TooManyRequestsError
from protocol.errors import (
    DigestMismatchError,
    DiskFullError,
    MalformedMessageError,
    OdcError,
    OffsetMismatchError,
    StorageBusyError,
)
from protocol.messages import UplinkManifest
from protocol.operations import APPEND, BEGIN_UPLINK, UPLOAD_OFFSET
from protocol.version import UPLOAD_MEDIA_TYPE, WHOLE_DIGEST_FIELD
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport.connection import (
    ATTEMPTS,
    AnalystConnection,
    Answer,
    as_long_as_asked,
    waits_for_a_person,
)

log = logging.getLogger(__name__)

MAX_BREAKS: Final = 20
"""In a row without a byte of progress; with the pauses that is about a quarter of an hour offline."""
_LONGEST_PAUSE_S: Final = 30.0
Progress = Callable[[int, int], None]


def stream_from(payload: Path, layout: Layout, offset: int, progress: Progress) -> Iterator[bytes]:
    """Yield the stream of a payload file from an offset on, holding one chunk at a time."""
    chunks_done, skipped = layout.place_of(offset)
    with payload.open("rb") as file:
        for index in range(chunks_done, layout.chunk_count):
            slot = layout.slot(index)
            file.seek(slot.payload_offset)
            for piece in frame([file.read(slot.payload_bytes)]):
                if len(piece) > skipped:
                    yield piece[skipped:]
                skipped = max(skipped - len(piece), 0)
            progress(slot.stream_end, layout.stream_bytes)


def send_uplink(
    connection: AnalystConnection,
    collaboration_id: str,
    signed_manifest: bytes,
    manifest: UplinkManifest,
    payload: Path,
    *,
    progress: Progress = lambda _done, _all: None,
    pause: Callable[[float], None] = time.sleep,
) -> bytes:
    """Send an uplink and return the signed receipt, through as many connections as it takes.

    Parameters
    ----------
    payload : Path
        The arrays of the manifest one after another, without digests.
    progress : callable
        Called with the bytes done and the bytes in all.

    Raises
    ------
    ConnectionFailedError
        If the connection stays broken; calling again continues where it broke.
    ProtocolError, RoundError, TrustError
        As the analyst answers.
    """
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    opened = connection.ask(BEGIN_UPLINK, signed_manifest, collaboration_id=collaboration_id)
    upload_id, offset = _place(opened)
    breaks, furthest = 0, offset
    while True:
        try:
            return _append(connection, upload_id, layout, manifest, payload, offset, progress)
        except TlsFailedError:
            raise
        except TooManyRequestsError as error:
            connection.wait_turn(error)
            offset = _ask_offset(connection, upload_id)
        except (ConnectionFailedError, OffsetMismatchError, StorageBusyError, DiskFullError) as error:
            offset = _ask_offset(connection, upload_id)
            breaks = 0 if offset > furthest else breaks + 1
            furthest = max(furthest, offset)
            if waits_for_a_person(error) or breaks > _most_breaks(error):
                raise
            log.warning("%s; %d of %d bytes have arrived", error.detail, offset, layout.stream_bytes)
            pause_s = as_long_as_asked(error, min(2.0 ** (breaks - 1), _LONGEST_PAUSE_S) if breaks else 0.0)
            if pause_s:
                pause(pause_s)
                # what came before the break may have been on its way to the disk when we asked; another
                # analyst of several, told to go on without it, drops it
                offset = _ask_offset(connection, upload_id)
                breaks = 0 if offset > furthest else breaks
                furthest = max(furthest, offset)
        except DigestMismatchError:
            reached = _ask_offset(connection, upload_id)
            has_skipped = layout.place_of(offset)[1] > 0
            if breaks or (reached < offset and not has_skipped):  # the payload itself is not what was signed
                raise
            breaks, offset = 1, reached


def _most_breaks(error: OdcError) -> int:
    """Return how often in a row an upload may fail; space at the analyst is asked for as any request is."""
    return ATTEMPTS - 1 if isinstance(error, DiskFullError) else MAX_BREAKS


def _place(opened: Answer) -> tuple[str, int]:
    """Return the id of an upload that was opened, and the offset where it stands."""
    try:
        found = opened.json()
        return str(found["upload_id"]), int(found["offset"]) + int(found.get("begun", 0))
    except (ValueError, KeyError, TypeError):
        raise MalformedMessageError("upload", "was opened without an id and an offset") from None


def _append(
    connection: AnalystConnection,
    upload_id: str,
    layout: Layout,
    manifest: UplinkManifest,
    payload: Path,
    offset: int,
    progress: Progress,
) -> bytes:
    if not 0 <= offset <= layout.stream_bytes:
        raise MalformedMessageError("upload offset", "lies outside the stream")
    whole = base64.b64encode(whole_digest(spec.digest for spec in manifest.arrays)).decode()
    headers = {
        "content-type": UPLOAD_MEDIA_TYPE,
        "content-length": str(layout.stream_bytes - offset),
        "upload-offset": str(offset),
        "upload-complete": "?1",
        "incremental": "?1",  # whatever holds the body back until its end loses all of it with the line
        WHOLE_DIGEST_FIELD: f"sha-256=:{whole}:",
        "repr-digest": f"sha-256=:{whole}:",  # for analysts that do not know the field above
    }
    body = stream_from(payload, layout, offset, progress)
    answer = connection.request_once(
        APPEND.method, APPEND.url(upload_id=upload_id), content=body, headers=headers
    )
    return answer.content


def _ask_offset(connection: AnalystConnection, upload_id: str) -> int:
    """Return the byte to go on from, which may lie inside a chunk."""
    answer = connection.ask(UPLOAD_OFFSET, upload_id=upload_id)
    try:
        return int(answer.headers["upload-offset"]) + int(answer.headers.get("upload-begun", 0))
    except (KeyError, ValueError):
        raise MalformedMessageError("upload offset", "is missing in the answer") from None
