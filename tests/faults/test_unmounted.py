"""The directory of the arrays is not mounted: nothing is taken that would be lost, and the log says why."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from ssl import create_default_context
from typing import Any

import httpx
import pytest

from odc_demo.actors import CommandError
from protocol.errors import StorageError
from tests.harness.consortium import WAIT_S, Consortium, consortium, rows


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mounts") / "arrays"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Consortium]:
    with consortium(
        tmp_path_factory.mktemp("unmounted"),
        "lead-hospital",
        "hospital-b",
        ODC_ANALYST_BLOB_URL=shared.as_uri(),
    ) as found:
        yield found


def ready(made: Consortium) -> dict[str, Any]:
    context = create_default_context(cafile=made.analyst.data_dir / "identity" / "root.pem")
    found: dict[str, Any] = httpx.get(f"{made.analyst.url}/readyz", verify=context).json()
    return found


def wait_until_arrays_are(made: Consortium, word: str) -> dict[str, Any]:
    ends = time.monotonic() + WAIT_S
    while (found := ready(made))["arrays"] != word:
        assert time.monotonic() < ends
        time.sleep(0.2)
    return found


def test_a_server_does_not_start_without_its_arrays(made: Consortium, shared: Path) -> None:
    made.analyst.stop()
    away = shared.rename(shared.with_name("away"))
    for is_there in (False, True):
        if is_there:
            shared.mkdir()
        with pytest.raises(CommandError) as caught:
            made.analyst.run("serve", "--port", "0")
        assert caught.value.exit_code == 8
        assert f"error: the arrays of these records are not in {shared}: it has no id" in caught.value.stderr
        assert "hint: is it mounted?" in caught.value.stderr
        assert "Traceback" not in caught.value.stderr
        assert list(shared.glob("*")) == []
    shared.rmdir()
    away.rename(shared)
    made.analyst.start()
    assert ready(made)["arrays"] == "ok"


def test_a_mount_that_goes_away_loses_nothing_that_was_signed_for(made: Consortium, shared: Path) -> None:
    found = made.anchored()
    made.contribute("lead-hospital", found, rows(0, 40))
    away = shared.rename(shared.with_name("away"))
    told = wait_until_arrays_are(made, "failing")
    assert told["status"] == "failing"
    assert told["compute"] == "ok"
    with pytest.raises(StorageError, match="are not where its records have them"):
        made.contribute("hospital-b", found, rows(1, 40))
    assert not [path for path in shared.rglob("*") if path.is_file()], "nothing lies under the mount"
    for left in sorted(shared.rglob("*"), reverse=True):
        left.rmdir()
    shared.rmdir()
    away.rename(shared)
    wait_until_arrays_are(made, "ok")
    made.contribute("hospital-b", found, rows(1, 40))
    made.receive_all(found)
    assert "Traceback" not in made.log()
    assert f"{shared} has the id None" in made.log()


def test_arrays_that_are_lost_are_given_up_by_a_person(made: Consortium, shared: Path) -> None:
    made.wait_for_all_judgements()
    made.analyst.stop()
    lost = shared.rename(shared.with_name("lost"))
    with pytest.raises(CommandError) as caught:
        made.analyst.run("accept-arrays")
    assert "every uplink that is not in it would count as damaged" in caught.value.stderr
    told = json.loads(made.analyst.run("accept-arrays", "--yes", "--json"))
    assert told["place"] == str(shared)
    assert (shared / "store-id").read_text() == (lost / "store-id").read_text() == told["store_id"]
    with pytest.raises(CommandError) as caught:
        made.analyst.run("verify")
    assert "arrays are damaged" in caught.value.stderr
    assert '"accept arrays"' in made.analyst.run("audit", "--json")
    made.analyst.start()
