from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import collaborations, rounds
from protocol.codec import pack_list
from protocol.envelope import anchor_info, seal, seed_commitment
from protocol.errors import (
    ConsentMissingError,
    DifferentUplinkError,
    LimitExceededError,
    NotPermittedError,
    OdcError,
    OutOfOrderError,
    ProtocolError,
    RoundFailedError,
    SealBrokenError,
    TermsMismatchError,
    TruncatedError,
    TrustError,
)
from protocol.messages import Acceptance, SealedAnchor
from protocol.operations import ACCEPT_TERMS, FETCH_DOWNLINK, Operation
from protocol.terms import LEAST_SQUARES_METHODS, AlignmentTerms
from tests.unit.user_client.consortium import HOSPITAL, LEAD, Consortium, rows
from user_client.custody.round_directory import (
    ACCEPTANCE_FILE,
    ANCHOR_FILE,
    BASIS_FILE,
    MANIFEST_FILE,
    PAYLOAD_FILE,
    RECEIPT_FILE,
)
from user_client.errors import ChoiceNeededError, NotJoinedError, NotPreparedError, OutOfRangeError
from user_client.sdk import (
    Session,
    create_consortium,
    plain_words,
)
from user_client.sdk.anchor import open_anchor


def answer_instead(monkeypatch: pytest.MonkeyPatch, session: Session, data: bytes) -> None:
    """Let the analyst relay other bytes than it should."""
    monkeypatch.setattr(session.connection, "ask", lambda *_, **__: httpx.Response(200, content=data))


# the terms


def test_the_terms_are_those_the_analyst_published(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    assert (terms.collaboration_id, terms.parties) == (consortium.id, (LEAD, HOSPITAL))


def test_terms_the_analyst_did_not_sign_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    answer_instead(monkeypatch, consortium.hospital, consortium.lead.sign(terms))
    with pytest.raises(NotPermittedError, match="is not the analyst"):
        consortium.hospital_round.fetch_terms()


def test_terms_of_another_collaboration_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined()
    other, wanted = consortium.publish(), consortium.publish()
    data = consortium.hospital.connection.request("GET", f"/v1/collaborations/{other}/terms").content
    answer_instead(monkeypatch, consortium.hospital, data)
    with pytest.raises(NotPermittedError, match="another collaboration"):
        consortium.hospital.round(wanted).fetch_terms()


def test_terms_that_do_not_name_us_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish(parties=[LEAD])
    data = consortium.lead.connection.request("GET", f"/v1/collaborations/{consortium.id}/terms").content
    answer_instead(monkeypatch, consortium.hospital, data)
    with pytest.raises(NotPermittedError, match=f"do not name {HOSPITAL}"):
        consortium.hospital_round.fetch_terms()


def test_terms_that_changed_since_we_signed_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    terms = consortium.hospital_round.fetch_terms()
    changed = consortium.analyst.sign(terms.model_copy(update={"title": "Changed"}))
    answer_instead(monkeypatch, consortium.hospital, changed)
    with pytest.raises(TermsMismatchError, match="our acceptance") as caught:
        consortium.hospital_round.fetch_terms()
    assert "stop, and ask the lead" in caught.value.hint


def test_signing_again_sends_the_same_signature(consortium: Consortium) -> None:
    consortium.until_accepted()
    path = consortium.directory_of(consortium.hospital) / ACCEPTANCE_FILE
    before = path.read_bytes()
    consortium.hospital_round.accept()
    assert path.read_bytes() == before


SVM = {"kind": "svm", "inverse_penalty": 10.0}


def test_row_revealing_terms_are_not_signed_without_the_word(consortium: Consortium) -> None:
    consortium.until_joined().publish(model=SVM)
    with pytest.raises(ConsentMissingError):
        consortium.hospital_round.accept()
    assert consortium.hospital_round.accept(accept_row_revealing_model=True)


def test_an_svm_everybody_consented_to_comes_back_and_predicts(consortium: Consortium) -> None:
    consortium.until_joined().publish(model=SVM)
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=True)
    consortium.lead_round.create_anchor()
    for seed, session in enumerate(consortium.sessions):
        session.round(consortium.id).prepare(consortium.table(seed))
        session.round(consortium.id).contribute()
    consortium.compute()
    for session in consortium.sessions:
        assert session.round(consortium.id).receive().model_parameters > 0
        found = session.round(consortium.id).predict(consortium.table(9))
        right = np.array(found.labels) == np.array(rows(9)["y"])
        assert right.mean() > 0.85


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"shown_digest": bytes(32)}, TermsMismatchError),
        ({"accept_row_revealing_model": False}, ConsentMissingError),
    ],
)
def test_the_lead_seals_to_nobody_who_has_not_read_and_consented(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], error: type[OdcError]
) -> None:
    """Also where the analyst keeps what it should have refused."""
    consortium.until_joined().publish(model=SVM)
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=True)
    path = consortium.directory_of(consortium.hospital) / ACCEPTANCE_FILE
    acceptance = consortium.hospital_round.directory.load(Acceptance)
    path.write_bytes(consortium.hospital.sign(acceptance.model_copy(update=changed)))
    own = (consortium.directory_of(consortium.lead) / ACCEPTANCE_FILE).read_bytes()
    answer_instead(monkeypatch, consortium.lead, pack_list([own, path.read_bytes()]))
    with pytest.raises(error):
        consortium.lead_round.create_anchor()


