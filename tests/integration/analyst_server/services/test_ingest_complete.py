"""An upload is completed: by the arrays that were signed, once, and with a receipt."""

from __future__ import annotations

import pytest

from analyst_server.store import Uplink as UplinkRow
from protocol.envelope import verify
from protocol.errors import DifferentUplinkError, DigestMismatchError, OffsetMismatchError, TruncatedError
from protocol.messages import Receipt
from tests.harness.certificates import NOW
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, part_file, whole_file
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_uplink


def test_completing_too_early_says_what_is_missing_and_keeps_the_rest(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    with pytest.raises(TruncatedError):
        ready.complete(uplink, upload_id)
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == reached


def test_the_receipt_is_the_analysts_signature_under_the_uplink(ready: World) -> None:
    uplink = hospital(ready)
    verified = verify(Receipt, ready.send(uplink), ready.analyst.root, at=NOW)
    receipt = verified.message
    assert verified.author == identity("analyst")
    assert (receipt.party, receipt.received_at) == (HOSPITAL, NOW)
    assert receipt.payload_bytes == sum(array.nbytes for array in uplink.arrays)


def test_bytes_that_are_no_longer_where_they_were_written_are_not_signed_for(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    part_file(ready, upload_id).unlink()  # as if another disk had been mounted there since
    with pytest.raises(OffsetMismatchError) as caught:
        ready.complete(uplink, upload_id)
    assert caught.value.expected == 0
    assert not [row for row in rows_of(ready) if row.receipt]
    assert ready.send(uplink)
    assert whole_file(ready, upload_id).exists()


def test_completing_twice_gets_the_same_receipt(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    first = ready.complete(uplink, upload_id)
    ready.clock.forward(100)
    assert ready.complete(uplink, upload_id) == first


def test_the_whole_uplink_sent_again_gets_the_same_receipt_and_keeps_its_bytes(ready: World) -> None:
    uplink = hospital(ready)
    first = ready.send(uplink)
    assert ready.send(uplink) == first
    (row,) = (row for row in rows_of(ready) if row.receipt)
    assert whole_file(ready, row.id).exists()


def test_an_append_behind_a_complete_upload_takes_nothing(ready: World) -> None:
    uplink = hospital(ready)
    ready.send(uplink)
    upload_id = ready.begin(uplink).upload_id
    assert ready.ingest.append(identity(HOSPITAL), upload_id, len(uplink.stream)) is None


def test_an_append_into_a_complete_upload_is_told_its_end(ready: World) -> None:
    uplink = hospital(ready)
    ready.send(uplink)
    upload_id = ready.begin(uplink).upload_id
    with pytest.raises(OffsetMismatchError) as caught:
        ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert caught.value.expected == len(uplink.stream)


def rows_of(world: World) -> list[UplinkRow]:
    with world.records.begin() as unit:
        return list(unit.uplinks_of(world.id, HOSPITAL))


def test_arrays_that_are_not_the_signed_ones_start_again_from_nothing(ready: World) -> None:
    promised, sent = hospital(ready, seed=1), hospital(ready, seed=2)
    upload_id = ready.begin(promised).upload_id
    ready.append(promised, upload_id, data=sent.stream)
    with pytest.raises(DigestMismatchError, match="rep, anchor_rep"):
        ready.complete(promised, upload_id)
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == 0


def test_a_wrong_digest_of_the_whole_is_refused(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    with pytest.raises(DigestMismatchError, match="as a whole"):
        ready.ingest.complete(identity(HOSPITAL), upload_id, bytes(32))


def test_of_two_uploads_of_a_party_only_one_completes(ready: World) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    abandoned = ready.begin(first).upload_id
    ready.send(second)
    ready.append(first, abandoned)
    with pytest.raises(DifferentUplinkError):
        ready.complete(first, abandoned)


def test_the_digest_list_goes_with_the_receipt(ready: World) -> None:
    ready.send(hospital(ready))
    assert not list((ready.directory / "blobs").rglob("*.part"))


def test_the_last_uplink_seals_the_round(ready: World) -> None:
    ready.send(make_uplink(ready.terms, LEAD))
    assert ready.state == "collecting"
    ready.send(hospital(ready))
    assert ready.state == "sealed"


def test_a_party_without_rows_is_taken(ready: World) -> None:
    assert ready.send(hospital(ready, rows=0))
