"""A consumer that comes after the release, when nobody but the analyst is there any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pytest
from cryptography.hazmat.primitives.hashes import SHA256

from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium, rows
from user_client.evidence_verifier import verify

NAMES = ("lead-hospital", "hospital-b", "late-hospital", "later-hospital")
LATE, LATER = NAMES[2:]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("late"), *NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def released(made: Consortium) -> dict[str, Any]:
    """A released round and what the lead predicts; then the homes of all whose rows trained it are gone."""
    found = made.anchored(latent_dim=4, late_consumers=[LATE, LATER])
    for seed, name in enumerate(NAMES[:2]):
        made.contribute(name, found, rows(seed, 80))
    made.wait_for(found, "released")
    made.lead.round(found).receive()
    predicted = made.lead.round(found).predict(rows(99, 60))
    for name in NAMES[:2]:
        made.sessions[name].close()
        shutil.rmtree(made.sessions[name].home.path)
    return {"id": found, "probabilities": predicted.probabilities}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The late consumer's own rows, without labels."""
    path = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(rows(7, 50).drop_columns(["label"]), path)
    return str(path)


def written(path: Path) -> pa.Table:
    return pyarrow.csv.read_csv(path)


def test_it_predicts_by_command_with_no_other_party_online(
    made: Consortium, released: dict[str, Any], table: str, tmp_path: Path
) -> None:
    late = made.institution(LATE)
    sent = late.odc("contribute", "--yes", table)
    assert sent["payload_bytes"] == 4 * 4 * 4
    late.odc("receive", "--wait", str(WAIT_S))
    fresh, out = tmp_path / "fresh.csv", tmp_path / "predictions.csv"
    pyarrow.csv.write_csv(rows(99, 60), fresh)
    late.odc("predict", str(fresh), "--out", str(out))
    own = np.stack([written(out)[f"probability_{name}"] for name in ("no", "yes")], axis=1)
    np.testing.assert_allclose(own, released["probabilities"], rtol=0, atol=1e-5)
    late.odc("ledger", "fetch")
    archive = tmp_path / "evidence.zip"
    late.odc("evidence", "--out", str(archive))
    root = made.sessions[LATE].home.root().certificate
    verified = verify(archive.read_bytes(), root.fingerprint(SHA256()).hex())
    assert not verified.doubts
    assert any("until 'released'" in fact for fact in verified.facts)
    (shown,) = late.odc("status")["collaborations"]
    assert {row["party"] for row in shown["members"] if row["late_consumer"]} == {LATE, LATER}
    report = made.analyst.run("collaboration", "report", released["id"])
    assert "late consumer" in report


def test_an_analyst_that_is_killed_before_it_has_aligned_it_goes_on_afterwards(
    made: Consortium, released: dict[str, Any], table: str
) -> None:
    later = made.institution(LATER)
    computing = psutil.Process(made.analyst.server.pid).children(recursive=True)  # type: ignore[union-attr]  # it runs
    for process in computing:
        process.suspend()
    later.odc("contribute", "--yes", table)
    made.analyst.kill()
    for process in computing:
        process.kill()
    records = made.records()
    assert [row["party"] for row in records["uplinks"] if row["party"] == LATER and row["receipt"]] == [LATER]
    assert not [row for row in records["downlinks"] if row["party"] == LATER]
    made.analyst.start()
    later.odc("receive", "--wait", str(WAIT_S))
    later.odc("ledger", "fetch")
    steps = [row["event"] for row in made.records()["ledger"] if row["party"] == LATER]
    assert steps.count("align consumer") == 1
    with pytest.raises(CommandError, match="already sent an uplink"):
        later.odc("prepare", table, "--permute-rows")
