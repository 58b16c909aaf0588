"""The one downlink: fetch it, verify it against what we sent, and store it.

It contains G_i and h; under sums h and, where the terms say so, the total. Under NRI-DC it contains neither
G_i nor h, but h's predictions for the anchor rows, and a model of our own is trained on them.
"""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import Final

import numpy as np

from protocol.alignment_terms import ORTHOGONAL_METHODS
from protocol.answers import Status
from protocol.arrays import ArrayDigest, Layout, StreamReader
from protocol.codec import digest
from protocol.errors import (
    DigestMismatchError,
    LedgerError,
    LimitExceededError,
    MalformedMessageError,
    NotFiniteError,
    NotPermittedError,
    OdcError,
    ProtocolError,
    ShapeMismatchError,
    TruncatedError,
)
from protocol.limits import MAX_MESSAGE_BYTES, MAX_MODEL_BYTES
from protocol.messages import DownlinkManifest, ForgettingStatement, UplinkManifest
from protocol.operations import FETCH_DOWNLINK
from protocol.states import Event, State
from protocol.sums import TOTAL, sent_numbers
from protocol.terms import Terms
from runtime.denormals import tiny_as_zero
from runtime.terminal import day
from user_client.custody.round_directory import (
    CHANGE_FILE,
    OWN_MODEL_FILE,
    REFUSED_DOWNLINK_FILE,
    TOTAL_FILE,
    UNTOLD_FILE,
    RoundDirectory,
)
from user_client.errors import NotPreparedError
from user_client.sdk.anchor import open_anchor
from user_client.sdk.consumer import is_being_aligned
from user_client.sdk.forgetting import forget_if_required
from user_client.sdk.ledger_check import follow_to_receive, tell_ledger
from user_client.sdk.model_form import check_model
from user_client.sdk.receipt import was_received
from user_client.sdk.session import Session
from user_client.sdk.terms import accepted_terms
from user_client.secret.own_model import OwnModel, train_own_model
from user_client.transport import Download

log = logging.getLogger(__name__)

UNDER_WAY: Final = (State.ANCHORED, State.COLLECTING, State.SEALED, State.ALIGNING, State.TRAINING)
"""States from which a release can follow without a person stepping in."""
ORTHOGONAL_WITHIN: Final = 2e-2
"""How far an entry of G^T G may be from the identity's: rounding to float16 makes less."""
MOST_COLUMNS: Final = 256


def receive(
    session: Session, directory: RoundDirectory, *, wait_s: float, pause: Callable[[float], None]
) -> DownlinkManifest:
    """Fetch the downlink, verify it against what we sent and the ledger, and store it."""
    if not directory.holds(DownlinkManifest):
        check_basis(directory)
        if wait_s > 0:
            _wait_for_release(session, directory.collaboration_id, wait_s, pause)
        with directory.exclusive():
            if not directory.holds(DownlinkManifest):
                was_received(
                    session, directory
                )  # what comes back may be for an uplink that was prepared before
                _fetch(session, directory)
    elif directory.holds(UNTOLD_FILE) or accepted_terms(directory).returns_anchor_predictions:
        with directory.exclusive():  # in case an earlier call was interrupted
            _acknowledge(session, directory)
            forget_if_required(session, directory)
    return directory.load(DownlinkManifest)


def _wait_for_release(
    session: Session, collaboration_id: str, wait_s: float, pause: Callable[[float], None]
) -> None:
    def is_released(status: Status) -> bool:
        return status.get("state") not in UNDER_WAY and not is_being_aligned(status)

    session.watch(collaboration_id).until(is_released, wait_s=wait_s, pause=pause)


