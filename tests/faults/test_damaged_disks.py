"""A disk changes what the analyst has signed for: no model is trained on it, and the round ends well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odc_demo.actors import CommandError
from odc_demo.tables import write_csv
from protocol.errors import RoundFailedError
from tests.harness.consortium import Consortium, consortium, refused, rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("damaged"), "lead-hospital", "hospital-b") as found:
        yield found


def uplink_of(made: Consortium, collaboration_id: str) -> Path:
    """Return the file of the only uplink that has come."""
    (found,) = (made.analyst.data_dir / "blobs" / collaboration_id / "uplinks").iterdir()
    return found


def spoil(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    match damage:
        case "an exponent":
            data[3] ^= 0x40
        case "a label":
            data[-1] ^= 0x02
        case _:
            del data[-100:]
    path.write_bytes(data)


@pytest.mark.parametrize("damage", ["an exponent", "a label", "its end"])
def test_an_uplink_that_the_disk_has_changed_is_sent_again_and_the_round_ends_well(
    made: Consortium, tmp_path: Path, damage: str
) -> None:
    found, table = made.anchored(), tmp_path / "rows.csv"
    write_csv(rows(1, 40), table)
    receipt = made.institution("hospital-b").odc("contribute", "--yes", str(table), "-c", found)
    spoil(uplink_of(made, found), damage)
    with pytest.raises(CommandError) as caught:
        made.analyst.run("verify")
    assert caught.value.exit_code == 3
    assert "odc-analyst: hint: a damaged uplink is asked for again" in caught.value.stderr
    before = len(made.log())
    made.contribute("lead-hospital", found, rows(0, 40))
    made.wait_for(found, "failed")
    with refused(made, RoundFailedError, exit_code=6, says="hospital-b must run `odc contribute` again"):
        made.lead.round(found).receive()
    assert made.lead.round(found).status()["waiting_for"] == ["hospital-b: odc contribute"]
    assert made.institution("hospital-b").odc("contribute", "--yes", str(table), "-c", found) == receipt
    made.receive_all(found)
    assert "0 damaged" in made.analyst.run("verify")
    assert "Traceback" not in made.log()[before:]
    for session in made.sessions.values():
        session.round(found).fetch_ledger()


def test_a_server_does_not_start_on_a_damaged_database(made: Consortium) -> None:
    made.analyst.stop()
    path = made.analyst.data_dir / "odc.sqlite"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    try:
        with pytest.raises(CommandError) as caught:
            made.analyst.run("serve")
        assert caught.value.exit_code == 3
        assert "SQLite finds it damaged" in caught.value.stderr
        assert "Traceback" not in caught.value.stderr
    finally:
        path.write_bytes(good)
        made.analyst.start()
