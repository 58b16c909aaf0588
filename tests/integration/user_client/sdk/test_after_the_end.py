"""A round that goes on, and what it leaves, after the certificates that signed its messages have ended."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server import installation
from analyst_server.app import create_app
from analyst_server.installation import open_analyst
from analyst_server.services import views
from protocol.codec import digest
from protocol.errors import CertificateRefusedError
from protocol.ledger import LedgerEntry, entry_digest, first_previous, pack_pages
from protocol.messages import Acceptance, SeenHead
from protocol.states import Event, State
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, Consortium
from tests.harness.world import make_terms
from user_client.custody.authority import MEMBER_VALIDITY
from user_client.custody.round_directory import LEDGER_FILE
from user_client.evidence_verifier import verify
from user_client.sdk import approve_pending, approve_request, renew, renew_own, revoke
from user_client.sdk.seen_heads import check_acceptances

VALIDITY_S = int(MEMBER_VALIDITY.total_seconds())
DAY_S = 86400


def near_the_end(consortium: Consortium) -> Consortium:
    """Come to the last month of every certificate."""
    consortium.clock.now += VALIDITY_S - 20 * DAY_S
    return consortium


def beyond_it(consortium: Consortium) -> Consortium:
    """Let everybody renew, and come to where only the new certificates hold."""
    renew_own(consortium.lead, PASSPHRASE)
    renew(consortium.hospital)
    approve_pending(consortium.lead, PASSPHRASE)
    assert renew(consortium.hospital) is not None
    request = installation.renew(consortium.settings.identity_dir)
    issued = approve_request(consortium.lead, request, PASSPHRASE).certificate
    pem = issued.public_bytes(Encoding.PEM)
    installation.install(consortium.settings.identity_dir, pem, now=consortium.clock())
    for session in consortium.sessions:
        session.close()
    consortium.analyst.records.dispose()
    consortium.analyst = open_analyst(consortium.settings, consortium.clock)
    consortium.app = create_app(consortium.analyst, consortium.settings)
    consortium.clock.now += 30 * DAY_S
    return consortium


def finish(consortium: Consortium) -> None:
    consortium.compute()
    for session in consortium.sessions:
        session.round(consortium.id).receive()
        data, checked = session.round(consortium.id).fetch_ledger()
        assert checked.entries[-1].state == "released"
        session.round(consortium.id).verify_ledger(data)
        made = session.round(consortium.id).evidence()
        assert verify(made.archive, made.root_fingerprint).doubts == []


def who_accepted(consortium: Consortium) -> list[str]:
    """Return whose acceptance is in the ledger, which everybody checks."""
    entries = consortium.lead_round.fetch_ledger()[1].entries
    return sorted(str(entry.party) for entry in entries if entry.event == Event.ACCEPT_TERMS)


def test_terms_that_were_published_before_are_accepted_after_it(consortium: Consortium) -> None:
    consortium.until_joined()
    near_the_end(consortium).publish()
    beyond_it(consortium)
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    assert who_accepted(consortium) == [HOSPITAL, LEAD]


def test_what_was_accepted_before_is_sealed_after_it(consortium: Consortium) -> None:
    consortium.until_joined()
    near_the_end(consortium).publish()
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    beyond_it(consortium)
    for session in consortium.sessions:
        session.round(consortium.id).accept()  # the same once more, as after a broken line
    consortium.lead_round.create_anchor()
    assert who_accepted(consortium) == [HOSPITAL, LEAD]
    assert all(each["anchor_ready"] for each in consortium.lead_round.status()["members"])


def test_an_anchor_that_was_sealed_before_is_opened_after_it_and_the_round_ends(
    consortium: Consortium,
) -> None:
    consortium.until_joined()
    near_the_end(consortium).publish()
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    consortium.lead_round.create_anchor()
    consortium.lead_round.prepare(consortium.table(0))
    beyond_it(consortium)
    consortium.lead_round.create_anchor()  # the same copies once more
    consortium.lead_round.contribute()
    consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.contribute()
    finish(consortium)
    events = [entry.event for entry in consortium.lead_round.fetch_ledger()[1].entries]
    assert (events.count(Event.ACCEPT_TERMS), events.count(Event.PUBLISH_ANCHOR)) == (2, 1)


def test_what_was_released_before_is_received_and_shown_after_it(consortium: Consortium) -> None:
    consortium.until_joined()
    near_the_end(consortium).publish()
    consortium.contribute_all()
    for session in consortium.sessions:
        (session.round(consortium.id).directory.path / "receipt.odc").unlink()  # as if it had not arrived
    consortium.compute()
    beyond_it(consortium)
    for session in consortium.sessions:
        session.round(consortium.id).receive()
        made = session.round(consortium.id).evidence()
        assert verify(made.archive, made.root_fingerprint).doubts == []


def test_a_head_from_after_the_end_of_its_certificate_is_refused(consortium: Consortium) -> None:
    consortium.until_accepted()
    for late_s, holds in ((200, True), (400, False)):
        ends = int(consortium.analyst.certificate.not_valid_after_utc.timestamp())
        consortium.clock.now = ends + late_s
        data = pack_pages([views.ledger_page(consortium.analyst, None, consortium.id, 0)])
        if holds:  # the clocks of two machines differ
            assert consortium.lead_round.verify_ledger(data).signed_at == ends + late_s
        else:
            with pytest.raises(CertificateRefusedError, match="had ended before"):
                consortium.lead_round.verify_ledger(data)


@pytest.mark.parametrize(("late_s", "holds"), [(200, True), (400, False)])
def test_an_acceptance_from_after_the_end_of_its_certificate_gets_no_anchor(
    consortium: Consortium, late_s: int, holds: bool
) -> None:
    consortium.until_joined()
    terms = make_terms()
    ends = int(consortium.hospital.home.certificate().not_valid_after_utc.timestamp())
    acceptance = Acceptance(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        shown_digest=bytes(32),
        party=HOSPITAL,
        sealing_suite="x25519",
        sealing_key=b"k" * 32,
        accept_row_revealing_model=False,
        seen=SeenHead(length=1, digest=bytes(32)),
    )
    published = LedgerEntry(
        index=0,
        at=ends - DAY_S,
        event=Event.PUBLISH_TERMS,
        party=None,
        state=State.ENROLLING,
        subject=digest(terms),
        previous=first_previous(terms.collaboration_id),
    )
    seen = SeenHead(length=1, digest=entry_digest(published))
    acceptance = acceptance.model_copy(update={"seen": seen})
    accepted = published.model_copy(
        update={
            "index": 1,
            "at": ends + late_s,
            "event": Event.ACCEPT_TERMS,
            "party": HOSPITAL,
            "subject": digest(acceptance),
            "previous": seen.digest,
        }
    )
    bodies = [consortium.hospital.sign(acceptance)]
    with nullcontext() if holds else pytest.raises(CertificateRefusedError, match="had ended before"):
        check_acceptances(bodies, [published, accepted])


def test_what_the_ledger_had_before_a_revocation_is_no_doubt(consortium: Consortium) -> None:
    consortium.until_contributed()
    consortium.hospital_round.fetch_ledger()
    made = consortium.hospital_round.evidence()
    assert verify(made.archive, made.root_fingerprint).doubts == []
    consortium.clock.now += DAY_S
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    newest = consortium.lead.home.revocations_path.read_bytes()
    doubts = verify(made.archive, made.root_fingerprint, newest).doubts
    assert [doubt.partition(":")[0] for doubt in doubts] == ["odc/v1/evidence-index"]


def test_without_a_ledger_a_revocation_makes_all_doubtful(consortium: Consortium) -> None:
    consortium.until_contributed()
    (consortium.hospital_round.directory.path / LEDGER_FILE).unlink()
    made = consortium.hospital_round.evidence()
    consortium.clock.now += DAY_S
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    newest = consortium.lead.home.revocations_path.read_bytes()
    doubts = verify(made.archive, made.root_fingerprint, newest).doubts
    assert {doubt.partition(":")[0] for doubt in doubts} == {
        "odc/v1/evidence-index",
        "odc/v1/acceptance",
        "odc/v1/uplink",
    }


def test_a_ledger_that_a_revoked_analyst_has_signed_proves_nothing(consortium: Consortium) -> None:
    consortium.until_contributed()
    consortium.hospital_round.fetch_ledger()
    made = consortium.hospital_round.evidence()
    consortium.clock.now += DAY_S
    revoke(consortium.lead, "analyst", PASSPHRASE)
    newest = consortium.lead.home.revocations_path.read_bytes()
    doubts = verify(made.archive, made.root_fingerprint, newest).doubts
    assert {"odc/v1/terms", "odc/v1/receipt", "odc/v1/ledger-head"} == {
        doubt.partition(":")[0] for doubt in doubts
    }
