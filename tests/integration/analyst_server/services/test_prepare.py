from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from analyst_server.services import end, prepare, views
from protocol.answers import MemberStatus
from protocol.codec import digest, unpack_list
from protocol.envelope import decode_stored, verify
from protocol.errors import (
    AlreadyExistsError,
    ConsentMissingError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    OutOfOrderError,
    TermsMismatchError,
    TermsNotAcceptedError,
)
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import Acceptance
from protocol.model_terms import AutoTerms, LogisticTerms, ModelTerms, SvmTerms
from protocol.sealing import HYBRID
from protocol.terms import Terms
from tests.harness.certificates import NOW
from tests.harness.world import (
    DRAFT,
    HOSPITAL,
    LEAD,
    World,
    identity,
    make_terms,
    signed,
)


def member(world: World, party: str) -> MemberStatus:
    status = views.status(world.analyst, identity(HOSPITAL), world.id)
    return {row["party"]: row for row in status["members"]}[party]


# terms


def test_a_draft_gets_the_ids_of_consortium_and_collaboration(world: World) -> None:
    found = prepare.complete_terms(world.analyst, DRAFT)
    assert found.consortium_id == world.analyst.root.consortium_id
    assert found.model_copy(update={"collaboration_id": world.id}) == make_terms()


def test_terms_with_a_party_that_nobody_knows_are_not_published(world: World) -> None:
    """A name that is misspelt would keep the round waiting for ever."""
    for publish in (
        lambda: prepare.create_new(world.analyst, prepare.complete_terms(world.analyst, DRAFT)),
        lambda: prepare.create_once(world.analyst, world.id, json.dumps(DRAFT).encode()),
    ):
        with pytest.raises(MalformedMessageError, match=f"not known here: {HOSPITAL}") as caught:
            publish()
        assert "odc join" in caught.value.hint
    with world.records.begin() as unit:
        assert unit.collaboration(world.id) is None
    drafted = [prepare.complete_terms(world.analyst, DRAFT) for _ in range(2)]
    assert prepare.create_new(world.analyst, drafted[0], before_they_join=True).state == "enrolling"
    world.enrol(HOSPITAL)
    assert prepare.create_new(world.analyst, drafted[1]).state == "enrolling"


def test_a_late_consumer_may_join_after_the_terms_are_published(world: World) -> None:
    draft = {**DRAFT, "parties": [*DRAFT["parties"], "hospital-z"], "late_consumers": ["hospital-z"]}
    world.enrol(HOSPITAL)
    assert (
        prepare.create_new(world.analyst, prepare.complete_terms(world.analyst, draft)).state == "enrolling"
    )


def test_two_drafts_get_two_ids(world: World) -> None:
    one, other = (prepare.complete_terms(world.analyst, DRAFT) for _ in range(2))
    assert one.collaboration_id != other.collaboration_id


def test_a_wrong_draft_is_refused_with_the_name_of_the_field(world: World) -> None:
    with pytest.raises(MalformedMessageError, match="latent_dim"):
        prepare.complete_terms(world.analyst, {**DRAFT, "latent_dim": 0})


def test_created_terms_are_signed_by_the_analyst(world: World) -> None:
    world.publish()
    body = prepare.signed_terms(world.analyst, identity(HOSPITAL), world.id)
    verified = verify(Terms, body, world.analyst.root, at=NOW)
    assert (verified.author, verified.message) == (identity("analyst"), world.terms)


def test_created_terms_wait_for_signatures(world: World) -> None:
    world.publish()
    assert world.state == "enrolling"


@pytest.mark.parametrize("party", ["hospital-z", "analyst"])
def test_who_is_no_member_finds_nothing(world: World, party: str) -> None:
    world.publish()
    with pytest.raises(NotFoundError):
        prepare.signed_terms(world.analyst, identity(party), world.id)


