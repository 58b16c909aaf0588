"""The one downlink: fetch and verify G_i and h, then predict here, on this machine."""

from __future__ import annotations

import io
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.arrays import ArrayDigest, Layout, StreamReader
from protocol.codec import digest
from protocol.errors import (
    DigestMismatchError,
    LimitExceededError,
    MalformedMessageError,
    NotPermittedError,
    ShapeMismatchError,
    TruncatedError,
)
from protocol.limits import MAX_MESSAGE_BYTES, MAX_MODEL_BYTES
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.states import State
from protocol.terms import Terms
from user_client.custody.files import write_whole
from user_client.errors import NotPreparedError
from user_client.sdk.session import Session
from user_client.sdk.terms import stored_terms
from user_client.sdk.uplink import BASIS_FILE, MANIFEST_FILE
from user_client.tables import encode_rows, table_from

DOWNLINK_FILE = "downlink.odc"
CHANGE_FILE = "change_of_basis.bin"
MODEL_FILE = "model.onnx"
_FIRST_PAUSE_S: Final = 0.5
_UNDER_WAY: Final = (State.ANCHORED, State.COLLECTING, State.SEALED, State.ALIGNING, State.TRAINING)
"""What a release may still follow without anybody being told something else first."""


@dataclass(frozen=True)
class Predictions:
    """Predicted classes and the probability of each class, row by row."""

    classes: tuple[str, ...]
    labels: list[str]
    probabilities: NDArray[np.float32]


def receive(
    session: Session,
    collaboration_id: str,
    *,
    wait_s: float = 0,
    pause: Callable[[float], None] = time.sleep,
) -> DownlinkManifest:
    """Fetch the downlink, verify it against what we sent, and keep it. Calling again shows it.

    Parameters
    ----------
    wait_s : float
        How long to wait for the release. The pauses grow with the time waited, so that an hour costs
        about twenty questions.

    Raises
    ------
    OutOfOrderError
        If the round is not released by then.
    RoundFailedError
        If it failed, with the analyst's reason.
    TrustError, ProtocolError
        If what came is not the analyst's answer to our uplink.
    """
    if not (session.home.collaboration(collaboration_id) / DOWNLINK_FILE).exists():
        _wait_for_release(session, collaboration_id, wait_s, pause)
        _fetch(session, collaboration_id)
    manifest, _ = session.stored(collaboration_id, DownlinkManifest, DOWNLINK_FILE, "odc receive")
    return manifest


def _wait_for_release(
    session: Session, collaboration_id: str, wait_s: float, pause: Callable[[float], None]
) -> None:
    waited = 0.0
    while waited < wait_s and session.status(collaboration_id).get("state") in _UNDER_WAY:
        pause_s = min(_FIRST_PAUSE_S + waited / 2, wait_s - waited)
        pause(pause_s)
        waited += pause_s


def _fetch(session: Session, collaboration_id: str) -> None:
    directory = session.home.collaboration(collaboration_id)
    terms = stored_terms(session, collaboration_id)
    uplink, _ = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc contribute TABLE")
    with session.connection.stream(f"/v1/collaborations/{collaboration_id}/downlink") as pieces:
        data, rest = _read_manifest(pieces)
        manifest = session.verify_from_analyst(DownlinkManifest, data).message
        _check(manifest, terms, uplink)  # before the memory for its arrays is taken
        arrays = _read_arrays(manifest, chain([rest], pieces))
    write_whole(directory / CHANGE_FILE, arrays[0])
    write_whole(directory / MODEL_FILE, arrays[1])
    write_whole(directory / DOWNLINK_FILE, data)  # last: it says the rest is there