def _fetch(session: Session, directory: RoundDirectory) -> None:
    terms = accepted_terms(directory)
    uplink = directory.load(UplinkManifest, step="odc contribute TABLE")
    download = Download(session.connection, FETCH_DOWNLINK, collaboration_id=terms.collaboration_id)
    with closing(iter(download)) as pieces:
        data, rest = _read_manifest(pieces)
        manifest = session.verify_from_analyst(DownlinkManifest, data, terms).message
        _check(manifest, terms, uplink)  # before memory is taken for its arrays
        arrays = _read_arrays(manifest, chain([rest], pieces))
    if manifest.has_change_of_basis:
        _check_change(manifest, terms, arrays[0])
    _check_ledger(session, directory, manifest, data)
    if terms.returns_anchor_predictions:
        _train_own_model(session, directory, manifest, arrays[0])
    else:
        by_name = {spec.name: array for spec, array in zip(manifest.arrays, arrays, strict=True)}
        check_model(by_name["model"], terms)
        if manifest.has_change_of_basis:
            directory.write(CHANGE_FILE, by_name["change_of_basis"])
        if manifest.has_total:
            directory.write_secret(TOTAL_FILE, by_name[TOTAL])
        directory.write_model(by_name["model"], may_have_rows=terms.is_row_revealing)
    if download.tag is not None:
        directory.write(UNTOLD_FILE, download.tag.encode())
    directory.write(DownlinkManifest, data)  # last: it says that the rest is here
    _acknowledge(session, directory)
    forget_if_required(session, directory)


def _check_ledger(
    session: Session, directory: RoundDirectory, manifest: DownlinkManifest, signed: bytes
) -> None:
    """Raise `LedgerError` unless the ledger is of this downlink, and of its model for all members.

    What the analyst has signed is then kept: with the ledger it proves that it told two things.
    """
    try:
        checked = follow_to_receive(session, directory, manifest)
    except LedgerError:
        directory.write(REFUSED_DOWNLINK_FILE, signed)
        raise
    left_out = {entry.party for entry in checked.entries if entry.event is Event.LEAVE_OUT}
    if manifest.party in left_out.difference(checked.trained_on or ()):
        log.warning(
            "the model was trained without our rows, because our anchor representation does not fit"
            " the others': what it predicts for us may be worthless; `odc status` says why"
        )


def _acknowledge(session: Session, directory: RoundDirectory) -> None:
    """Tell the analyst that the downlink is here, unless it knows; and the others which ledger we have seen.

    It is here all the same if that fails, and the next `receive` tries again.
    """
    if not directory.holds(UNTOLD_FILE):
        return
    tag = directory.read(UNTOLD_FILE).decode(errors="replace")
    try:
        tell_ledger(session, directory)
        Download(
            session.connection, FETCH_DOWNLINK, tag=tag, collaboration_id=directory.collaboration_id
        ).acknowledge()
    except OdcError as error:
        log.warning(
            "the analyst was not told that the downlink has arrived, and may ask: %s; `odc receive` tells it",
            error.detail,
        )
    else:
        directory.remove(UNTOLD_FILE)


def _train_own_model(
    session: Session, directory: RoundDirectory, manifest: DownlinkManifest, data: bytes
) -> None:
    """Train our own model on the anchor and h's predictions for it, and store only the model."""
    spec = manifest.anchor_predictions
    predictions = np.frombuffer(data, dtype="<f4").reshape(spec.shape)
    anchor, _ = open_anchor(session, directory)
    try:
        with tiny_as_zero():
            model = train_own_model(anchor, predictions)
    except ValueError as error:
        raise MalformedMessageError("anchor_predictions", str(error)) from None
    buffer = io.BytesIO()
    numbers = {
        f"{kind}_{i}": part
        for i, layer in enumerate(model.layers)
        for kind, part in zip("WB", layer, strict=True)
    }
    np.savez(buffer, held_out_agreement=model.held_out_agreement, **numbers)  # type: ignore[arg-type]  # a name may be `allow_pickle`
    directory.write(OWN_MODEL_FILE, buffer.getvalue())


