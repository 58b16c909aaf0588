"""An analyst that does not relay what it was given: every swap is seen by who it is meant for.

The analyst's operator can write into its database; these tests do, beside the running server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.codec import digest
from protocol.envelope import SealingKey, anchor_info, seal, seed_commitment
from protocol.errors import (
    CertificateRefusedError,
    DigestMismatchError,
    LedgerError,
    NotPermittedError,
    OdcError,
    SealBrokenError,
    TermsMismatchError,
)
from protocol.messages import Acceptance, DownlinkManifest, Receipt, SealedAnchor
from protocol.operations import LIST_CERTIFICATE_REQUESTS
from protocol.terms import Terms
from runtime.terminal import exit_code
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, rows
from tests.harness.relay import (
    FORGERS,
    Signer,
    content,
    signed_by_the_analyst,
    signed_under_a_root_of_its_own,
    tampering,
    the,
)
from user_client import sdk
from user_client.custody.round_directory import CHANGE_FILE, DOWNLINK_FILE, MODEL_FILE
from user_client.sdk import Session


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    names = ("lead-hospital", "hospital-b", "hospital-c")
    with consortium(tmp_path_factory.mktemp("split"), *names) as found:
        yield found


@pytest.mark.parametrize(("forger", "error"), FORGERS)
def test_a_sealing_key_the_relay_slips_in_is_refused_by_the_lead(
    made: Consortium, forger: Callable[[Consortium], Signer], error: type[OdcError]
) -> None:
    found, relay_key = made.publish(), SealingKey.generate()
    for session in made.sessions.values():
        session.round(found).accept()
    signer = forger(made)
    with tampering(made) as unit:
        member = the(unit.member(found, "hospital-b"))
        honest = content(Acceptance, member.acceptance)
        member.acceptance = signer(honest.model_copy(update={"sealing_key": relay_key.public_bytes()}))
    with pytest.raises(error) as caught:
        made.lead.round(found).create_anchor()
    assert (exit_code(caught.value), caught.value.hint) == (5, error.hint)
    assert made.state(found) == "enrolling"  # nothing was sealed, to anybody


def test_an_acceptance_left_out_keeps_the_anchor_from_being_drawn(made: Consortium) -> None:
    found = made.publish()
    for session in made.sessions.values():
        session.round(found).accept()
    with tampering(made) as unit:
        the(unit.member(found, "hospital-b")).acceptance = the(unit.member(found, "hospital-c")).acceptance
    with pytest.raises(OdcError, match="not yet accepted by hospital-b"):
        made.lead.round(found).create_anchor()
    assert made.state(found) == "enrolling"


def test_other_terms_for_one_member_are_seen_by_the_lead(made: Consortium) -> None:
    """The analyst signs both versions; each member signs the digest of what it saw."""
    found = made.publish()
    with tampering(made) as unit:
        collaboration = the(unit.collaboration(found))
        honest, honest_digest = collaboration.terms, collaboration.terms_digest
        other = content(Terms, honest).model_copy(update={"latent_dim": 4})
        collaboration.terms = signed_by_the_analyst(made)(other)
        collaboration.terms_digest = digest(other)
    made.sessions["hospital-b"].round(found).accept()
    with tampering(made) as unit:
        collaboration = the(unit.collaboration(found))
        collaboration.terms, collaboration.terms_digest = honest, honest_digest
    for name in ("lead-hospital", "hospital-c"):
        made.sessions[name].round(found).accept()
    with pytest.raises(TermsMismatchError, match="the acceptance of hospital-b"):
        made.lead.round(found).create_anchor()
    with pytest.raises(TermsMismatchError, match="our acceptance"):
        made.sessions["hospital-b"].round(found).fetch_terms()


def test_terms_that_the_analyst_did_not_sign_are_refused(made: Consortium) -> None:
    found, b = made.publish(), made.sessions["hospital-b"]
    with tampering(made) as unit:
        collaboration = the(unit.collaboration(found))
        collaboration.terms = made.sessions["hospital-c"].sign(content(Terms, collaboration.terms))
    with pytest.raises(NotPermittedError, match="signed by hospital-c, who is not the analyst"):
        b.round(found).accept()
    assert not b.home.collaboration(found).exists()


def refuses_its_anchor(made: Consortium, session: Session, found: str, error: type[OdcError]) -> None:
    with pytest.raises(error) as caught:
        session.round(found).prepare(rows(1, 30))
    assert caught.value.hint == error.hint
    kept = {path.name for path in session.home.collaboration(found).iterdir()}
    assert not kept & {"anchor.odc", "basis.npy", "uplink.odc", "uplink.payload"}
    assert made.state(found) == "anchored"


def test_anchors_swapped_between_members_are_refused_by_both(made: Consortium) -> None:
    found = made.anchored()
    with tampering(made) as unit:
        b, c = the(unit.member(found, "hospital-b")), the(unit.member(found, "hospital-c"))
        b.sealed_anchor, c.sealed_anchor = c.sealed_anchor, b.sealed_anchor
    for name in ("hospital-b", "hospital-c"):
        refuses_its_anchor(made, made.sessions[name], found, SealBrokenError)
    with tampering(made) as unit:  # the relay thinks better of it
        b, c = the(unit.member(found, "hospital-b")), the(unit.member(found, "hospital-c"))
        b.sealed_anchor, c.sealed_anchor = c.sealed_anchor, b.sealed_anchor
    assert made.sessions["hospital-b"].round(found).prepare(rows(1, 30)).rows == 30


@pytest.mark.parametrize(("forger", "error"), FORGERS)
def test_an_anchor_of_the_relays_own_choice_is_refused(
    made: Consortium, forger: Callable[[Consortium], Signer], error: type[OdcError]
) -> None:
    """Whoever knows the anchor can undo every projection, so this is the swap that would pay."""
    found, seed = made.anchored(), bytes(range(32))
    signer = forger(made)
    with tampering(made) as unit:
        member = the(unit.member(found, "hospital-b"))
        honest = content(SealedAnchor, member.sealed_anchor)
        acceptance = content(Acceptance, member.acceptance)
        info = anchor_info(found, honest.terms_digest, "hospital-b")
        sealed = seal(seed, acceptance.sealing_suite, acceptance.sealing_key, info)
        changes = {"ciphertext": sealed, "commitment": seed_commitment(seed)}
        member.sealed_anchor = signer(honest.model_copy(update=changes))
    refuses_its_anchor(made, made.sessions["hospital-b"], found, error)


def test_an_anchor_of_another_round_is_refused(made: Consortium) -> None:
    earlier, found = made.anchored(), made.anchored()
    with tampering(made) as unit:
        the(unit.member(found, "hospital-b")).sealed_anchor = the(
            unit.member(earlier, "hospital-b")
        ).sealed_anchor
    refuses_its_anchor(made, made.sessions["hospital-b"], found, TermsMismatchError)


@pytest.fixture(scope="module")
def finished(made: Consortium) -> str:
    found = made.anchored()
    made.contribute_all(found)
    made.wait_for(found, "released")
    return found


def test_a_receipt_signed_by_somebody_else_is_refused(made: Consortium, finished: str) -> None:
    b = made.sessions["hospital-b"]
    receipt = b.home.collaboration(finished) / "receipt.odc"
    honest = receipt.read_bytes()
    for signer in (made.sessions["hospital-c"].sign, made.lead.sign, b.sign):
        with refusing_receipt(made, finished, signer(content(Receipt, honest))):
            receipt.unlink(missing_ok=True)
            with pytest.raises(NotPermittedError, match="who is not the analyst"):
                b.round(finished).contribute()
            assert not receipt.exists()
    b.round(finished).contribute()
    assert receipt.read_bytes() == honest


def test_a_receipt_for_other_bytes_is_refused(made: Consortium, finished: str) -> None:
    b = made.sessions["hospital-b"]
    receipt = b.home.collaboration(finished) / "receipt.odc"
    honest = content(Receipt, receipt.read_bytes())
    signer = signed_by_the_analyst(made)
    for change in ({"uplink_digest": bytes(32)}, {"party": "hospital-c"}, {"collaboration_id": "0" * 32}):
        with refusing_receipt(made, finished, signer(honest.model_copy(update=change))):
            receipt.unlink(missing_ok=True)
            with pytest.raises(NotPermittedError, match="the receipt is for"):
                b.round(finished).contribute()
            assert not receipt.exists()
    b.round(finished).contribute()


@contextmanager
def refusing_receipt(made: Consortium, found: str, forged: bytes) -> Iterator[None]:
    with tampering(made) as unit:
        (uplink,) = unit.uplinks_of(found, "hospital-b")
        honest, uplink.receipt = uplink.receipt, forged
    yield
    with tampering(made) as unit:
        (uplink,) = unit.uplinks_of(found, "hospital-b")
        uplink.receipt = honest


@contextmanager
def forged_downlink(made: Consortium, found: str, forge: Callable[[bytes], bytes]) -> Iterator[None]:
    with tampering(made) as unit:
        row = the(unit.downlink(found, "hospital-b"))
        honest, row.manifest = row.manifest, forge(row.manifest)
    yield
    with tampering(made) as unit:
        the(unit.downlink(found, "hospital-b")).manifest = honest


def test_a_downlink_that_is_not_the_analysts_answer_to_us_is_refused(made: Consortium, finished: str) -> None:
    b, analyst = made.sessions["hospital-b"], signed_by_the_analyst(made)
    directory = b.home.collaboration(finished)

    def changed(**change: object) -> Callable[[bytes], bytes]:
        return lambda signed: analyst(content(DownlinkManifest, signed).model_copy(update=change))

    forgeries: list[tuple[Callable[[bytes], bytes], type[OdcError]]] = [
        (
            lambda signed: made.sessions["hospital-c"].sign(content(DownlinkManifest, signed)),
            NotPermittedError,
        ),
        (lambda signed: made.lead.sign(content(DownlinkManifest, signed)), NotPermittedError),
        (
            lambda signed: signed_under_a_root_of_its_own(made)(content(DownlinkManifest, signed)),
            CertificateRefusedError,
        ),
        (changed(uplink_digest=bytes(32)), NotPermittedError),
        (changed(party="hospital-c"), NotPermittedError),
        (changed(terms_digest=bytes(32)), NotPermittedError),
    ]
    for forge, error in forgeries:
        with forged_downlink(made, finished, forge):
            with pytest.raises(error) as caught:
                b.round(finished).receive()
            assert caught.value.hint == error.hint
        assert not {path.name for path in directory.iterdir()} & {DOWNLINK_FILE, CHANGE_FILE, MODEL_FILE}
    b.round(finished).receive()
    assert len(b.round(finished).predict(rows(9, 4)).labels) == 4


def test_a_model_that_is_not_the_signed_one_is_refused(made: Consortium, finished: str) -> None:
    c = made.sessions["hospital-c"]
    results = (made.analyst.data_dir / "blobs" / finished / "results").iterdir()
    blob = max(results, key=lambda path: path.stat().st_size)  # the model, not a change of basis
    honest = blob.read_bytes()
    blob.write_bytes(honest[:-1] + bytes([honest[-1] ^ 1]))
    with pytest.raises(DigestMismatchError) as caught:
        c.round(finished).receive()
    assert exit_code(caught.value) == 4
    blob.write_bytes(honest)
    c.round(finished).receive()


@pytest.fixture
def swapped(made: Consortium) -> tuple[str, Path]:
    """A released round in which hospital-b gets another model, signed by the analyst for it alone."""
    found = made.anchored()
    made.contribute_all(found)
    made.wait_for_judgement(found)
    elsewhere = made.anchored()
    for seed, name in enumerate(made.names):
        made.contribute(name, elsewhere, rows(50 + seed, 30))
    made.wait_for_judgement(elsewhere)
    with tampering(made) as unit:
        row, other = the(unit.downlink(found, "hospital-b")), the(unit.downlink(elsewhere, "hospital-b"))
        honest, wrong = content(DownlinkManifest, row.manifest), content(DownlinkManifest, other.manifest)
        arrays = honest.arrays[0], wrong.arrays[1]
        row.manifest = signed_by_the_analyst(made)(honest.model_copy(update={"arrays": arrays}))
    blobs = made.analyst.data_dir / "blobs"
    for path in (blobs / elsewhere / "results").iterdir():
        (blobs / found / "results" / path.name).write_bytes(path.read_bytes())
    return found, made.sessions["hospital-b"].home.collaboration(found)


def test_another_model_for_one_member_is_refused_when_it_comes(
    made: Consortium, swapped: tuple[str, Path]
) -> None:
    """Signature, digests and shapes hold: only the ledger, which is of the model of the others, tells."""
    found, directory = swapped
    b = made.sessions["hospital-b"].round(found)
    with pytest.raises(LedgerError, match="'release' is not of the model we were sent") as caught:
        b.receive()
    assert exit_code(caught.value) == 5
    assert str(directory / "ledger.refused.odc") in caught.value.hint
    refused = content(DownlinkManifest, (directory / "downlink.refused.odc").read_bytes())
    assert refused.party == "hospital-b"
    assert not {path.name for path in directory.iterdir()} & {DOWNLINK_FILE, CHANGE_FILE, MODEL_FILE}
    with pytest.raises(OdcError, match="earlier one: odc receive"):
        b.predict(rows(9, 4))
    made.lead.round(found).receive()  # who is told the truth goes on


def test_the_analyst_cannot_choose_which_file_the_lead_forgets(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An invitation is forgotten under the id in its signed ticket, not under the one the relay says."""
    with Session(tmp_path) as newcomer:
        assert sdk.join(newcomer, sdk.invite(made.lead, "hospital-d")) is None
        answer = made.lead.connection.ask_json(LIST_CERTIFICATE_REQUESTS)
        lying = {"enrolments": [{**row, "invitation_id": "../../membership"} for row in answer["enrolments"]]}
        monkeypatch.setattr(made.lead.connection, "ask_json", lambda *_, **__: lying)
        (approved,) = sdk.approve_pending(made.lead, PASSPHRASE)
        assert approved.identity.name == "hospital-d"
        assert made.lead.is_joined()
        assert sdk.join(newcomer, None) is not None