def _read_manifest(pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the signed manifest, and what came behind it in the same pieces."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if len(buffer) >= 4:
            (length,) = struct.unpack_from("<I", buffer)
            if length > MAX_MESSAGE_BYTES:
                raise LimitExceededError("downlink manifest in bytes", MAX_MESSAGE_BYTES, length)
            if len(buffer) >= 4 + length:
                return bytes(buffer[4 : 4 + length]), bytes(buffer[4 + length :])
    raise TruncatedError("downlink manifest", 4, len(buffer))


def _read_arrays(manifest: DownlinkManifest, pieces: Iterable[bytes]) -> list[bytes]:
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    reader, digests = StreamReader(layout), [ArrayDigest() for _ in manifest.arrays]
    arrays = [bytearray() for _ in manifest.arrays]
    for piece in pieces:
        for chunk in reader.feed(piece):
            digests[chunk.slot.array].update(chunk.digest)
            arrays[chunk.slot.array] += chunk.data
    got = sum(map(len, arrays))
    if got != layout.payload_bytes:
        raise TruncatedError("downlink", layout.payload_bytes, got)
    for spec, running in zip(manifest.arrays, digests, strict=True):
        if running.digest() != spec.digest:
            raise DigestMismatchError(spec.name)
    return [bytes(array) for array in arrays]


def _check(manifest: DownlinkManifest, terms: Terms, uplink: UplinkManifest) -> None:
    """Raise unless the downlink answers our uplink under our terms."""
    expected = (terms.collaboration_id, digest(terms), uplink.party, digest(uplink))
    found = (manifest.collaboration_id, manifest.terms_digest, manifest.party, manifest.uplink_digest)
    if found != expected:
        raise NotPermittedError("the downlink answers another uplink than ours")
    shape = (terms.latent_dim, terms.latent_dim)
    if manifest.change_of_basis.shape != shape:
        raise ShapeMismatchError("change of basis", shape, manifest.change_of_basis.shape)
    if manifest.model.payload_bytes > MAX_MODEL_BYTES:
        raise LimitExceededError("model in bytes", MAX_MODEL_BYTES, manifest.model.payload_bytes)


def predict(session: Session, collaboration_id: str, data: Any) -> Predictions:
    """Return ``h(Y F_i G_i)`` for a table with the feature columns of the terms; no label is needed.

    Raises
    ------
    NotPreparedError
        Before `receive`.
    TableError
        Which column and row does not fit the terms.
    """
    terms = stored_terms(session, collaboration_id)
    manifest, _ = session.stored(collaboration_id, DownlinkManifest, DOWNLINK_FILE, "odc receive")
    directory = session.home.collaboration(collaboration_id)
    rows = encode_rows(table_from(data), terms.table_schema)
    classes = terms.table_schema.label_column.classes
    if len(rows) == 0:
        return Predictions(classes, [], np.empty((0, len(classes)), np.float32))
    aligned_rep = (rows @ _map_to_model(session, directory, manifest)).astype(np.float32)
    probabilities = _run_model((directory / MODEL_FILE).read_bytes(), aligned_rep)
    if probabilities.shape != (len(rows), len(classes)):
        raise ShapeMismatchError("probabilities", (len(rows), len(classes)), probabilities.shape)
    labels = [classes[index] for index in probabilities.argmax(axis=1)]
    return Predictions(classes, labels, probabilities)


def _run_model(onnx_file: bytes, aligned_rep: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probabilities of the classes.

    The file is the analyst's. It may name other files to take numbers from, which here would be our
    secrets, so it is run with an empty directory to look in.
    """
    import onnxruntime  # here, because no other command needs it

    options = onnxruntime.SessionOptions()
    try:
        with tempfile.TemporaryDirectory(prefix="odc-") as empty:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
            model = onnxruntime.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])
            (probabilities,) = model.run(["probabilities"], {model.get_inputs()[0].name: aligned_rep})
    except Exception as error:  # noqa: BLE001  # onnxruntime raises many classes, and quotes the file in them
        raise MalformedMessageError("model", f"cannot be run ({type(error).__name__})") from None
    return np.asarray(probabilities)


def _map_to_model(session: Session, directory: Path, manifest: DownlinkManifest) -> NDArray[np.float64]:
    """Return ``F_i G_i``, (m, l)."""
    if not (directory / BASIS_FILE).exists():
        raise NotPreparedError("the secret basis is not on this machine any more")
    basis = np.load(io.BytesIO(session.home.read_secret(directory / BASIS_FILE)), allow_pickle=False)
    spec = manifest.change_of_basis
    raw = (directory / CHANGE_FILE).read_bytes()
    change = np.frombuffer(raw, dtype=np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
    return np.asarray(basis @ change.astype(np.float64))