def test_terms_that_changed_before_they_were_signed_are_told(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    assert caplog.text == ""
    changed = consortium.analyst.sign(terms.model_copy(update={"title": "Changed"}))
    with monkeypatch.context() as patched:
        answer_instead(patched, consortium.hospital, changed)
        assert consortium.hospital_round.fetch_terms().title == "Changed"
    assert "has changed the terms since they were shown" in caplog.text
    with pytest.raises(
        TermsMismatchError
    ):  # what was shown last is what is signed, and not what was published
        consortium.hospital_round.accept()


def test_the_plain_words_say_what_leaves_and_who_sees_it(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    words = plain_words(consortium.hospital_round.fetch_terms())
    assert f"Parties: {LEAD}, {HOSPITAL} (lead: {LEAD})." in words
    assert "each row as 3 numbers instead of its 3 encoded features, 12 bytes" in words
    assert "the anchor under the same basis, 36 bytes" in words
    assert "- x0: number from -4 to 4, outside it refused, no empty fields" in words
    assert "no noise is added" in words
    assert "uniform" not in words


@pytest.mark.parametrize(
    ("rep_dtype", "said"),
    [("f2", "36 bytes|16-bit floats"), ("i1", "18 bytes|8-bit integers"), ("f8", "144 bytes|64-bit floats")],
)
def test_the_plain_words_say_how_far_the_numbers_are_rounded(
    consortium: Consortium, rep_dtype: str, said: str
) -> None:
    consortium.until_joined().publish(rep_dtype=rep_dtype, anchor={"kind": "uniform", "rows": 6})
    words = plain_words(consortium.hospital_round.fetch_terms())
    for part in said.split("|"):
        assert part in words


def test_the_plain_words_warn_of_what_the_terms_chose(consortium: Consortium) -> None:
    schema = {
        "columns": [
            {"kind": "categorical", "name": "ward", "levels": ["a", "b"]},
            {"kind": "numeric", "name": "age", "low": 0, "high": 9, "impute": 4},
        ],
        "label_column": {"name": "y", "classes": ["no", "yes"]},
    }
    consortium.until_joined().publish(anchor={"kind": "uniform", "rows": 9}, table_schema=schema, model=SVM)
    words = plain_words(consortium.hospital_round.fetch_terms())
    assert "uniform anchor tells the analyst more" in words
    assert "row-revealing model" in words
    assert "- ward: one of a, b; no empty fields" in words
    assert "- age: number from 0 to 9, outside it refused, empty counts as 4" in words


# the anchor


def test_every_member_opens_the_same_anchor(consortium: Consortium) -> None:
    consortium.until_anchored()
    (one, mark), (other, same_mark) = (
        open_anchor(session, session.round(consortium.id).directory) for session in consortium.sessions
    )
    np.testing.assert_array_equal(one, other)
    assert mark == same_mark


def test_only_the_lead_creates_the_anchor(consortium: Consortium) -> None:
    consortium.until_accepted()
    with pytest.raises(NotPermittedError, match=f"only {LEAD} creates"):
        consortium.hospital_round.create_anchor()


def test_the_anchor_waits_for_all_signatures(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    consortium.lead_round.accept()
    with pytest.raises(NotPreparedError, match=f"not yet accepted by {HOSPITAL}"):
        consortium.lead_round.create_anchor()


@pytest.mark.parametrize("who", ["analyst", "lead"])
def test_a_sealing_key_that_is_not_its_partys_own_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """A relay that slipped its own key in would read the anchor."""
    consortium.until_accepted()
    acceptance = consortium.hospital_round.directory.load(Acceptance)
    forged = acceptance.model_copy(update={"sealing_key": bytes(1216)})
    body = consortium.analyst.sign(forged) if who == "analyst" else consortium.lead.sign(forged)
    monkeypatch.setattr("user_client.sdk.anchor.unpack_list", lambda _data: [body])
    with pytest.raises(NotPermittedError, match="signed by somebody else"):
        consortium.lead_round.create_anchor()


def test_an_acceptance_of_other_terms_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    acceptance = consortium.hospital_round.directory.load(Acceptance)
    other = consortium.hospital.sign(acceptance.model_copy(update={"terms_digest": bytes(32)}))
    monkeypatch.setattr("user_client.sdk.anchor.unpack_list", lambda _data: [other])
    with pytest.raises(TermsMismatchError):
        consortium.lead_round.create_anchor()


def sealed_for_hospital(consortium: Consortium, *, by: Any, seed: bytes, **changed: Any) -> bytes:
    """Return an anchor for the hospital as somebody could make it."""
    acceptance = consortium.hospital_round.directory.load(Acceptance)
    values = {
        "collaboration_id": consortium.id,
        "terms_digest": acceptance.terms_digest,
        "recipient": HOSPITAL,
        "commitment": seed_commitment(seed),
        "sealing_suite": acceptance.sealing_suite,
        "ciphertext": seal(
            seed,
            acceptance.sealing_suite,
            acceptance.sealing_key,
            anchor_info(consortium.id, acceptance.terms_digest, HOSPITAL),
        ),
    }
    return bytes(by.sign(SealedAnchor(**{**values, **changed})))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"recipient": LEAD}, SealBrokenError),
        ({"commitment": bytes(32)}, SealBrokenError),
        ({"ciphertext": bytes(1200)}, SealBrokenError),
        ({"terms_digest": bytes(32)}, TermsMismatchError),
        ({"collaboration_id": "d0" * 16}, TermsMismatchError),
    ],
    ids=["recipient", "commitment", "ciphertext", "terms", "collaboration"],
)
def test_an_anchor_that_is_not_for_us_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], error: type[Exception]
) -> None:
    consortium.until_accepted()
    body = sealed_for_hospital(consortium, by=consortium.lead, seed=bytes(32), **changed)
    answer_instead(monkeypatch, consortium.hospital, body)
    with pytest.raises(error):
        open_anchor(consortium.hospital, consortium.hospital_round.directory)
    assert not (consortium.directory_of(consortium.hospital) / ANCHOR_FILE).exists()


