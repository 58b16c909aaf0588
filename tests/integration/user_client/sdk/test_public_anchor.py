"""A public anchor: a table of the lead's, sealed once, relayed unread, the same for every member."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import anchor_matrix, end
from analyst_server.services.anchor_matrix import matrix_key
from metering.counts import Counts, Flow
from metering.explanation import anchor_transfer
from protocol.anchor_matrix import matrix_commitment, open_matrix, seal_matrix, sealed_matrix_bytes
from protocol.codec import pack_list
from protocol.envelope import anchor_info, seal
from protocol.errors import (
    AlreadyExistsError,
    InputError,
    LimitExceededError,
    MalformedMessageError,
    NotPermittedError,
    OutOfOrderError,
    SealBrokenError,
    TruncatedError,
)
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import Acceptance, SealedAnchor
from protocol.operations import FETCH_ANCHOR_MATRIX, PUBLISH_ANCHOR, Operation
from protocol.version import STREAM_MEDIA_TYPE
from tests.harness import AS_MESSAGE
from tests.harness.in_process import LEAD, Consortium, rows
from tests.harness.world import identity
from user_client.custody.round_directory import ANCHOR_FILE, MATRIX_FILE
from user_client.errors import ConnectionFailedError
from user_client.sdk import plain_words
from user_client.sdk.anchor import open_anchor
from user_client.tables import encode_rows, table_from
from user_client.transport import Answer, LongAnswer

ANCHOR_ROWS = 30
PUBLIC: dict[str, Any] = {"anchor": {"kind": "public", "rows": ANCHOR_ROWS}, "latent_dim": 2}
SEED = bytes(range(32))


def published(consortium: Consortium, **changed: Any) -> Consortium:
    consortium.until_accepted(**{**PUBLIC, **changed})
    consortium.lead_round.create_anchor(consortium.table(50))
    return consortium


def path(consortium: Consortium) -> str:
    return f"/v1/collaborations/{consortium.id}/matrix"


def put(consortium: Consortium, data: bytes, by: str = LEAD) -> None:
    session = consortium.lead if by == LEAD else consortium.hospital
    session.connection.request(
        "PUT", path(consortium), content=data, headers={"content-type": STREAM_MEDIA_TYPE}
    )


def sealed_for(consortium: Consortium, sealed: bytes, **changed: Any) -> list[bytes]:
    """Anchors as a lead would sign them for a matrix of its own making."""
    found = []
    for session in consortium.sessions:
        acceptance = session.round(consortium.id).directory.load(Acceptance)
        info = anchor_info(consortium.id, acceptance.terms_digest, acceptance.party)
        fields: dict[str, Any] = {
            "collaboration_id": consortium.id,
            "terms_digest": acceptance.terms_digest,
            "recipient": acceptance.party,
            "form": "matrix",
            "commitment": matrix_commitment(SEED, sealed),
            "sealing_suite": acceptance.sealing_suite,
            "ciphertext": seal(SEED, acceptance.sealing_suite, acceptance.sealing_key, info),
        }
        found.append(consortium.lead.sign(SealedAnchor(**{**fields, **changed})))
    return found


def put_anchors(consortium: Consortium, anchors: list[bytes]) -> None:
    address = f"/v1/collaborations/{consortium.id}/anchors"
    consortium.lead.connection.request("PUT", address, content=pack_list(anchors), headers=AS_MESSAGE)


def entries(count: int = ANCHOR_ROWS * 3) -> bytes:
    return np.arange(count, dtype="<f4").tobytes()


# the anchor


@pytest.mark.parametrize("chosen", [{}, {"sealing_suite": "p256"}], ids=["usual", "p256"])
def test_every_member_gets_the_same_rows_of_the_table(consortium: Consortium, chosen: dict[str, Any]) -> None:
    published(consortium, **chosen)
    (mine, promised), (theirs, also_promised) = (
        open_anchor(session, session.round(consortium.id).directory) for session in consortium.sessions
    )
    np.testing.assert_array_equal(mine, theirs)
    assert promised == also_promised
    terms = consortium.lead_round.terms
    encoded = encode_rows(table_from(consortium.directory / "rows-50.csv"), terms.table_schema)
    table = {tuple(row) for row in encoded.astype("<f4").astype(float)}
    assert mine.shape == (ANCHOR_ROWS, 3)
    assert len({tuple(row) for row in mine}) == ANCHOR_ROWS
    assert {tuple(row) for row in mine} <= table


def test_which_rows_and_their_order_is_drawn_anew(consortium: Consortium) -> None:
    published(consortium)
    one, _ = open_anchor(consortium.lead, consortium.lead_round.directory)
    consortium.publish(**PUBLIC)
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    consortium.lead_round.create_anchor(consortium.directory / "rows-50.csv")
    other, _ = open_anchor(consortium.lead, consortium.lead_round.directory)
    assert not np.array_equal(one, other)


def test_the_anchor_is_opened_again_without_asking(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(consortium)
    first, _ = open_anchor(consortium.hospital, consortium.hospital_round.directory)
    monkeypatch.setattr(consortium.hospital.connection, "stream", None)
    again, _ = open_anchor(consortium.hospital, consortium.hospital_round.directory)
    np.testing.assert_array_equal(first, again)


def test_the_analyst_has_the_matrix_as_ciphertext_alone(consortium: Consortium) -> None:
    published(consortium)
    matrix, _ = open_anchor(consortium.lead, consortium.lead_round.directory)
    kept = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    assert len(kept) == 4 * ANCHOR_ROWS * 3 + 16
    for row in matrix.astype("<f4"):
        assert row.tobytes() not in kept


def test_a_round_with_a_public_anchor_under_nri_predicts_and_forgets_it(consortium: Consortium) -> None:
    published(consortium, downlink="anchor-predictions")
    for seed, session in enumerate(consortium.sessions):
        session.round(consortium.id).prepare(consortium.table(seed))
        session.round(consortium.id).contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    table = rows(99, 200)
    found = consortium.hospital_round.predict(pa.table(table))
    assert np.mean(np.array(found.labels) == np.array(table["y"])) > 0.8
    assert not (consortium.directory_of(consortium.hospital) / MATRIX_FILE).exists()
    erased = {file.name for file in consortium.hospital_round.forget().erased}
    assert {MATRIX_FILE, ANCHOR_FILE} <= erased


def test_the_terms_warn_of_a_public_anchor(consortium: Consortium) -> None:
    published(consortium)
    text = plain_words(consortium.lead_round.terms)
    assert "Warning: public anchor" in text
    assert "few anchor rows" not in text


# the lead's table


def test_the_table_is_needed(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    with pytest.raises(InputError, match="public anchor") as caught:
        consortium.lead_round.create_anchor()
    assert "--table FILE" in caught.value.hint


def test_the_table_is_refused_where_the_anchor_comes_from_a_seed(consortium: Consortium) -> None:
    consortium.until_accepted()
    with pytest.raises(InputError, match="haar anchor comes from a seed"):
        consortium.lead_round.create_anchor(consortium.table(50))


def test_a_short_table_is_refused(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    with pytest.raises(InputError, match="needs 30 rows, it has 29"):
        consortium.lead_round.create_anchor(pa.table(rows(1, 29)))


# what the analyst takes


def test_only_the_lead_sends_it(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    with pytest.raises(NotPermittedError):
        put(consortium, bytes(376), by="hospital")


@pytest.mark.parametrize(("length", "error"), [(375, TruncatedError), (377, LimitExceededError)])
def test_another_length_is_refused(consortium: Consortium, length: int, error: type[Exception]) -> None:
    consortium.until_accepted(**PUBLIC)
    with pytest.raises(error):
        put(consortium, bytes(length))
    assert not consortium.analyst.blobs.exists(matrix_key(consortium.id))


def test_terms_without_a_matrix_take_none_and_give_none(consortium: Consortium) -> None:
    consortium.until_anchored()
    with pytest.raises(MalformedMessageError, match="no public anchor"):
        put(consortium, bytes(376))
    with pytest.raises(MalformedMessageError, match="no public anchor"):
        consortium.hospital.connection.ask(FETCH_ANCHOR_MATRIX, collaboration_id=consortium.id)


def test_a_matrix_may_be_sent_anew_until_the_anchor_is_published(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    put(consortium, bytes(376))
    consortium.lead_round.create_anchor(consortium.table(50))
    kept = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    assert kept != bytes(376)
    put(consortium, kept)  # the same again is acknowledged again
    with pytest.raises(AlreadyExistsError):
        put(consortium, bytes(376))
    assert bytes(consortium.analyst.blobs.read(matrix_key(consortium.id))) == kept


def test_a_cancelled_collaboration_takes_no_matrix(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    end.cancel(consortium.analyst, consortium.id)
    with pytest.raises(OutOfOrderError):
        put(consortium, bytes(376))


def test_it_is_not_given_before_the_anchor_is_published(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    put(consortium, bytes(376))
    with pytest.raises(OutOfOrderError):
        consortium.hospital.connection.ask(FETCH_ANCHOR_MATRIX, collaboration_id=consortium.id)


def test_anchors_without_their_matrix_are_refused(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    with pytest.raises(MalformedMessageError, match="was not sent before it"):
        put_anchors(consortium, sealed_for(consortium, b"sealed"))


def test_anchors_of_the_other_form_are_refused(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    put(consortium, bytes(376))
    with pytest.raises(MalformedMessageError, match="need the form matrix"):
        put_anchors(consortium, sealed_for(consortium, b"sealed", form="seed"))


# what a member takes


@contextmanager
def relayed(consortium: Consortium, monkeypatch: pytest.MonkeyPatch, data: bytes) -> Iterator[None]:
    """Let the analyst give one member another matrix than the lead sent."""

    @contextmanager
    def stream(_operation: Operation, **_: str) -> Iterator[LongAnswer]:
        yield LongAnswer(200, {}, iter([data[:100], data[100:]]))

    with monkeypatch.context() as patched:
        patched.setattr(consortium.hospital.connection, "stream", stream)
        yield


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_another_matrix_for_one_member_is_found_and_the_right_one_taken_later(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(consortium)
    kept = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    with (
        relayed(consortium, monkeypatch, changed(kept)),
        pytest.raises(SealBrokenError, match="committed to"),
    ):
        open_anchor(consortium.hospital, consortium.hospital_round.directory)
    assert open_anchor(consortium.hospital, consortium.hospital_round.directory)[0].shape == (
        ANCHOR_ROWS,
        3,
    )


@pytest.mark.parametrize(("more", "error"), [(-1, TruncatedError), (1, LimitExceededError)])
def test_a_matrix_of_another_length_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, more: int, error: type[Exception]
) -> None:
    published(consortium)
    kept = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    with relayed(consortium, monkeypatch, (kept + b"x")[: len(kept) + more]), pytest.raises(error):
        open_anchor(consortium.hospital, consortium.hospital_round.directory)


def test_entries_that_are_no_numbers_are_refused(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    data = struct.pack("<f", float("nan")) + entries()[4:]
    sealed = b"".join(seal_matrix(SEED, data))
    put(consortium, sealed)
    put_anchors(consortium, sealed_for(consortium, sealed))
    with pytest.raises(SealBrokenError, match="not finite numbers"):
        open_anchor(consortium.hospital, consortium.hospital_round.directory)


# sealing


def large() -> bytes:
    return bytes(range(256)) * (DEFAULT_CHUNK_BYTES * 5 // 2 // 256)


def test_a_matrix_of_several_chunks_opens() -> None:
    assert open_matrix(SEED, b"".join(seal_matrix(SEED, large()))) == large()


@pytest.mark.parametrize("what", ["left out", "doubled", "moved", "cut off", "bit", "other seed"])
def test_a_matrix_that_was_touched_does_not_open(what: str) -> None:
    first, second, last = seal_matrix(SEED, large())
    touched = {
        "left out": [first, last],
        "doubled": [first, first, second, last],
        "moved": [second, first, last],
        "cut off": [first, second],
        "bit": [first, changed(second), last],
        "other seed": [first, second, last],
    }[what]
    with pytest.raises(SealBrokenError):
        open_matrix(bytes(32) if what == "other seed" else SEED, b"".join(touched))


# counting


@pytest.mark.parametrize(("up", "repeated"), [(1, 0), (2, 1), (3, 2)])
def test_the_matrix_is_counted_as_the_papers_formula_and_what_was_repeated_as_such(
    consortium: Consortium, up: int, repeated: int
) -> None:
    consortium.until_accepted(anchor={"kind": "public", "rows": 5000}, latent_dim=2)
    terms = consortium.lead_round.terms
    sealed, matrix = sealed_matrix_bytes(terms), terms.anchor_matrix_bytes
    counted = Counts(up=Flow(body_bytes=up * sealed + 4600), down=Flow(body_bytes=sealed + 7000))
    found = anchor_transfer(terms, LEAD, counted)
    assert found.formula_bytes == matrix == 4 * 5000 * 3
    assert found.payload_bytes == 2 * matrix + 3 * 32
    left = (up + 1) * sealed + 11600 - found.payload_bytes - found.framing_bytes
    assert left == repeated * sealed


def test_a_matrix_smaller_than_its_seals_is_counted_once(consortium: Consortium) -> None:
    consortium.until_accepted(**PUBLIC)
    terms = consortium.lead_round.terms
    counted = Counts(up=Flow(body_bytes=sealed_matrix_bytes(terms) + 4600), down=Flow(body_bytes=100))
    found = anchor_transfer(terms, LEAD, counted)
    assert found.payload_bytes == terms.anchor_matrix_bytes + 3 * 32
    assert found.payload_bytes + found.framing_bytes == sealed_matrix_bytes(terms) + 4700


def test_a_lead_cut_off_sends_the_same_again_and_needs_no_table(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted(**PUBLIC)
    with monkeypatch.context() as patched:
        plain = consortium.lead.connection.ask

        def cut(operation: Operation, body: bytes | None = None, *, query: str = "", **ids: str) -> Answer:
            if operation is PUBLISH_ANCHOR:
                raise ConnectionFailedError("the anchors do not get through")
            return plain(operation, body, query=query, **ids)

        patched.setattr(consortium.lead.connection, "ask", cut)
        with pytest.raises(ConnectionFailedError):
            consortium.lead_round.create_anchor(consortium.table(50))
    kept = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    assert consortium.lead_round.create_anchor() == 2
    assert consortium.lead_round.create_anchor() == 2
    assert bytes(consortium.analyst.blobs.read(matrix_key(consortium.id))) == kept
    mine, theirs = (
        open_anchor(session, session.round(consortium.id).directory)[0] for session in consortium.sessions
    )
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("written", [1, 376])
def test_a_matrix_whose_round_ends_while_it_comes_is_told_so(consortium: Consortium, written: int) -> None:
    consortium.until_accepted(**PUBLIC)
    upload = anchor_matrix.begin(consortium.analyst, identity(LEAD), consortium.id)
    upload.write(bytes(written))
    end.cancel(consortium.analyst, consortium.id)

    def send_the_rest() -> None:
        if written < 376:
            upload.write(bytes(376 - written))
        upload.finish()

    with pytest.raises(OutOfOrderError):
        send_the_rest()
    assert list(consortium.analyst.blobs.whole_keys()) == []


@pytest.mark.parametrize("ended", [False, True])
def test_a_matrix_that_comes_too_late_replaces_none(consortium: Consortium, ended: bool) -> None:
    """It was begun before the anchor was published, or before the operator gave the round up."""
    consortium.until_accepted(**PUBLIC)
    sender = identity(LEAD)
    slow = anchor_matrix.begin(consortium.analyst, sender, consortium.id)
    if ended:
        end.cancel(consortium.analyst, consortium.id)
    else:
        consortium.lead_round.create_anchor(consortium.table(50))
        before = bytes(consortium.analyst.blobs.read(matrix_key(consortium.id)))
    slow.write(bytes(sealed_matrix_bytes(consortium.lead_round.terms)))
    with pytest.raises(OutOfOrderError):
        slow.finish()
    assert not ended or not consortium.analyst.blobs.exists(matrix_key(consortium.id))
    if not ended:
        assert bytes(consortium.analyst.blobs.read(matrix_key(consortium.id))) == before
