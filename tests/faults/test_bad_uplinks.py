"""Uplinks that are signed and digested as they should, and hold what they must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from odc_demo.tables import write_csv
from protocol.errors import (
    DigestMismatchError,
    DtypeMismatchError,
    LabelOutOfRangeError,
    LimitExceededError,
    MalformedMessageError,
    NotFiniteError,
    ShapeMismatchError,
)
from protocol.messages import UplinkManifest
from protocol.operations import BEGIN_UPLINK
from protocol.row_bounds import RowTooLongError
from protocol.terms import Terms
from runtime.terminal import exit_code
from tests.harness import crafted
from tests.harness.consortium import Consortium, consortium, refused, rows
from user_client.errors import NotPreparedError
from user_client.sdk import Session
from user_client.transport.upload import send_uplink

MAX_UPLINK_BYTES = 3 * 2**20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    limit = {"ODC_ANALYST_MAX_UPLINK_BYTES": str(MAX_UPLINK_BYTES)}
    with consortium(tmp_path_factory.mktemp("bad"), "lead-hospital", "hospital-b", **limit) as found:
        yield found


@pytest.fixture(scope="module")
def running(made: Consortium) -> Iterator[str]:
    """A round that each of these tests tries to spoil; it ends well after them all."""
    found = made.anchored()
    made.sessions["hospital-b"].round(found).prepare(rows(5, 40))  # fetches the anchor
    yield found
    made.contribute_all(found)
    made.receive_all(found)


@pytest.fixture
def b(made: Consortium) -> Session:
    return made.sessions["hospital-b"]


@pytest.fixture
def terms(b: Session, running: str) -> Terms:
    return b.round(running).terms


@pytest.mark.parametrize(
    ("name", "shape"),
    [("rep", (6, 3)), ("anchor_rep", (4, 3)), ("anchor_rep", (5, 2)), ("anchor_rep", (0, 2))],
)
def test_wrong_shapes_are_refused_before_a_byte_is_sent(
    made: Consortium, b: Session, terms: Terms, name: str, shape: tuple[int, int]
) -> None:
    with refused(made, ShapeMismatchError, exit_code=4, says="expected"):
        crafted.send(b, terms, {**crafted.arrays(terms), name: np.zeros(shape)})


def test_another_number_type_than_the_terms_is_refused(made: Consortium, b: Session, terms: Terms) -> None:
    with refused(made, DtypeMismatchError, exit_code=4, says="expected f4, got f8"):
        crafted.send(b, terms, crafted.arrays(terms), dtype="f8")


@pytest.mark.parametrize("array", ["rep", "anchor_rep"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_refused_with_its_row(
    made: Consortium, b: Session, terms: Terms, running: str, array: str, value: float
) -> None:
    given = crafted.arrays(terms)
    given[array][3, 1] = value
    with pytest.raises(NotFiniteError, match=f"{array}: row 3 is not finite") as caught:
        crafted.send(b, terms, given)
    assert (exit_code(caught.value), caught.value.hint) == (4, NotFiniteError.hint)
    assert b.round(running).status()["state"] == "collecting"
    assert "hospital-b: odc contribute" in b.round(running).status()["waiting_for"]


@pytest.mark.parametrize("value", [1e4, 3e38])
def test_a_row_that_no_table_encodes_is_refused_with_its_row(
    made: Consortium, b: Session, terms: Terms, running: str, value: float
) -> None:
    given = crafted.arrays(terms)
    given["rep"][3, 1] = value
    with pytest.raises(RowTooLongError, match="rep of hospital-b: row 3") as caught:
        crafted.send(b, terms, given)
    assert (exit_code(caught.value), caught.value.hint) == (4, RowTooLongError.hint)
    assert "hospital-b: odc contribute" in b.round(running).status()["waiting_for"]


def test_a_label_that_numbers_no_class_is_refused_with_its_row(
    b: Session, terms: Terms, running: str
) -> None:
    given = crafted.arrays(terms)
    given["labels"][4] = 2
    with pytest.raises(LabelOutOfRangeError, match="row 4 is not one of 2 classes") as caught:
        crafted.send(b, terms, given)
    assert (exit_code(caught.value), caught.value.hint) == (4, LabelOutOfRangeError.hint)
    assert "hospital-b: odc contribute" in b.round(running).status()["waiting_for"]


def test_an_oversized_uplink_is_refused_before_a_byte_is_sent(
    made: Consortium, b: Session, terms: Terms
) -> None:
    count = MAX_UPLINK_BYTES // (4 * terms.latent_dim)
    with refused(made, LimitExceededError, exit_code=4, says=f"at most {MAX_UPLINK_BYTES}") as caught:
        crafted.send(b, terms, crafted.arrays(terms, count))
    assert caught.value.context["limit"] == MAX_UPLINK_BYTES


@pytest.mark.parametrize("damage", ["changed", "short", "long", "gone"])
def test_a_prepared_payload_that_was_damaged_is_not_sent_and_can_be_prepared_again(
    made: Consortium, b: Session, running: str, tmp_path: Path, damage: str
) -> None:
    table = tmp_path / "rows.csv"
    write_csv(rows(6, 40), table)
    b.round(running).prepare(table)
    payload = b.home.collaboration(running) / "uplink.payload"
    good = payload.read_bytes()
    bad = {"changed": good[:20] + bytes([good[20] ^ 1]) + good[21:], "short": good[:-10], "long": good + b"x"}
    payload.unlink()
    if damage in bad:
        payload.write_bytes(bad[damage])
    before = made.records()
    with pytest.raises(NotPreparedError) as caught:
        b.round(running).contribute()
    assert (exit_code(caught.value), caught.value.hint) == (6, "run `odc prepare TABLE` again")
    assert made.records() == before
    b.round(running).prepare(table)
    assert payload.stat().st_size == len(good)


def test_bytes_that_change_on_the_way_to_the_analyst_are_refused(b: Session, running: str) -> None:
    """The file changes after the last look at it."""
    b.round(running).prepare(rows(6, 40))
    manifest, signed = b.round(running).directory.load_signed(UplinkManifest)
    payload = b.home.collaboration(running) / "uplink.payload"
    good = payload.read_bytes()
    payload.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    with pytest.raises(DigestMismatchError) as caught:
        send_uplink(b.connection, running, signed, manifest, payload)
    assert (exit_code(caught.value), caught.value.hint) == (4, DigestMismatchError.hint)
    assert "hospital-b: odc contribute" in b.round(running).status()["waiting_for"]


@pytest.mark.parametrize("body", [b"", b"\x00", b"{}", b"\x80" * 100, b"\x93" * 5000])
def test_bytes_that_are_no_message_are_refused(
    made: Consortium, b: Session, running: str, body: bytes
) -> None:
    with refused(made, MalformedMessageError, exit_code=4):
        b.connection.ask(BEGIN_UPLINK, body, collaboration_id=running)


def test_a_message_over_the_limit_is_refused(made: Consortium, b: Session, running: str) -> None:
    with refused(made, LimitExceededError, exit_code=4):
        b.connection.ask(BEGIN_UPLINK, bytes(5 * 2**20), collaboration_id=running)


def test_other_bytes_than_promised_do_not_move_the_upload(made: Consortium, b: Session, running: str) -> None:
    b.round(running).prepare(rows(9, 40))
    _, signed = b.round(running).directory.load_signed(UplinkManifest)
    opened = b.connection.ask(BEGIN_UPLINK, signed, collaboration_id=running).json()
    headers = {"upload-offset": "0", "upload-complete": "?0"}
    with pytest.raises((LimitExceededError, DigestMismatchError)) as caught:
        b.connection.request_once(
            "PATCH", f"/v1/uploads/{opened['upload_id']}", content=bytes(10_000), headers=headers
        )
    assert exit_code(caught.value) == 4
    assert caught.value.hint
    assert b.connection.request("HEAD", f"/v1/uploads/{opened['upload_id']}").headers["upload-offset"] == "0"
