"""The one downlink: fetch and verify it, then predict here, on this machine.

It brings G_i and h; under NRI-DC neither, but h's predictions for our anchor rows, on which a model of
our own is trained.
"""

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
from protocol.operations import FETCH_DOWNLINK
from protocol.states import State
from protocol.terms import Terms
from runtime.files import write_whole
from runtime.terminal import day
from user_client.custody.home import exclusive
from user_client.custody.inventory import (
    CHANGE_FILE,
    DOWNLINK_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    OWN_MODEL_FILE,
)
from user_client.errors import NotPreparedError
from user_client.sdk.anchor import open_anchor
from user_client.sdk.forget import forget_if_demanded, was_forgotten
from user_client.sdk.session import Session
from user_client.sdk.terms import stored_terms
from user_client.sdk.uplink import stored_basis
from user_client.secret.own_model import OwnModel, train_own_model
from user_client.tables import encode_rows, table_from

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
    directory = session.home.collaboration(collaboration_id)
    if not (directory / DOWNLINK_FILE).exists():
        _check_basis(session, collaboration_id)
        _wait_for_release(session, collaboration_id, wait_s, pause)
        with exclusive(directory):
            if not (directory / DOWNLINK_FILE).exists():
                _fetch(session, collaboration_id)
    elif stored_terms(session, collaboration_id).returns_anchor_predictions:
        with exclusive(directory):  # where an earlier call was cut off
            forget_if_demanded(session, collaboration_id)
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
    with session.connection.stream(FETCH_DOWNLINK, collaboration_id=collaboration_id) as pieces:
        data, rest = _read_manifest(pieces)
        manifest = session.verify_from_analyst(DownlinkManifest, data).message
        _check(manifest, terms, uplink)  # before the memory for its arrays is taken
        arrays = _read_arrays(manifest, chain([rest], pieces))
    if terms.returns_anchor_predictions:
        _learn(session, manifest, arrays[0])
    else:
        write_whole(directory / CHANGE_FILE, arrays[0])
        write_whole(directory / MODEL_FILE, arrays[1])
    write_whole(directory / DOWNLINK_FILE, data)  # last: it says the rest is there
    forget_if_demanded(session, collaboration_id)


def _learn(session: Session, manifest: DownlinkManifest, data: bytes) -> None:
    """Train our own model on the anchor and h's predictions for it, and keep the model alone."""
    spec = manifest.anchor_predictions
    predictions = np.frombuffer(data, dtype="<f4").reshape(spec.shape)
    anchor, _ = open_anchor(session, manifest.collaboration_id)
    try:
        model = train_own_model(anchor, predictions)
    except ValueError as error:
        raise MalformedMessageError("anchor_predictions", str(error)) from None
    buffer = io.BytesIO()
    numbers = {
        f"{kind}_{i}": part
        for i, layer in enumerate(model.layers)
        for kind, part in zip("WB", layer, strict=True)
    }
    np.savez(buffer, held_out_agreement=model.held_out_agreement, **numbers)  # type: ignore[arg-type]
    directory = session.home.collaboration(manifest.collaboration_id)
    write_whole(directory / OWN_MODEL_FILE, buffer.getvalue())


def own_model(session: Session, collaboration_id: str) -> OwnModel:
    """Return our own model t_i; raises `NotPreparedError` before `receive`, or if the terms have none."""
    path = session.home.collaboration(collaboration_id) / OWN_MODEL_FILE
    if not path.exists():
        raise NotPreparedError("there is no model of our own for this collaboration")
    with np.load(path, allow_pickle=False) as kept:
        layers = [(kept[f"W_{i}"], kept[f"B_{i}"]) for i in range(len(kept.files) // 2)]
        return OwnModel(layers, float(kept["held_out_agreement"]))


def _check_basis(session: Session, collaboration_id: str) -> None:
    """Raise `NotPreparedError` if what would come is of no use, because the basis was forgotten."""
    statement = was_forgotten(session, collaboration_id)
    if statement is None or stored_terms(session, collaboration_id).returns_anchor_predictions:
        return
    at = day(statement.erased[0].erased_at)
    error = NotPreparedError(
        f"the secret basis was forgotten on {at}: without it change of basis and model predict nothing"
    )
    error.hint = "it cannot be brought back; take part in another collaboration"
    raise error


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
    if terms.returns_anchor_predictions:
        _check_anchor_predictions(manifest, terms)
        return
    if manifest.has_anchor_predictions:
        raise MalformedMessageError("DownlinkManifest", "brings anchor predictions the terms do not have")
    shape = (terms.latent_dim, terms.latent_dim)
    if manifest.change_of_basis.shape != shape:
        raise ShapeMismatchError("change of basis", shape, manifest.change_of_basis.shape)
    if manifest.model.payload_bytes > MAX_MODEL_BYTES:
        raise LimitExceededError("model in bytes", MAX_MODEL_BYTES, manifest.model.payload_bytes)


def _check_anchor_predictions(manifest: DownlinkManifest, terms: Terms) -> None:
    if not manifest.has_anchor_predictions:
        raise MalformedMessageError("DownlinkManifest", "the terms have anchor predictions come back, alone")
    shape = (terms.anchor.rows, len(terms.table_schema.label_column.classes))
    if manifest.anchor_predictions.shape != shape:
        raise ShapeMismatchError("anchor predictions", shape, manifest.anchor_predictions.shape)


def predict(session: Session, collaboration_id: str, data: Any) -> Predictions:
    """Return ``h(Y F_i G_i)`` for a table with the feature columns of the terms; no label is needed.

    Under NRI-DC it is ``t_i(Y)``, with the model of our own.

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
    if manifest.has_anchor_predictions:
        probabilities = own_model(session, collaboration_id).probabilities(rows).astype(np.float32)
    else:
        _check_basis(session, collaboration_id)
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
    basis = stored_basis(session, manifest.collaboration_id)
    if basis is None:
        raise NotPreparedError("the secret basis is not on this machine any more")
    spec = manifest.change_of_basis
    raw = (directory / CHANGE_FILE).read_bytes()
    change = np.frombuffer(raw, dtype=np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
    return np.asarray(basis @ change.astype(np.float64))
