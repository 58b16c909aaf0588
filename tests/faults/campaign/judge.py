"""What has to hold of a round that has ended: nothing lost or doubled, the model of the undisturbed one."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from analyst_server.blobs import StoredArray
from analyst_server.compute.sequence import compute_round
from analyst_server.installation import open_analyst
from analyst_server.services import rounds
from analyst_server.services.stored import stored_arrays
from analyst_server.settings import Settings
from protocol.codec import digest
from protocol.messages import Receipt, UplinkManifest
from protocol.states import Event
from tests.faults.campaign.play import Played
from tests.faults.campaign.points import label
from tests.faults.campaign.world import ANALYST, HOSPITAL, LEAD, World
from user_client.custody.round_directory import BASIS_FILE, CHANGE_FILE, MODEL_FILE, RoundDirectory
from user_client.sdk import Session
from user_client.sdk.anchor import open_anchor

_REPEATED: Final = (
    Event.RESUME,
    Event.FAIL,
    Event.BEGIN_ALIGNMENT,
    Event.BEGIN_TRAINING,
    Event.BEGIN_UPLINK,
)
"""Steps that may stand in the ledger more than once: each says that something is done again."""
PARTIES: Final = (LEAD, HOSPITAL)


@dataclass
class Verdict:
    """What was found against a round, in words."""

    lost: list[str]
    doubled: list[str]
    different: list[str]


def _entries(world: World) -> list[Any]:
    return world.ask('SELECT * FROM ledger WHERE collaboration_id = ? ORDER BY "index"', world.id)


def judge(world: World, played: Played, undisturbed: Counter[tuple[str, str]] | None) -> Verdict:
    """Judge a round whose commands have all ended well; the server is stopped, nothing is erased yet."""
    verdict = Verdict([], [], [])
    with TemporaryDirectory() as name:
        copy = Path(name) / ANALYST  # the computation writes beside the uplinks
        shutil.copytree(world.paths[ANALYST], copy)
        _judge_arrays(world, copy, verdict)
    _judge_records(world, verdict)
    steps = events(world)
    for step, times in (undisturbed or steps).items():
        if steps[step] < times:
            verdict.lost.append(f"the ledger has {step} {steps[step]} times instead of {times}")
    for step, times in steps.items():
        if step[0] not in _REPEATED and times > (undisturbed or steps)[step]:
            verdict.doubled.append(f"the ledger has {step} {times} times")
    _judge_ledgers(world, played, verdict)
    return verdict


def events(world: World) -> Counter[tuple[str, str]]:
    """Count what stands in the analyst's ledger, by step and party."""
    return Counter((str(row["event"]), str(row["party"] or "")) for row in _entries(world))


def _rows(world: World, table: str, party: str) -> list[Any]:
    question = f"SELECT * FROM {table} WHERE collaboration_id = ? AND party = ?"  # noqa: S608  # names of our own
    return world.ask(question, world.id, party)


def _judge_records(world: World, verdict: Verdict) -> None:
    for party in PARTIES:
        (member,) = _rows(world, "members", party)
        for column in ("acceptance", "sealed_anchor"):
            if member[column] is None:
                verdict.lost.append(f"{column} of {party}")
        directory = RoundDirectory(Session(world.paths[party]).home, world.id)
        uplinks = _rows(world, "uplinks", party)
        received = [row for row in uplinks if row["receipt"] is not None]
        if len(received) > 1:
            verdict.doubled.append(f"{len(received)} uplinks of {party} were received")
        receipt = directory.load(Receipt)
        if receipt.uplink_digest not in {row["manifest_digest"] for row in received}:
            verdict.lost.append(f"the uplink that {party} has a receipt for")
        if digest(directory.load(UplinkManifest)) != receipt.uplink_digest:
            verdict.different.append(f"{party} keeps another uplink than the one it has a receipt for")
        (downlink,) = _rows(world, "downlinks", party)
        if downlink["fetched_at"] is None:
            verdict.lost.append(f"that the downlink of {party} has arrived")


def _judge_arrays(world: World, data_dir: Path, verdict: Verdict) -> None:
    """Compute the round again from what was received, undisturbed, and compare every bit."""
    analyst = open_analyst(Settings(data_dir=data_dir))
    try:
        found = compute_round(rounds.spec_of(analyst, world.id), analyst.blobs)
        model = found.model.onnx_file.open(analyst.blobs).tobytes()
        changes = found.alignment.changes_of_basis.open(analyst.blobs)
        with analyst.records.begin() as unit:
            collaboration = unit.collaboration(world.id)
            assert collaboration is not None
            uplinks = rounds.in_order(unit, collaboration)
        for uplink, change in zip(uplinks, changes, strict=True):
            session = Session(world.paths[uplink.party])
            directory = RoundDirectory(session.home, world.id)
            if directory.read(MODEL_FILE) != model:
                verdict.different.append(f"the model of {uplink.party}")
            if directory.read(CHANGE_FILE) != change.astype("<f4").tobytes():
                verdict.different.append(f"G_i of {uplink.party}")
            stored: dict[str, StoredArray] = stored_arrays(uplink)
            basis = np.load(directory.path / BASIS_FILE)
            anchor, _ = open_anchor(session, directory)
            if not np.allclose(anchor @ basis, stored["anchor_rep"].open(analyst.blobs), atol=1e-4):
                verdict.different.append(f"the basis of {uplink.party} is not that of its uplink")
    finally:
        analyst.records.dispose()


def _judge_ledgers(world: World, played: Played, verdict: Verdict) -> None:
    stages = zip(PARTIES, ("ledger-lead", "ledger"), strict=True)
    copies = {party: played.answers[stage] for party, stage in stages}
    last = _entries(world)[-1]
    heads = {party: (copy["entries"], copy["head"]) for party, copy in copies.items()}
    own = (last["index"] + 1, bytes(last["digest"]).hex())
    for party, head in heads.items():
        if head != own:
            verdict.different.append(f"the ledger of {party}: {head}, the analyst's: {own}")


def files(world: World) -> Counter[str]:
    """Count the files on all machines by their names without ids."""
    found = (path for path in world.machines.rglob("*") if path.is_file())
    names = (label(str(path.relative_to(world.machines))) for path in found)
    return Counter(name for name in names if not name.endswith(("-shm", "-wal")))
