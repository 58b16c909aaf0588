"""From a sealed round to the downlinks: which step comes next, and what is kept of it.

The numeric work runs elsewhere (`round_work`, in a compute process); this module decides and writes
the records. A round cut off anywhere starts again from what was sealed.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.services.analyst import Analyst, find, move, stored_terms
from analyst_server.services.ingest import blob_key, stored_manifest
from analyst_server.services.round_work import PartyArrays, RoundSpec, StoredArray
from analyst_server.store import Collaboration, Downlink, Unit, Uplink
from protocol.arrays import little_endian, specify
from protocol.envelope import decode_stored
from protocol.errors import OutOfOrderError, RoundFailedError
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import ArraySpec, DownlinkManifest, Dtype
from protocol.states import Event, State
from protocol.terms import Terms


def seal(analyst: Analyst, collaboration_id: str) -> None:
    """Seal a round by hand, without the parties that have sent nothing; they get no downlink."""
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if not unit.received_uplinks(collaboration_id):
            raise OutOfOrderError(collaboration.state, "seal, with no uplink complete")
        move(unit, collaboration, Event.SEAL, at=analyst.clock())
    analyst.has_sealed.set()


def resume(analyst: Analyst, collaboration_id: str) -> None:
    """Take a failed round up again from what was sealed.

    Raises `OutOfOrderError` for a round that a worker is busy with.
    """
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if (collaboration.lease_until or 0) >= analyst.clock():
            raise OutOfOrderError(collaboration.state, Event.RESUME)
        _reset(unit, collaboration, analyst.clock())


def claim(analyst: Analyst, owner: str, lease_s: int) -> str | None:
    """Take the oldest sealed round, or one whose worker is gone; return its id, now aligning."""
    now = analyst.clock()
    working = (State.ALIGNING, State.TRAINING)
    with analyst.records.begin() as unit:  # looking costs no write lock
        if not unit.in_states([State.SEALED, *working]):
            return None
    with analyst.records.begin(write=True) as unit:
        for collaboration in unit.in_states(working):
            is_held = collaboration.now_in is State.TRAINING and collaboration.results is not None
            if not is_held and (collaboration.lease_until or 0) < now:
                _reset(unit, collaboration, now)
        for collaboration in unit.in_states([State.SEALED]):
            move(unit, collaboration, Event.BEGIN_ALIGNMENT, at=now)
            collaboration.lease_owner, collaboration.lease_until = owner, now + lease_s
            return collaboration.id
    return None


def are_expected(analyst: Analyst) -> bool:
    """Whether a round is under way that will be computed here."""
    with analyst.records.begin() as unit:
        return bool(unit.in_states([State.ENROLLING, State.ANCHORED, State.COLLECTING]))


def renew(analyst: Analyst, collaboration_id: str, owner: str, lease_s: int) -> None:
    """Keep a claimed round; raises `RoundFailedError` if somebody else has taken it."""
    with analyst.records.begin(write=True) as unit:
        _owned(unit, collaboration_id, owner).lease_until = analyst.clock() + lease_s


def hand_back(analyst: Analyst, collaboration_id: str, owner: str) -> None:
    """Give a claimed round up, so that the next worker need not wait for the lease to end."""
    with analyst.records.begin(write=True) as unit:
        _reset(unit, _owned(unit, collaboration_id, owner), analyst.clock())


def spec_of(analyst: Analyst, collaboration_id: str) -> RoundSpec:
    """Return what the compute process needs.

    Each call names another working directory: a worker that has lost its lease may still be writing.
    """
    directory = analyst.blobs.path(f"{collaboration_id}/work-{uuid.uuid4().hex[:12]}")
    with analyst.records.begin() as unit:
        terms = stored_terms(find(unit, collaboration_id))
        uplinks = _in_order(unit, collaboration_id)
    parties = []
    for uplink in uplinks:
        path, offset, arrays = str(analyst.blobs.path(blob_key(uplink))), 0, []
        for spec in stored_manifest(uplink).arrays:
            arrays.append(StoredArray(path, offset, spec.dtype, spec.shape))
            offset += spec.payload_bytes
        parties.append(PartyArrays(uplink.party, *arrays))
    return RoundSpec(
        parties=tuple(parties),
        classes=len(terms.table_schema.label_column.classes),
        method=terms.alignment.method,
        target=terms.alignment.target,
        alignment_seed=terms.alignment.seed,
        anchor_is_isotropic=terms.anchor.kind == "haar",
        model=terms.model,
        changes_path=str(directory / "changes_of_basis.npy"),
        model_path=str(directory / "model.onnx"),
        anchor_predictions_path=(
            str(directory / "anchor_predictions.npy") if terms.returns_anchor_predictions else None
        ),
    )


def begin_training(analyst: Analyst, collaboration_id: str, owner: str) -> None:
    """Note that the alignment is done."""
    with analyst.records.begin(write=True) as unit:
        move(unit, _owned(unit, collaboration_id, owner), Event.BEGIN_TRAINING, at=analyst.clock())


def finish_training(
    analyst: Analyst,
    collaboration_id: str,
    owner: str,
    *,
    work: RoundSpec,
    diagnostics: dict[str, Any],
    results: dict[str, Any],
    hold: bool,
) -> None:
    """Write the downlinks and release them, or hold them for the operator's word.

    ``work`` is what `round_work` was given, ``diagnostics`` and ``results`` what it returned.
    """
    with analyst.records.begin() as unit:
        collaboration = _owned(unit, collaboration_id, owner)
        uplinks = _in_order(unit, collaboration_id)
    named = {
        key: dict(zip([uplink.party for uplink in uplinks], value, strict=True))
        if isinstance(value, tuple)
        else value
        for key, value in diagnostics.items()
    }
    # blobs before the records that name them, and outside their transaction: others write meanwhile
    downlinks = _write_downlinks(analyst, collaboration, uplinks, work, results["model_parameters"])
    with analyst.records.begin(write=True) as unit:
        collaboration = _owned(unit, collaboration_id, owner)
        for downlink in downlinks:
            unit.put_downlink(downlink)
        collaboration.results = {**results, "alignment": named}
        collaboration.lease_owner = collaboration.lease_until = None
        if not hold:
            _release(unit, collaboration, analyst.clock())
    shutil.rmtree(Path(work.changes_path).parent, ignore_errors=True)


def release(analyst: Analyst, collaboration_id: str) -> None:
    """Let the institutions fetch a round that was held."""
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if collaboration.now_in is State.TRAINING and collaboration.results is None:
            raise OutOfOrderError(collaboration.state, Event.RELEASE)
        _release(unit, collaboration, analyst.clock())


def _release(unit: Unit, collaboration: Collaboration, now: int) -> None:
    """Enter the model's digest into the ledger, so that members can tell they were sent the same one."""
    manifests = (decode_stored(DownlinkManifest, row.manifest) for row in unit.downlinks(collaboration.id))
    models = (spec.digest for manifest in manifests for spec in manifest.arrays if spec.name == "model")
    move(unit, collaboration, Event.RELEASE, at=now, subject=next(models, None))