def own_model(directory: RoundDirectory) -> OwnModel:
    """Return our own model t_i; raises `NotPreparedError` before `receive`, or if the terms have none."""
    if not directory.holds(OWN_MODEL_FILE):
        raise NotPreparedError("there is no model of our own for this collaboration")
    with np.load(directory.path / OWN_MODEL_FILE, allow_pickle=False) as kept:
        layers = [(kept[f"W_{i}"], kept[f"B_{i}"]) for i in range(len(kept.files) // 2)]
        return OwnModel(layers, float(kept["held_out_agreement"]))


def check_basis(directory: RoundDirectory) -> None:
    """Raise `NotPreparedError` if the downlink would be useless because the basis was erased."""
    statement = directory.find(ForgettingStatement)
    if statement is None or accepted_terms(directory).returns_anchor_predictions:
        return
    at = day(statement.erased[0].erased_at)
    error = NotPreparedError(
        f"the secret basis was forgotten on {at}: without it the change of basis and the model are useless"
    )
    error.hint = "the basis cannot be recovered; take part in another collaboration"
    raise error


def _read_manifest(pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the signed manifest, and the bytes that followed it in the same pieces."""
    buffer, length = bytearray(), 0
    for piece in pieces:
        buffer += piece
        if len(buffer) >= 4:
            (length,) = struct.unpack_from("<I", buffer)
            if length > MAX_MESSAGE_BYTES:
                raise LimitExceededError("downlink manifest in bytes", MAX_MESSAGE_BYTES, length)
            if len(buffer) >= 4 + length:
                return bytes(buffer[4 : 4 + length]), bytes(buffer[4 + length :])
    raise TruncatedError("downlink manifest", 4 + length, len(buffer))


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
        raise MalformedMessageError(
            "DownlinkManifest", "contains anchor predictions, which the terms do not have"
        )
    if manifest.has_change_of_basis != (terms.sums is None):
        raise MalformedMessageError("DownlinkManifest", "a change of basis goes with rows, not with sums")
    if manifest.has_change_of_basis:
        shape = (uplink.rep.shape[1], terms.latent_dim)
        if manifest.change_of_basis.shape != shape:
            raise ShapeMismatchError("change of basis", shape, manifest.change_of_basis.shape)
    _check_models(manifest, terms)
    _check_total(manifest, terms)
    if manifest.model.payload_bytes > MAX_MODEL_BYTES:
        raise LimitExceededError("model in bytes", MAX_MODEL_BYTES, manifest.model.payload_bytes)


def _check_models(manifest: DownlinkManifest, terms: Terms) -> None:
    if bool(manifest.models) != (terms.model_groups is not None):
        raise MalformedMessageError("DownlinkManifest", "models go with terms that have model_groups")
    if terms.model_groups is not None:
        most = terms.model_groups.most_models(len(terms.parties))
        if len(manifest.models) > most:
            raise LimitExceededError("models of a round", most, len(manifest.models))


def _check_change(manifest: DownlinkManifest, terms: Terms, data: bytes) -> None:
    """Raise unless G_i is finite, and orthogonal where the method of the terms has no other.

    Of a large one some columns are looked at, drawn so that nobody can foresee which.
    """
    spec = manifest.change_of_basis
    change = np.frombuffer(data, dtype=f"<{spec.dtype}").reshape(spec.shape)
    error: ProtocolError | None = None
    if not np.isfinite(change).all():
        error = NotFiniteError(spec.name, int(np.argmin(np.isfinite(change).all(axis=1))))
    elif terms.alignment.method in ORTHOGONAL_METHODS:
        exact = change.astype(np.float32 if spec.dtype == "f2" else change.dtype)
        if exact.shape[0] < exact.shape[1]:  # a block of the rows of an orthogonal matrix
            exact = exact.T
        columns = np.random.default_rng().permutation(exact.shape[1])[:MOST_COLUMNS]
        off = float(np.abs(exact.T @ exact[:, columns] - np.eye(exact.shape[1])[:, columns]).max())
        if not off <= ORTHOGONAL_WITHIN:
            found = f"is not orthogonal: an entry of G^T G is {off:.3g} away from the identity's"
            error = MalformedMessageError(spec.name, found)
    if error is not None:
        error.hint = "tell the analyst's operator and the lead institution: this downlink cannot be used"
        raise error


def _check_total(manifest: DownlinkManifest, terms: Terms) -> None:
    if manifest.has_total != (terms.sums is not None and terms.sums.cohort):
        raise MalformedMessageError("DownlinkManifest", "a total goes with terms that give it to each")
    shape = (sent_numbers(terms),)
    if manifest.has_total and manifest.total.shape != shape:
        raise ShapeMismatchError(TOTAL, shape, manifest.total.shape)


def _check_anchor_predictions(manifest: DownlinkManifest, terms: Terms) -> None:
    if not manifest.has_anchor_predictions:
        raise MalformedMessageError("DownlinkManifest", "must contain anchor predictions and nothing else")
    shape = (terms.anchor.rows, terms.table_schema.label_column.outputs)
    if manifest.anchor_predictions.shape != shape:
        raise ShapeMismatchError("anchor predictions", shape, manifest.anchor_predictions.shape)