def test_an_unknown_id_finds_nothing(world: World) -> None:
    with pytest.raises(NotFoundError):
        views.status(world.analyst, identity(HOSPITAL), "0" * 32)


# acceptance

ACCEPTANCE_BYTES = 2100
"""About what a signed one has."""


def acceptances(world: World, after: str = "") -> list[bytes]:
    return unpack_list(prepare.acceptances_page(world.analyst, identity(LEAD), world.id, after))


def test_an_acceptance_is_kept_as_it_came(world: World) -> None:
    world.publish()
    body = world.acceptance(LEAD)
    prepare.accept(world.analyst, identity(LEAD), world.id, body)
    assert acceptances(world) == [body]


def test_an_acceptance_with_a_field_that_nobody_knows_is_handed_on_as_it_came(world: World) -> None:
    world.publish()
    body = world.acceptance(LEAD, **{"opt_trace@example.org": ("of a later version", 1)})
    prepare.accept(world.analyst, identity(LEAD), world.id, body)
    assert acceptances(world) == [body]


@pytest.mark.parametrize(
    ("chosen", "suite"),
    [
        ({}, "p256"),
        ({}, "mlkem1024-p384"),
        ({"sealing_suite": "p256"}, HYBRID),
        ({"sealing_suite": "p256"}, "x25519"),
    ],
)
def test_a_sealing_key_of_another_suite_than_the_terms_allow_is_refused(
    world: World, chosen: dict[str, Any], suite: str
) -> None:
    world.publish(make_terms(**chosen))
    with pytest.raises(TermsMismatchError, match="the sealing key in the acceptance"):
        prepare.accept(world.analyst, identity(LEAD), world.id, world.acceptance(LEAD, sealing_suite=suite))
    body = world.acceptance(LEAD)
    prepare.accept(world.analyst, identity(LEAD), world.id, body)
    assert acceptances(world) == [body]


def test_accepting_twice_keeps_the_latest(world: World) -> None:
    world.publish()
    first, second = world.acceptance(HOSPITAL), world.acceptance(HOSPITAL, sealing_key=b"another")
    for body in (first, second):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    assert acceptances(world) == [second]


def test_acceptances_that_are_too_many_for_a_message_come_page_by_page(world: World) -> None:
    names = sorted(
        {LEAD, *(f"clinic-{number:05}" for number in range(2 * MAX_MESSAGE_BYTES // ACCEPTANCE_BYTES))}
    )
    world.publish(make_terms(parties=tuple(names)))
    signed = {name: name.encode().ljust(ACCEPTANCE_BYTES) for name in names if name != "clinic-00007"}
    with world.records.begin(write=True) as unit:
        for row in unit.members(world.id):
            row.acceptance = signed.get(row.party)
    found, last, pages = [], "", 0
    while page := acceptances(world, last):
        found += page
        last, pages = page[-1].decode().rstrip(), pages + 1
    assert found == list(signed.values())
    assert pages == 3


def test_the_same_acceptance_is_acknowledged_again_after_the_anchor(world: World) -> None:
    world.publish()
    body = world.acceptance(HOSPITAL)
    world.accept(LEAD)
    prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    world.publish_anchor()
    prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    assert world.state == "anchored"


def test_the_same_acceptance_signed_anew_is_the_same(world: World) -> None:
    world.publish()
    world.accept(LEAD)
    prepare.accept(world.analyst, identity(HOSPITAL), world.id, world.acceptance(HOSPITAL))
    world.publish_anchor()
    with world.records.begin() as unit:
        before = unit.count_of_ledger(world.id, HOSPITAL)
    again = world.acceptance(
        HOSPITAL
    )  # ECDSA draws a number for each signature, and certificates are renewed
    prepare.accept(world.analyst, identity(HOSPITAL), world.id, again)
    with world.records.begin() as unit:
        assert unit.count_of_ledger(world.id, HOSPITAL) == before


def test_another_acceptance_after_the_anchor_is_refused(world: World) -> None:
    world.until_anchored()
    body = world.acceptance(HOSPITAL, sealing_key=b"another key")
    with pytest.raises(OutOfOrderError):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)


def test_accepting_other_terms_is_refused(world: World) -> None:
    world.publish()
    body = world.acceptance(HOSPITAL, terms_digest=digest(make_terms(title="Changed")))
    with pytest.raises(TermsMismatchError):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)


def test_accepting_for_another_is_refused(world: World) -> None:
    world.publish()
    with pytest.raises(NotPermittedError):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, world.acceptance(LEAD))