def fail(analyst: Analyst, collaboration_id: str, owner: str, reason: str) -> None:
    """Keep the reason; the round can be resumed."""
    with analyst.records.begin(write=True) as unit:
        collaboration = _owned(unit, collaboration_id, owner)
        move(unit, collaboration, Event.FAIL, at=analyst.clock())
        collaboration.failure = reason
        collaboration.lease_owner = collaboration.lease_until = None


def result_key(collaboration_id: str, spec: ArraySpec) -> str:
    """Where an array of a downlink lies: by its digest, so that no later run can change what is signed."""
    return f"{collaboration_id}/results/{spec.digest.hex()}"


def _in_order(unit: Unit, collaboration_id: str) -> list[Uplink]:
    """Return the uplinks of a round in the order of its arrays: the party with most rows first.

    Alignment takes the first party's anchor representation as its target, and the basis of a party
    without rows is random.
    """
    return sorted(unit.received_uplinks(collaboration_id), key=lambda uplink: (-uplink.rows, uplink.party))


def _write_downlinks(
    analyst: Analyst,
    collaboration: Collaboration,
    uplinks: Sequence[Uplink],
    work: RoundSpec,
    model_parameters: int,
) -> list[Downlink]:
    """Write each party's arrays as blobs, and return the signed manifests as records."""
    downlinks = []
    for uplink, arrays in zip(uplinks, _result_arrays(analyst, collaboration, work), strict=True):
        manifest = DownlinkManifest(
            collaboration_id=collaboration.id,
            terms_digest=collaboration.terms_digest,
            party=uplink.party,
            uplink_digest=uplink.manifest_digest,
            arrays=arrays,
            model_parameters=model_parameters,
        )
        downlinks.append(
            Downlink(
                collaboration_id=collaboration.id,
                party=uplink.party,
                manifest=analyst.sign(manifest),
                fetched_at=None,
            )
        )
    return downlinks


def _result_arrays(
    analyst: Analyst, collaboration: Collaboration, work: RoundSpec
) -> Iterator[tuple[ArraySpec, ...]]:
    """Write what goes back to each party as blobs; yield their lines of its manifest.

    That is its predictions alone where the terms say so: then neither G_i nor the model leaves.
    """

    def put(name: str, array: NDArray[Any], dtype: Dtype) -> ArraySpec:
        on_wire = little_endian(array, dtype)
        spec = specify(name, on_wire, dtype, DEFAULT_CHUNK_BYTES)
        analyst.blobs.write(result_key(collaboration.id, spec), on_wire.tobytes())
        return spec

    if work.anchor_predictions_path is not None:
        for predictions in np.load(work.anchor_predictions_path, mmap_mode="r", allow_pickle=False):
            yield (put("anchor_predictions", predictions, "f4"),)
        return
    dtype = _change_dtype(stored_terms(collaboration))
    model = put("model", np.frombuffer(Path(work.model_path).read_bytes(), dtype=np.uint8), "u1")
    for change in np.load(work.changes_path, mmap_mode="r", allow_pickle=False):
        yield put("change_of_basis", change, dtype), model


def _change_dtype(terms: Terms) -> Dtype:
    """The precision of the uplink, but single at least: G_i is small and everything passes through it."""
    return "f8" if terms.rep_dtype == "f8" else "f4"


def _owned(unit: Unit, collaboration_id: str, owner: str) -> Collaboration:
    collaboration = find(unit, collaboration_id)
    if collaboration.lease_owner != owner:
        raise RoundFailedError("another worker has taken this round up")
    return collaboration


def _reset(unit: Unit, collaboration: Collaboration, now: int) -> None:
    move(unit, collaboration, Event.RESUME, at=now)
    collaboration.failure = collaboration.results = None
    collaboration.lease_owner = collaboration.lease_until = None
