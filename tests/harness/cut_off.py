"""A client that dies after its last byte, while the analyst has yet to complete the upload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyst_server.services.stored import stored_manifest
from protocol.arrays import Layout, whole_digest
from protocol.messages import UplinkManifest
from protocol.operations import APPEND, BEGIN_UPLINK
from protocol.version import UPLOAD_MEDIA_TYPE
from tests.harness.in_process import Consortium
from user_client.errors import ConnectionFailedError
from user_client.sdk import Round, Session
from user_client.transport import AnalystConnection
from user_client.transport.upload import stream_from


def contribute_and_die(ours: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every byte of what is prepared, and learn of no receipt."""
    with monkeypatch.context() as patch:
        patch.setattr("user_client.sdk.uplink.send_uplink", _send_and_die)
        with pytest.raises(ConnectionFailedError):
            ours.contribute()


def _send_and_die(
    connection: AnalystConnection,
    collaboration_id: str,
    signed: bytes,
    manifest: UplinkManifest,
    payload: Path,
    **_: Any,
) -> bytes:
    opened = connection.ask(BEGIN_UPLINK, signed, collaboration_id=collaboration_id).json()
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    headers = {"content-type": UPLOAD_MEDIA_TYPE, "upload-offset": "0", "upload-complete": "?0"}
    body = b"".join(stream_from(payload, layout, 0, lambda _done, _all: None))
    path = APPEND.url(upload_id=opened["upload_id"])
    connection.request_once(APPEND.method, path, content=body, headers=headers)
    raise ConnectionFailedError("the process was killed")


def complete_first_upload(consortium: Consortium, session: Session) -> None:
    """Let the analyst complete what an institution began first."""
    with consortium.analyst.records.begin() as unit:
        first = unit.uplinks_of(consortium.id, session.membership.party)[0]
    whole = whole_digest(spec.digest for spec in stored_manifest(first).arrays)
    consortium.app.state.ingest.complete(session.membership.identity, first.id, whole)