def test_accepting_in_anothers_name_is_refused(world: World) -> None:
    world.publish()
    of_the_lead = decode_stored(Acceptance, world.acceptance(LEAD))
    body = signed(HOSPITAL, of_the_lead)
    with pytest.raises(NotPermittedError):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)


def test_accepting_another_collaboration_is_refused(world: World) -> None:
    world.publish()
    body = world.acceptance(HOSPITAL, collaboration_id="d0" * 16)
    with pytest.raises(NotPermittedError):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)


def test_a_foreign_party_cannot_accept(world: World) -> None:
    world.publish()
    with pytest.raises(NotFoundError):
        world.accept("hospital-z")


def test_an_acceptance_of_another_text_than_was_to_be_shown_is_refused(world: World) -> None:
    world.publish()
    body = world.acceptance(HOSPITAL, shown_digest=bytes(32))
    with pytest.raises(TermsMismatchError, match="the text that was shown"):
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    assert not member(world, HOSPITAL)["accepted"]


@pytest.mark.parametrize("consents", [True, False])
@pytest.mark.parametrize("model", [SvmTerms(), AutoTerms(candidates=(LogisticTerms(), SvmTerms()))])
def test_row_revealing_terms_need_the_word_of_consent(
    world: World, model: ModelTerms, consents: bool
) -> None:
    world.publish(world.terms.model_copy(update={"model": model}))
    body = world.acceptance(HOSPITAL, accept_row_revealing_model=consents)
    if consents:
        prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    else:
        with pytest.raises(ConsentMissingError):
            prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    assert member(world, HOSPITAL)["accepted"] is consents


@pytest.mark.parametrize("party", [HOSPITAL, "analyst"])
def test_only_the_lead_gets_the_acceptances(world: World, party: str) -> None:
    world.publish()
    with pytest.raises((NotPermittedError, NotFoundError)):
        prepare.acceptances_page(world.analyst, identity(party), world.id, "")


# anchor