@pytest.mark.parametrize("who", ["analyst", "hospital"])
def test_an_anchor_the_lead_did_not_seal_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    consortium.until_accepted()
    body = sealed_for_hospital(consortium, by=getattr(consortium, who), seed=bytes(32))
    answer_instead(monkeypatch, consortium.hospital, body)
    with pytest.raises(NotPermittedError, match="is not the lead"):
        open_anchor(consortium.hospital, consortium.hospital_round.directory)


# the uplink


def test_preparing_says_what_would_leave_and_sends_nothing(consortium: Consortium) -> None:
    consortium.until_anchored()
    found = consortium.hospital_round.prepare(consortium.table(1))
    assert (found.rows, found.features, found.latent_dim) == (40, 3, 3)
    assert found.formula_bytes == (40 + 3) * 3 * 4
    assert found.payload_bytes == (40 + 3) * 3 * 4 + 40
    (row,) = collaborations.listing(consortium.analyst, consortium.hospital.membership.identity)
    assert {member["uplink"] for member in row["members"]} == {"none"}


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
    with pytest.raises(OutOfRangeError, match="column 'x1', row 1"):
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


# the downlink


@pytest.mark.parametrize("method", get_args(AlignmentTerms.model_fields["method"].annotation))
def test_all_members_predict_the_same(method: str, consortium: Consortium) -> None:
    """With a full basis all spans are one, so F_i G_i is the same for every party, orthogonal or not."""
    target = "invertible" if method in LEAST_SQUARES_METHODS else "haar"
    consortium.until_released(alignment={"method": method, "target": target})
    found = []
    for session in consortium.sessions:
        session.round(consortium.id).receive()
        found.append(session.round(consortium.id).predict(pa.table(rows(9))))
    assert found[0].labels == found[1].labels
    np.testing.assert_allclose(found[0].probabilities, found[1].probabilities, atol=1e-5)  # float32


