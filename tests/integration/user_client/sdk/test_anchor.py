"""The anchor: the lead seals it to its members, and a member opens its own."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from analyst_server.services import prepare
from protocol.codec import pack_list
from protocol.envelope import SealingKey, anchor_info, seal, seed_commitment
from protocol.errors import (
    ConsentMissingError,
    NotPermittedError,
    OdcError,
    SealBrokenError,
    TermsMismatchError,
)
from protocol.messages import Acceptance, SealedAnchor
from protocol.sealing import HYBRID
from protocol.terms import ChosenSuite
from tests.harness.in_process import HOSPITAL, LEAD, SVM, Consortium, answer_instead
from user_client.custody.round_directory import ACCEPTANCE_FILE, ANCHOR_FILE, SEALING_KEY_FILE
from user_client.errors import NotPreparedError
from user_client.sdk import anchor, plain_words
from user_client.sdk.anchor import open_anchor


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


def test_every_member_opens_the_same_anchor(consortium: Consortium) -> None:
    consortium.until_anchored()
    (one, mark), (other, same_mark) = (
        open_anchor(session, session.round(consortium.id).directory) for session in consortium.sessions
    )
    np.testing.assert_array_equal(one, other)
    assert mark == same_mark


@pytest.mark.parametrize("suite", get_args(ChosenSuite))
def test_terms_choose_what_the_anchor_is_sealed_with(consortium: Consortium, suite: ChosenSuite) -> None:
    """A member whose last key was for the usual suite draws one for the other."""
    consortium.until_accepted()
    usual = consortium.hospital_round.directory
    consortium.publish(sealing_suite=suite)
    rounds = [session.round(consortium.id) for session in consortium.sessions]
    for each in rounds:
        each.accept()
    rounds[0].create_anchor()
    opened = [
        open_anchor(session, each.directory)
        for session, each in zip(consortium.sessions, rounds, strict=True)
    ]
    np.testing.assert_array_equal(opened[0][0], opened[1][0])
    chosen = rounds[1].directory
    assert usual.load(Acceptance).sealing_suite == HYBRID
    assert chosen.load(Acceptance).sealing_suite == chosen.load(SealedAnchor).sealing_suite == suite
    key, other = (each.read_secret(SEALING_KEY_FILE) for each in (chosen, usual))
    assert SealingKey.from_bytes(key, suite).public_bytes() == chosen.load(Acceptance).sealing_key
    assert (key[:32], key[-32:]) != (other[:32], other[-32:])


@pytest.mark.parametrize("suite", get_args(ChosenSuite))
def test_a_round_under_a_chosen_suite_ends_with_a_model(consortium: Consortium, suite: ChosenSuite) -> None:
    consortium.until_released(sealing_suite=suite)
    consortium.hospital_round.receive()
    assert consortium.hospital_round.directory.load(Acceptance).sealing_suite == suite
    assert f"by the suite {suite}" in plain_words(consortium.hospital_round.terms)


def test_the_lead_seals_to_no_key_of_another_suite_than_the_terms_choose(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted(sealing_suite="p256")
    bodies = []
    for session in consortium.sessions:
        acceptance = session.round(consortium.id).directory.load(Acceptance)
        key = SealingKey.generate("x25519")
        weaker = {"sealing_suite": "x25519", "sealing_key": key.public_bytes()}
        bodies.append(session.sign(acceptance.model_copy(update=weaker)))
    answer_instead(monkeypatch, consortium.lead, pack_list(bodies))
    with pytest.raises(TermsMismatchError, match="the sealing key of"):
        consortium.lead_round.create_anchor()


def test_only_the_lead_creates_the_anchor(consortium: Consortium) -> None:
    consortium.until_accepted()
    with pytest.raises(NotPermittedError, match=f"only {LEAD} creates the anchor"):
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
    monkeypatch.setattr("user_client.sdk.seen_heads.unpack_list", lambda _data: [body])
    with pytest.raises(NotPermittedError, match="signed by somebody else"):
        consortium.lead_round.create_anchor()


def test_an_acceptance_of_other_terms_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    acceptance = consortium.hospital_round.directory.load(Acceptance)
    other = consortium.hospital.sign(acceptance.model_copy(update={"terms_digest": bytes(32)}))
    monkeypatch.setattr("user_client.sdk.seen_heads.unpack_list", lambda _data: [other])
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
        ({"sealing_suite": "x25519"}, SealBrokenError),
        ({"terms_digest": bytes(32)}, TermsMismatchError),
        ({"collaboration_id": "d0" * 16}, TermsMismatchError),
    ],
    ids=["recipient", "commitment", "ciphertext", "suite", "terms", "collaboration"],
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


def test_the_lead_takes_acceptances_page_by_page_and_sends_copies_list_by_list(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of more than about 1,900 members do not fit into one message."""
    monkeypatch.setattr(prepare, "MOST_OF_A_PAGE", 1)
    monkeypatch.setattr(anchor, "pack_lists", lambda copies: (pack_list([copy]) for copy in copies))
    consortium.until_accepted()
    for _ in range(2):
        assert consortium.lead_round.create_anchor() == 2
    marks = {
        open_anchor(session, session.round(consortium.id).directory)[1] for session in consortium.sessions
    }
    assert len(marks) == 1


def test_an_analyst_that_always_answers_with_the_first_page_is_asked_no_further(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions do; what is missing is named."""
    monkeypatch.setattr(prepare, "MOST_OF_A_PAGE", 1)
    first = prepare.acceptances_page

    def deaf(analyst: Any, sender: Any, collaboration_id: str, _after: str) -> bytes:
        return first(analyst, sender, collaboration_id, "")

    monkeypatch.setattr(prepare, "acceptances_page", deaf)
    consortium.until_accepted()
    with pytest.raises(NotPreparedError, match=f"not yet accepted by {LEAD}"):
        consortium.lead_round.create_anchor()