def test_each_member_gets_what_was_sealed_for_it(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = {party: world.sealed_anchor(party) for party in (LEAD, HOSPITAL)}
    world.publish_anchor(list(bodies.values()))
    for party, body in bodies.items():
        assert prepare.sealed_anchor(world.analyst, identity(party), world.id) == body


def test_the_same_anchors_again_are_acknowledged_again(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = [world.sealed_anchor(party) for party in (LEAD, HOSPITAL)]
    world.publish_anchor(bodies)
    world.publish_anchor(bodies)
    assert world.state == "anchored"


def test_the_same_anchors_signed_anew_are_the_same(world: World) -> None:
    world.until_anchored()
    before = prepare.sealed_anchor(world.analyst, identity(HOSPITAL), world.id)
    world.publish_anchor()
    assert prepare.sealed_anchor(world.analyst, identity(HOSPITAL), world.id) == before


def test_another_anchor_is_refused(world: World) -> None:
    world.until_anchored()
    parties = (LEAD, HOSPITAL)
    of_another_seed = [world.sealed_anchor(party, seed=b"\xff" * 32) for party in parties]
    sealed_again = [world.sealed_anchor(party, ciphertext=b"sealed once more") for party in parties]
    for bodies in (of_another_seed, sealed_again):
        with pytest.raises(AlreadyExistsError):
            world.publish_anchor(bodies)


def test_the_anchor_waits_for_every_signature(world: World) -> None:
    world.publish()
    world.accept(LEAD)
    with pytest.raises(TermsNotAcceptedError, match=HOSPITAL):
        world.publish_anchor()


@pytest.mark.parametrize("parties", [[], [LEAD, HOSPITAL, "hospital-z"]])
def test_an_anchor_for_others_than_the_members_is_refused(world: World, parties: list[str]) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    with pytest.raises(MalformedMessageError, match="for a member that has accepted"):
        world.publish_anchor([world.sealed_anchor(party) for party in parties])


def test_anchors_of_two_seeds_are_refused(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = [world.sealed_anchor(LEAD), world.sealed_anchor(HOSPITAL, seed=b"\xff" * 32)]
    with pytest.raises(MalformedMessageError, match="different anchors"):
        world.publish_anchor(bodies)


@pytest.mark.parametrize("changed", [{"terms_digest": bytes(32)}, {"collaboration_id": "d0" * 16}])
def test_an_anchor_for_other_terms_is_refused(world: World, changed: dict[str, Any]) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = [world.sealed_anchor(LEAD), world.sealed_anchor(HOSPITAL, **changed)]
    with pytest.raises(TermsMismatchError):
        world.publish_anchor(bodies)


def test_an_institution_cannot_publish_the_anchor(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = [world.sealed_anchor(party, by=HOSPITAL) for party in (LEAD, HOSPITAL)]
    with pytest.raises(NotPermittedError):
        world.publish_anchor(bodies, by=HOSPITAL)


def test_an_anchor_another_has_signed_is_refused(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    with pytest.raises(NotPermittedError):
        world.publish_anchor([world.sealed_anchor(LEAD), world.sealed_anchor(HOSPITAL, by=HOSPITAL)])


def test_a_refused_anchor_leaves_no_trace(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    with pytest.raises(MalformedMessageError):
        world.publish_anchor([world.sealed_anchor(LEAD), world.sealed_anchor("hospital-z")])
    assert world.state == "enrolling"
    assert not member(world, LEAD)["anchor_ready"]


def test_what_was_kept_of_an_anchor_is_given_to_nobody_after_the_end(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    body = world.sealed_anchor(LEAD)
    world.publish_anchor([body])
    end.cancel(world.analyst, world.id)
    with pytest.raises(OutOfOrderError):
        world.publish_anchor([body])
    with pytest.raises(OutOfOrderError):
        prepare.sealed_anchor(world.analyst, identity(LEAD), world.id)


def test_no_anchor_is_taken_once_a_collaboration_is_cancelled(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    end.cancel(world.analyst, world.id)
    with pytest.raises(OutOfOrderError):
        world.publish_anchor()


def test_who_has_not_signed_gets_no_anchor(world: World) -> None:
    world.publish()
    with pytest.raises(TermsNotAcceptedError):
        prepare.sealed_anchor(world.analyst, identity(HOSPITAL), world.id)


def test_there_is_no_anchor_before_the_lead_draws_it(world: World) -> None:
    world.publish()
    world.accept(HOSPITAL)
    with pytest.raises(OutOfOrderError):
        prepare.sealed_anchor(world.analyst, identity(HOSPITAL), world.id)


def test_terms_that_are_put_twice_at_once_are_published_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.enrol(HOSPITAL)
    both, sign = threading.Barrier(2, timeout=30), world.analyst.sign

    def sign_together(message: Any) -> bytes:
        both.wait()  # by now each has seen that there is no such collaboration, if it looked before
        return sign(message)

    monkeypatch.setattr(type(world.analyst), "sign", lambda _, message: sign_together(message))
    with ThreadPoolExecutor(2) as pool:
        draft = json.dumps(DRAFT).encode()
        answers = [pool.submit(prepare.create_once, world.analyst, world.id, draft) for _ in range(2)]
    assert sorted(answer.result() for answer in answers) == [False, True]
