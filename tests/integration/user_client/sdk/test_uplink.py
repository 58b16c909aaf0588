"""What a member prepares from its table, sends, and keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import views
from protocol.errors import DifferentUplinkError, InputError
from protocol.messages import PrivacyRecord
from protocol.row_bounds import RowBounds, RowTooLongError
from tests.harness.in_process import HOSPITAL, Consortium, rows
from user_client.custody.round_directory import BASIS_FILE, MANIFEST_FILE, PAYLOAD_FILE, RECEIPT_FILE
from user_client.errors import NotPreparedError, OutOfRangeError
from user_client.sdk import PrivacyOptions
from user_client.sdk.anchor import open_anchor


def test_preparing_says_what_would_leave_and_sends_nothing(consortium: Consortium) -> None:
    consortium.until_anchored()
    found = consortium.hospital_round.prepare(consortium.table(1))
    assert (found.rows, found.features, found.latent_dim) == (40, 3, 3)
    assert found.formula_bytes == (40 + 3) * 3 * 4
    assert found.payload_bytes == (40 + 3) * 3 * 4 + 40
    (row,) = views.listing(consortium.analyst, consortium.hospital.membership.identity)
    assert {member["uplink"] for member in row["members"]} == {"none"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"options": 3}, "PrivacyOptions, such as .*, not int"),
        ({"threshold": "0.1"}, "a share above 0 and at most 1, got '0.1'"),
        ({"threshold": 2.0}, "a share above 0 and at most 1, got 2"),
    ],
)
def test_what_is_no_option_is_refused_in_words(
    consortium: Consortium, given: dict[str, Any], says: str
) -> None:
    consortium.until_anchored()
    with pytest.raises(InputError, match=says):
        consortium.hospital_round.prepare(consortium.table(1), **given)
    assert consortium.hospital_round.prepared is None


def test_what_is_prepared_is_the_projected_table(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    directory = consortium.directory_of(consortium.hospital)
    basis = np.load(directory / BASIS_FILE)
    data = np.stack([rows(1)[name] for name in ("x0", "x1", "x2")], axis=1) / 4
    payload = (directory / PAYLOAD_FILE).read_bytes()
    np.testing.assert_array_equal(
        np.frombuffer(payload, "<f4", 120).reshape(40, 3), (data @ basis).astype("f4")
    )
    anchor, _ = open_anchor(consortium.hospital, consortium.hospital_round.directory)
    np.testing.assert_array_equal(
        np.frombuffer(payload, "<f4", 9, 480).reshape(3, 3), (anchor @ basis).astype("f4")
    )


def test_a_row_that_the_analyst_would_refuse_is_not_prepared(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored()
    terms = consortium.hospital_round.terms
    bounds = RowBounds.of(terms, HOSPITAL, PrivacyRecord())
    halved = RowBounds(HOSPITAL, {name: bound / 2 for name, bound in bounds.largest.items()})
    monkeypatch.setattr(RowBounds, "of", lambda *_: halved)
    with pytest.raises(RowTooLongError, match="rep of hospital-a: row"):
        consortium.hospital_round.prepare(consortium.table(1))
    with pytest.raises(NotPreparedError):
        consortium.hospital_round.contribute()


@pytest.mark.parametrize("rep_dtype", ["f2", "f4", "f8", "i1"])
@pytest.mark.parametrize(
    "options",
    [PrivacyOptions(), PrivacyOptions(dither=2.0), PrivacyOptions(epsilon=1.0, delta=1e-5, clip=1.0)],
    ids=["plain", "dither", "noise"],
)
def test_the_longest_rows_are_taken_in_every_number_type_with_any_noise(
    consortium: Consortium, rep_dtype: str, options: PrivacyOptions
) -> None:
    consortium.until_anchored(rep_dtype=rep_dtype)
    ends = [-4, 4] * 20
    table = consortium.table(1, x0=ends, x1=ends, x2=ends)  # every row in a corner of the terms
    consortium.hospital_round.prepare(table, options)
    assert consortium.hospital_round.contribute()


def test_what_is_prepared_in_8_bits_is_the_projected_table_within_half_a_scale(
    consortium: Consortium,
) -> None:
    consortium.until_anchored(rep_dtype="i1")
    found = consortium.hospital_round.prepare(consortium.table(1))
    assert found.payload_bytes == (40 + 3) * 3 + 40 + 2 * 3 * 4
    directory = consortium.directory_of(consortium.hospital)
    payload = (directory / PAYLOAD_FILE).read_bytes()
    data = np.stack([rows(1)[name] for name in ("x0", "x1", "x2")], axis=1) / 4
    anchor, _ = open_anchor(consortium.hospital, consortium.hospital_round.directory)
    scales = np.frombuffer(payload, "<f4", 6, 169).reshape(2, 3)
    for matrix, offset, scale in zip((data, anchor), (0, 120), scales, strict=True):
        sent = np.frombuffer(payload, "i1", matrix.size, offset).reshape(matrix.shape)
        off = np.abs(sent * scale - matrix @ np.load(directory / BASIS_FILE))
        assert (off <= scale * 0.50001).all()
        assert (np.abs(sent).max(axis=0) == 127).all()  # the whole range is used


def test_the_secret_basis_is_in_nothing_that_leaves(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    directory = consortium.directory_of(consortium.hospital)
    basis = np.load(directory / BASIS_FILE)
    leaves = (directory / PAYLOAD_FILE).read_bytes() + (directory / MANIFEST_FILE).read_bytes()
    for number in basis.ravel():
        assert np.float32(number).tobytes() not in leaves
        assert np.float64(number).tobytes() not in leaves


def test_another_table_draws_another_basis(consortium: Consortium) -> None:
    consortium.until_anchored()
    path = consortium.directory_of(consortium.hospital) / BASIS_FILE
    consortium.hospital_round.prepare(consortium.table(1))
    before = path.read_bytes()
    consortium.hospital_round.prepare(consortium.table(2))
    assert path.read_bytes() != before


def test_a_table_in_memory_is_never_taken_for_the_same_again(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(pa.table(rows(1, 40)))
    assert consortium.hospital_round.prepare(pa.table(rows(1, 20))).rows == 20


def test_a_table_that_does_not_fit_leaves_what_was_prepared(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.hospital_round.prepare(consortium.table(1))
    path = consortium.directory_of(consortium.hospital) / MANIFEST_FILE
    before = path.read_bytes()
    with pytest.raises(OutOfRangeError, match="column 'x1', data row 1"):
        consortium.hospital_round.prepare(consortium.table(2, x1=[99.0] * 40))
    assert path.read_bytes() == before


def test_nothing_is_prepared_before_the_terms_are_signed(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    with pytest.raises(NotPreparedError, match="odc terms accept"):
        consortium.hospital_round.prepare(consortium.table(1))


def test_nothing_is_sent_before_it_is_prepared(consortium: Consortium) -> None:
    consortium.until_anchored()
    with pytest.raises(NotPreparedError, match="odc prepare"):
        consortium.hospital_round.contribute()


@pytest.mark.parametrize("command", ["the same", "the next"])
def test_a_payload_that_changed_since_is_not_sent(consortium: Consortium, command: str) -> None:
    consortium.until_anchored()
    ours = consortium.hospital_round
    ours.prepare(consortium.table(1))
    path = consortium.directory_of(consortium.hospital) / PAYLOAD_FILE
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    with pytest.raises(NotPreparedError, match="incomplete or was changed"):
        (ours if command == "the same" else consortium.hospital_round).contribute()
    assert "hospital-a: odc contribute" in ours.status()["waiting_for"]


def test_a_payload_that_was_just_written_is_not_hashed_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored()
    ours = consortium.hospital_round
    ours.prepare(consortium.table(1))
    monkeypatch.setattr("user_client.sdk.uplink.is_uplink", lambda *_: pytest.fail("hashes it again"))
    assert ours.contribute().party == HOSPITAL


def test_the_receipt_is_kept_and_shown_again(consortium: Consortium) -> None:
    consortium.until_contributed()
    assert consortium.hospital_round.contribute().party == HOSPITAL


def test_a_lost_receipt_is_fetched_again(consortium: Consortium) -> None:
    consortium.until_contributed()
    path = consortium.directory_of(consortium.hospital) / RECEIPT_FILE
    before = path.read_bytes()
    path.unlink()
    consortium.hospital_round.contribute()
    assert path.read_bytes() == before


@pytest.mark.parametrize("lost", [True, False])
def test_the_basis_of_what_was_sent_is_never_drawn_again(consortium: Consortium, lost: bool) -> None:
    """Also when the receipt did not reach us: what comes back fits this basis alone."""
    consortium.until_contributed()
    directory = consortium.directory_of(consortium.hospital)
    before = (directory / BASIS_FILE).read_bytes()
    if lost:
        (directory / RECEIPT_FILE).unlink()
    with pytest.raises(DifferentUplinkError):
        consortium.hospital_round.prepare(consortium.table(7))
    assert (directory / BASIS_FILE).read_bytes() == before


def test_a_table_without_rows_makes_a_consumer(consortium: Consortium) -> None:
    consortium.until_anchored()
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    empty = {name: pa.array([], pa.string()) for name in rows(0)}
    prepared = consortium.hospital_round.prepare(pa.table(empty))
    assert (prepared.rows, prepared.hidden_share) == (0, None)
    consortium.hospital_round.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    found = consortium.hospital_round.predict(pa.table(rows(9)))
    assert np.mean(np.array(found.labels) == rows(9)["y"]) > 0.9
