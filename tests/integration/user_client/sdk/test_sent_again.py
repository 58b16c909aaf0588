"""The analyst's copy of an uplink is damaged: the institution sends the same bytes again, if it has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services.stored import blob_key
from protocol.errors import RoundFailedError
from tests.harness.in_process import Consortium, rows
from tests.harness.nri import NRI
from tests.harness.sums import SUMS, ThreeOfThem
from user_client.custody.round_directory import PAYLOAD_FILE, RECEIPT_FILE
from user_client.errors import NotPreparedError
from user_client.sdk import uplink


def key_of(consortium: Consortium) -> str:
    """Return the key of the hospital's uplink at the analyst."""
    with consortium.analyst.records.begin() as unit:
        return blob_key(unit.uplinks_of(consortium.id, consortium.hospital.membership.party)[0])


def damaged(consortium: Consortium) -> Consortium:
    """Flip a bit of the hospital's uplink, and let the analyst find it."""
    blobs, key = consortium.analyst.blobs, key_of(consortium)
    data = bytearray(blobs.read(key))
    data[3] ^= 0x40
    blobs.write(key, data)
    with pytest.raises(RoundFailedError, match="uplink of hospital-a"):
        consortium.compute()
    return consortium


def test_contributing_again_sends_the_same_bytes_and_the_round_goes_on(consortium: Consortium) -> None:
    damaged(consortium.until_contributed())
    ours = consortium.hospital_round
    assert ours.status()["waiting_for"] == ["hospital-a: odc contribute"]
    with pytest.raises(RoundFailedError, match="hospital-a must run `odc contribute` again"):
        ours.receive()
    receipt = (consortium.directory_of(consortium.hospital) / RECEIPT_FILE).read_bytes()
    progress: list[int] = []
    ours.contribute(progress=lambda done, _all: progress.append(done))
    assert progress
    assert (consortium.directory_of(consortium.hospital) / RECEIPT_FILE).read_bytes() == receipt
    consortium.compute()
    ours.receive()
    assert np.mean(np.array(ours.predict(pa.table(rows(9))).labels) == rows(9)["y"]) > 0.9


def test_the_command_with_the_same_table_does_it_too(consortium: Consortium) -> None:
    damaged(consortium.until_contributed())
    consortium.hospital_round.prepare(consortium.directory / "rows-1.csv")
    consortium.hospital_round.contribute()
    assert consortium.hospital_round.status()["state"] == "sealed"


def test_nothing_is_sent_again_that_nobody_asks_for(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(consortium.until_contributed())
    monkeypatch.setattr(uplink, "send_uplink", lambda *_, **__: pytest.fail("sends it again"))
    assert consortium.lead_round.contribute().party == "lead-hospital"


@pytest.mark.parametrize("lost", ["changed", "gone"])
def test_other_bytes_than_the_signed_ones_are_not_sent_again(consortium: Consortium, lost: str) -> None:
    damaged(consortium.until_contributed())
    path = consortium.directory_of(consortium.hospital) / PAYLOAD_FILE
    if lost == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(NotPreparedError, match="is not on this machine any more") as caught:
        consortium.hospital_round.contribute()
    assert "backup" in caught.value.hint


def test_what_was_forgotten_is_not_sent_again(consortium: Consortium) -> None:
    damaged(consortium.until_contributed(**NRI))
    with pytest.raises(NotPreparedError, match="is not on this machine any more"):
        consortium.hospital_round.contribute()


@pytest.fixture
def summing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreeOfThem]:
    found = ThreeOfThem(tmp_path, monkeypatch)
    yield found
    found.close()


def test_sums_are_sent_again_as_they_were_masked(summing: ThreeOfThem) -> None:
    damaged(summing.until_contributed(**SUMS))
    summing.hospital_round.contribute()
    sent = summing.directory_of(summing.hospital) / PAYLOAD_FILE
    assert summing.analyst.blobs.read(key_of(summing)) == sent.read_bytes()
    summing.compute()
    assert summing.hospital_round.status()["state"] == "released"
