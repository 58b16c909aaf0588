"""The analyst's disk is lost in the middle of a round, and the round goes on from a backup."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odc_demo.actors import CommandError
from tests.harness import configuration
from tests.harness.consortium import Consortium, consortium, rows

pytestmark = pytest.mark.skipif(configuration.MANY, reason="PostgreSQL and S3 have backups of their own")
NAMES = ("lead-hospital", "hospital-b", "hospital-c")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("backup"), *NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def backed_up(made: Consortium, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A round of which two of three uplinks are in, backed up by command while the server runs."""
    found = made.anchored()
    for seed, name in enumerate(NAMES[:2]):
        made.contribute(name, found, rows(seed, 60))
    directory = tmp_path_factory.mktemp("safe") / "monday"
    told = json.loads(made.analyst.run("backup", str(directory), "--json"))
    return {"id": found, "directory": directory, "told": told}


def test_a_backup_is_readable_by_its_owner_alone(backed_up: dict[str, Any]) -> None:
    directory: Path = backed_up["directory"]
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert backed_up["told"]["files"] == len(files) - 1  # all but the list itself
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_with_an_analyst_in_it_is_not_restored_to(
    made: Consortium, backed_up: dict[str, Any]
) -> None:
    with pytest.raises(CommandError, match="has an analyst in it"):
        made.analyst.run("restore", str(backed_up["directory"]))


def test_the_round_goes_on_from_its_backup(made: Consortium, backed_up: dict[str, Any]) -> None:
    for session in made.sessions.values():
        session.close()
    made.analyst.kill()
    records = made.records()
    log = made.analyst.log_path.read_bytes()
    shutil.rmtree(made.analyst.data_dir)
    made.analyst.run("restore", str(backed_up["directory"]))
    restored = made.records()
    assert {name: restored[name] for name in restored if name != "traffic"} == {
        name: records[name]
        for name in records
        if name != "traffic"  # what was counted since is lost
    }
    made.analyst.log_path.write_bytes(log)
    made.analyst.start()
    made.contribute(NAMES[2], backed_up["id"], rows(2, 60))
    made.receive_all(backed_up["id"])
    assert made.lead.round(backed_up["id"]).report()["state"] == "released"


def test_a_released_round_is_fetched_from_its_backup(
    made: Consortium, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    """After the test above; its model is the same, and it is judged."""
    found = backed_up["id"]
    made.wait_for_judgement(found)
    predicted = made.lead.round(found).predict(rows(99, 60)).probabilities
    made.analyst.run("backup", str(tmp_path / "tuesday"))
    made.analyst.kill()
    shutil.rmtree(made.analyst.data_dir)
    made.analyst.run("restore", str(tmp_path / "tuesday"))
    made.analyst.log_path.touch()
    made.analyst.start()
    session = made.sessions[NAMES[0]]
    (session.home.collaboration(found) / "downlink.odc").unlink()
    session.round(found).receive()
    assert (session.round(found).predict(rows(99, 60)).probabilities == predicted).all()