def test_predicting_needs_no_label(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.hospital_round.receive()
    features = {name: values for name, values in rows(9).items() if name != "y"}
    found = consortium.hospital_round.predict(pa.table(features))
    assert found.classes == ("no", "yes")
    assert found.probabilities.shape == (40, 2)


def test_receiving_again_asks_nobody(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium.until_released()
    first = consortium.hospital_round.receive()
    monkeypatch.setattr(consortium.hospital.connection, "stream", None)
    assert consortium.hospital_round.receive() == first


def test_there_is_nothing_to_receive_before_the_release(consortium: Consortium) -> None:
    consortium.until_contributed()
    with pytest.raises(OutOfOrderError):
        consortium.hospital_round.receive()


def test_a_failed_round_is_told_with_its_reason(consortium: Consortium) -> None:
    consortium.until_contributed()
    rounds.claim(consortium.analyst, "worker", 10)
    rounds.fail(consortium.analyst, consortium.id, "worker", "no rows of class 1")
    with pytest.raises(RoundFailedError, match="no rows of class 1"):
        consortium.hospital_round.receive()


def test_waiting_for_the_release_ends_with_the_downlink(consortium: Consortium) -> None:
    consortium.until_contributed()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            consortium.compute()

    assert consortium.hospital_round.receive(wait_s=1000, pause=pause).party == HOSPITAL
    assert len(pauses) == 3


def test_the_pauses_grow_so_that_an_hour_costs_few_questions(consortium: Consortium) -> None:
    consortium.until_contributed()
    pauses: list[float] = []
    with pytest.raises(OutOfOrderError):
        consortium.hospital_round.receive(wait_s=3600, pause=pauses.append)
    assert sum(pauses) == pytest.approx(3600)
    assert len(pauses) <= 25
    assert pauses[:-1] == sorted(pauses[:-1])


def test_a_round_that_fails_while_we_wait_says_so_at_once(consortium: Consortium) -> None:
    consortium.until_contributed()
    rounds.claim(consortium.analyst, "worker", 10)
    rounds.fail(consortium.analyst, consortium.id, "worker", "no rows of class 1")
    pauses: list[float] = []
    with pytest.raises(RoundFailedError):
        consortium.hospital_round.receive(wait_s=3600, pause=pauses.append)
    assert pauses == []


def test_the_terms_that_were_shown_are_the_terms_that_are_signed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish()
    shown = consortium.hospital_round.fetch_terms()
    asked = []
    plain = consortium.hospital.connection.ask

    def noted(operation: Operation, body: bytes | None = None, **ids: str) -> httpx.Response:
        asked.append(operation)
        return plain(operation, body, query="", **ids)

    monkeypatch.setattr(consortium.hospital.connection, "ask", noted)
    assert consortium.hospital_round.accept() == shown
    assert asked == [ACCEPT_TERMS]  # nothing is fetched again


def test_the_downlink_of_another_party_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released()
    plain = consortium.hospital.connection
    monkeypatch.setattr(plain, "stream", consortium.lead.connection.stream)
    with pytest.raises(NotPermittedError, match="another uplink than ours"):
        consortium.hospital_round.receive()


def downlink_bytes(consortium: Consortium) -> bytes:
    with consortium.hospital.connection.stream(FETCH_DOWNLINK, collaboration_id=consortium.id) as pieces:
        return b"".join(pieces)


@pytest.mark.parametrize("share", [0, 0.1, 0.3, 0.6, 0.8, 0.999])
def test_a_changed_byte_of_the_downlink_is_seen(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    consortium.until_released()
    damaged = bytearray(downlink_bytes(consortium))
    damaged[int(share * len(damaged))] ^= 1
    replay(monkeypatch, consortium, bytes(damaged))
    with pytest.raises((ProtocolError, TrustError)):
        consortium.hospital_round.receive()
    assert not (consortium.directory_of(consortium.hospital) / "downlink.odc").exists()


@pytest.mark.parametrize("length", [0, 3, 100, -1, -40])
def test_a_downlink_that_is_cut_is_seen(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, downlink_bytes(consortium)[:length])
    with pytest.raises(TruncatedError):
        consortium.hospital_round.receive()


def test_a_downlink_with_a_huge_manifest_is_refused_before_it_is_read(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, b"\xff\xff\xff\xff")
    with pytest.raises(LimitExceededError):
        consortium.hospital_round.receive()


def test_a_downlink_in_single_bytes_is_read(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium.until_released()
    replay(monkeypatch, consortium, downlink_bytes(consortium), size=1)
    assert consortium.hospital_round.receive().party == HOSPITAL


def replay(monkeypatch: pytest.MonkeyPatch, consortium: Consortium, data: bytes, size: int = 997) -> None:
    """Let the analyst answer with these bytes, in pieces."""
    pieces = iter([data[start : start + size] for start in range(0, len(data), size)])
    monkeypatch.setattr(consortium.hospital.connection, "stream", lambda *_, **__: nullcontext(pieces))


def test_predicting_needs_the_downlink(consortium: Consortium) -> None:
    consortium.until_contributed()
    with pytest.raises(NotPreparedError, match="odc receive"):
        consortium.hospital_round.predict(pa.table(rows(9)))


def test_predicting_needs_the_secret_basis(consortium: Consortium) -> None:
    consortium.until_released()
    consortium.hospital_round.receive()
    (consortium.directory_of(consortium.hospital) / BASIS_FILE).unlink()
    with pytest.raises(NotPreparedError, match="secret basis"):
        consortium.hospital_round.predict(pa.table(rows(9)))


# the session


def test_the_only_collaboration_needs_no_name(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    assert consortium.hospital.round().id == consortium.id


def test_of_several_collaborations_one_must_be_named(consortium: Consortium) -> None:
    consortium.until_joined()
    both = sorted([consortium.publish(), consortium.publish()])
    with pytest.raises(ChoiceNeededError) as caught:
        consortium.hospital.round()
    assert all(name in caught.value.detail for name in both)
    assert consortium.hospital.round(both[0]).id == both[0]


def test_without_collaborations_there_is_none_to_choose(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(NotPreparedError, match="no collaboration names this institution yet"):
        consortium.hospital.round()


def test_the_collaboration_we_work_on_is_chosen_without_asking(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    monkeypatch.setattr(Session, "collaborations", None)
    assert consortium.hospital.round().id == consortium.id


def test_a_session_without_membership_has_no_connection(tmp_path: Path) -> None:
    with Session(tmp_path / "nobody") as session, pytest.raises(NotJoinedError):
        session.connection  # noqa: B018  # the property raises


def test_a_session_shows_where_it_is(tmp_path: Path) -> None:
    assert repr(Session(tmp_path)) == f"<Session in {tmp_path}>"


def test_a_message_of_another_consortium_is_not_believed(consortium: Consortium, tmp_path: Path) -> None:
    consortium.until_accepted()
    foreign = Session(tmp_path / "foreign", consortium.clock)
    create_consortium(foreign, name="F", party=LEAD, analyst_url="https://x", passphrase="long enough")
    terms = consortium.hospital_round.fetch_terms()
    with pytest.raises(TrustError):
        consortium.hospital.verify(type(terms), foreign.sign(terms))
