"""The right message at the wrong time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odc_demo.actors import CommandError
from protocol.errors import (
    AlreadyExistsError,
    DifferentUplinkError,
    NotFoundError,
    OutOfOrderError,
    TermsMismatchError,
    TermsNotAcceptedError,
    UnsupportedVersionError,
)
from protocol.messages import UplinkManifest
from protocol.operations import BEGIN_UPLINK
from runtime.terminal import exit_code
from tests.harness import crafted
from tests.harness.consortium import Consortium, consortium, refused, rows
from user_client.errors import MissingColumnError, NotPreparedError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("order"), "lead-hospital", "hospital-b") as found:
        yield found


def test_the_command_will_not_prepare_before_the_terms_are_signed(made: Consortium, tmp_path: Path) -> None:
    found = made.publish()
    other = tmp_path / "not-of-the-terms.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(CommandError) as caught:
        made.institution("hospital-b").odc("contribute", "--yes", str(other), "-c", found)
    assert caught.value.exit_code == 6
    assert "odc: hint: run `odc terms accept` first" in caught.value.stderr
    assert made.state(found) == "enrolling"


def test_an_uplink_before_the_terms_are_signed_is_refused(made: Consortium) -> None:
    """Sent past our own client, which would not send it."""
    signed_elsewhere, unsigned = made.anchored(), made.publish()
    b = made.sessions["hospital-b"]
    b.round(signed_elsewhere).prepare(rows(1, 40))
    manifest = b.round(signed_elsewhere).directory.load(UplinkManifest)
    body = b.sign(manifest.model_copy(update={"collaboration_id": unsigned}))
    with refused(made, TermsNotAcceptedError, exit_code=6, says="hospital-b has not signed"):
        b.connection.ask(BEGIN_UPLINK, body, collaboration_id=unsigned)


def test_an_uplink_before_the_anchor_is_refused(made: Consortium) -> None:
    other, found = made.anchored(), made.publish()
    b = made.sessions["hospital-b"]
    b.round(found).accept()
    with refused(made, OutOfOrderError, exit_code=6, says="'fetch anchor' is not possible now"):
        b.round(found).prepare(rows(1, 40))
    b.round(other).prepare(rows(1, 40))
    manifest = b.round(other).directory.load(UplinkManifest)
    body = b.sign(manifest.model_copy(update={"collaboration_id": found}))
    with refused(made, OutOfOrderError, exit_code=6, says="'begin uplink' is not possible now"):
        b.connection.ask(BEGIN_UPLINK, body, collaboration_id=found)
    # and the round goes on as if nothing had been
    made.lead.round(found).accept()
    made.lead.round(found).create_anchor()
    made.contribute_all(found)
    made.receive_all(found)


def test_the_anchor_waits_for_every_signature(made: Consortium) -> None:
    found = made.publish()
    made.lead.round(found).accept()
    before = made.records()
    with pytest.raises(NotPreparedError, match="not yet accepted by hospital-b") as caught:
        made.lead.round(found).create_anchor()
    assert exit_code(caught.value) == 6
    assert "odc status" in caught.value.hint
    assert made.records() == before


def test_an_anchor_is_drawn_once_and_another_one_is_refused(made: Consortium) -> None:
    found = made.anchored()
    drawn = made.lead.home.collaboration(found) / "anchors.odc"
    before, first = made.records(), drawn.read_bytes()
    made.lead.round(found).create_anchor()
    assert (drawn.read_bytes(), made.records()) == (first, before)
    drawn.unlink()  # a lead that has lost its directory, and took it from an old copy
    with refused(made, AlreadyExistsError, exit_code=6):
        made.lead.round(found).create_anchor()
    made.contribute_all(found)
    made.receive_all(found)


def test_the_same_uplink_twice_gets_the_same_receipt(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.contribute("hospital-b", found, rows(1, 40))
    receipt = b.home.collaboration(found) / "receipt.odc"
    first, records = receipt.read_bytes(), made.records()
    receipt.unlink()  # as if the answer had been lost
    b.round(found).contribute()
    assert receipt.read_bytes() == first
    assert made.records() == records
    assert b.connection.request("GET", f"/v1/collaborations/{found}/receipt").content == first


def test_a_different_second_uplink_is_refused_and_the_first_stands(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.contribute_all(found)
    made.wait_for_judgement(found)
    terms = b.round(found).terms
    with refused(made, DifferentUplinkError, exit_code=6):
        crafted.send(b, terms, crafted.arrays(terms))
    with refused(made, DifferentUplinkError, exit_code=6):
        b.round(found).prepare(rows(77, 40))
    made.receive_all(found)


def test_preparing_another_table_draws_another_basis(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    first = b.round(found).prepare(rows(1, 40))
    basis = b.home.collaboration(found) / "basis.npy"
    first_basis = basis.read_bytes()
    second = b.round(found).prepare(rows(2, 50))
    assert (first.rows, second.rows) == (40, 50)
    assert basis.read_bytes() != first_basis


def test_another_table_after_a_lost_receipt_does_not_cost_the_basis(made: Consortium) -> None:
    """The analyst has the uplink; the institution died before it could keep the receipt."""
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.contribute_all(found)
    made.wait_for_judgement(found)
    (b.home.collaboration(found) / "receipt.odc").unlink()
    with refused(made, DifferentUplinkError, exit_code=6):
        made.contribute("hospital-b", found, rows(78, 40))
    made.receive_all(found)


def test_an_uplink_for_other_terms_or_another_anchor_is_refused(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    b.round(found).prepare(rows(1, 40))
    terms = b.round(found).terms
    changes: list[dict[str, Any]] = [{"terms_digest": bytes(32)}, {"anchor_commitment": bytes(32)}]
    for change in changes:
        with refused(made, TermsMismatchError, exit_code=6):
            crafted.send(b, terms, crafted.arrays(terms), **change)
    made.contribute("hospital-b", found, rows(1, 40))


def test_a_sealed_round_takes_not_one_byte_more(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.contribute("lead-hospital", found, rows(0, 40))
    b.round(found).prepare(rows(1, 40))
    _, signed = b.round(found).directory.load_signed(UplinkManifest)
    opened = b.connection.ask(BEGIN_UPLINK, signed, collaboration_id=found).json()
    made.analyst.run("collaboration", "seal", found)
    made.wait_for_judgement(found)
    headers = {"upload-offset": "0", "upload-complete": "?0"}
    with refused(made, OutOfOrderError, exit_code=6):
        b.connection.request_once(
            "PATCH", f"/v1/uploads/{opened['upload_id']}", content=b"x", headers=headers
        )
    with refused(made, OutOfOrderError, exit_code=6):
        b.round(found).contribute()
    made.lead.round(found).receive()
    assert len(made.lead.round(found).predict(rows(3, 5)).labels) == 5


def test_receiving_before_the_release_says_what_it_waits_for(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.contribute("hospital-b", found, rows(1, 40))
    with refused(made, OutOfOrderError, exit_code=6, says="collecting"):
        b.round(found).receive()
    assert b.round(found).status()["waiting_for"] == ["lead-hospital: odc contribute"]


def test_a_message_of_a_newer_wire_version_says_who_must_upgrade(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    path = f"/v1/collaborations/{found}/uplinks"
    before = made.records()
    for version, older in ((2, "the analyst"), (0, "the client")):
        headers = {"content-type": f"application/vnd.odc.v{version}+msgpack"}
        with pytest.raises(UnsupportedVersionError) as caught:
            b.connection.request("POST", path, content=b"", headers=headers)
        assert exit_code(caught.value) == 4
        assert caught.value.hint == f"upgrade {older}: it is the older side"
    assert made.records() == before


def test_a_table_is_not_read_for_a_round_that_is_cancelled(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    made.analyst.run("collaboration", "cancel", found, "--yes")
    with refused(made, OutOfOrderError, exit_code=6, says="cancelled"):
        made.contribute("hospital-b", found, rows(1, 40))
    assert b.round(found).status()["waiting_for"] == []


def test_a_round_that_is_cancelled_under_an_upload_says_so_and_keeps_nothing(made: Consortium) -> None:
    found, b = made.anchored(latent_dim=4), made.sessions["hospital-b"]
    arrays = made.analyst.data_dir / "blobs" / found
    b.round(found).prepare(rows(1, 400_000))
    told: list[int] = []

    def cancel_after_the_second_chunk(done: int, _all: int) -> None:
        told.append(done)
        if len(told) == 2:
            made.analyst.run("collaboration", "cancel", found, "--yes")

    with pytest.raises(NotFoundError, match="its collaboration has ended"):
        b.round(found).contribute(progress=cancel_after_the_second_chunk)
    assert len(told) > 2
    assert not arrays.exists()
    with refused(made, OutOfOrderError, exit_code=6, says="cancelled"):
        b.round(found).contribute()


def test_an_empty_table_is_no_reason_to_send_without_labels(made: Consortium) -> None:
    found, b = made.anchored(), made.sessions["hospital-b"]
    with refused(made, MissingColumnError, exit_code=3):
        b.round(found).prepare(pa.table({f"x{i}": pa.array([], pa.float64()) for i in range(4)}))
