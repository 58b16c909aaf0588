"""Members know the analyst by its key, and tell each other through it which ledger they have seen.

The lead can certify as many analysts as it likes; these tests do, and give one the analyst's database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from protocol.codec import decode, digest, encode, pack_list
from protocol.envelope import decode_stored, sign
from protocol.errors import LedgerError, MalformedMessageError, OdcError
from protocol.identity import Identity, key_digest, key_fingerprint
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, entry_digest, first_previous
from protocol.messages import Acceptance, SeenHead, UplinkManifest
from protocol.operations import ACCEPT_TERMS, LIST_MANIFESTS
from protocol.terms import Terms
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, Consortium
from user_client.custody.round_directory import RECEIPT_FILE, REFUSED_FILE
from user_client.errors import AnotherAnalystError
from user_client.sdk import analyst_key
from user_client.sdk.consortium import unlock_root


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    found = Consortium(tmp_path, monkeypatch)
    yield found
    found.close()


def own_key(made: Consortium) -> str:
    return key_digest(made.analyst.key.public_key())


def pinned(made: Consortium) -> dict[str, Any]:
    return {"analyst_key": own_key(made)}


def replace_analyst(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> ec.EllipticCurvePrivateKey:
    """Let an analyst that the lead has certified beside the first sign everything from now on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = Identity(made.lead.membership.consortium_id, "analyst", "analyst")
    certificate = unlock_root(made.lead, PASSPHRASE).issue(key.public_key(), name, now=made.clock())
    monkeypatch.setattr(Analyst, "sign", lambda _self, message: sign(message, key, certificate))
    return key


def test_the_first_analyst_is_believed_and_no_other(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.until_joined().publish()
    assert analyst_key.believed(made.hospital.home) is None
    made.hospital_round.fetch_terms()
    assert analyst_key.believed(made.hospital.home) == own_key(made)
    other = replace_analyst(made, monkeypatch)
    made.publish()
    with pytest.raises(AnotherAnalystError, match=key_fingerprint(other.public_key())) as caught:
        made.hospital_round.accept()
    assert "odc trust-analyst FINGERPRINT" in caught.value.hint
    assert not made.hospital_round.directory.path.exists()
    analyst_key.believe(made.hospital.home, key_fingerprint(other.public_key()).upper())
    made.hospital_round.accept()


def test_the_lead_believes_the_analyst_whose_request_it_has_compared(made: Consortium) -> None:
    assert analyst_key.believed(made.lead.home) == own_key(made)


def test_no_row_goes_to_another_analyst(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    made.until_anchored()
    found = made.hospital_round
    found.prepare(made.table(1))
    replace_analyst(made, monkeypatch)
    with pytest.raises(AnotherAnalystError):
        found.contribute()
    with made.analyst.records.begin() as unit:
        assert not unit.uplinks_of(made.id, HOSPITAL)


def test_nor_a_second_time(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for the bytes again because its copy is damaged is asked for the key as well."""
    made.until_contributed()
    found = made.hospital_round
    replace_analyst(made, monkeypatch)
    monkeypatch.setattr("user_client.sdk.uplink.is_asked_for_again", lambda *_: True)
    with pytest.raises(AnotherAnalystError):
        found.contribute()


def test_terms_that_name_a_key_bind_the_round_to_it(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for whoever has said since that the analyst has another one."""
    made.until_anchored(**pinned(made))
    found = made.hospital_round
    assert found.terms.analyst_key == own_key(made)
    found.prepare(made.table(1))
    other = replace_analyst(made, monkeypatch)
    analyst_key.believe(made.hospital.home, key_digest(other.public_key()))
    with pytest.raises(AnotherAnalystError) as caught:
        found.contribute()
    assert "a new key needs new terms" in caught.value.hint


def test_a_key_of_another_than_the_publishing_analyst_is_not_published(made: Consortium) -> None:
    with pytest.raises(MalformedMessageError, match="name another analyst's key"):
        made.until_joined().publish(analyst_key="0" * 64)


def test_terms_with_another_key_than_their_signer_are_not_signed(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.until_joined().publish(**pinned(made))
    replace_analyst(made, monkeypatch)
    with made.analyst.records.begin(write=True) as unit:
        row = unit.collaboration(made.id)
        assert row is not None
        row.terms = made.analyst.sign(decode_stored(Terms, row.terms))
    with pytest.raises(AnotherAnalystError):
        made.hospital_round.accept()
    assert analyst_key.believed(made.hospital.home) is None


def test_earlier_rounds_can_be_checked_after_a_change_of_key(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.until_contributed()
    found = made.hospital_round
    other = replace_analyst(made, monkeypatch)
    analyst_key.believe(made.hospital.home, key_digest(other.public_key()))
    found.verify_ledger(found.stored_ledger())


def test_what_members_sign_names_the_ledger_they_have_seen(made: Consortium) -> None:
    made.until_contributed(**pinned(made))
    entries = made.lead_round.fetch_ledger()[1].entries
    for session, seen_then in ((made.lead, (1, 4)), (made.hospital, (2, 6))):
        directory = session.round(made.id).directory
        named = directory.load(Acceptance).seen, directory.load(UplinkManifest).seen
        for seen, length in zip(named, seen_then, strict=True):
            assert seen == SeenHead(length=length, digest=entry_digest(entries[length - 1]))
    made.compute()
    made.hospital_round.receive()


def test_terms_without_a_key_have_no_heads_and_take_none(made: Consortium) -> None:
    made.until_contributed()
    directory = made.hospital_round.directory
    acceptance, manifest = directory.load(Acceptance), directory.load(UplinkManifest)
    assert acceptance.seen is manifest.seen is None
    assert b"seen" not in encode(acceptance) + encode(manifest)
    seen = SeenHead(length=1, digest=bytes(32))
    body = made.hospital.sign(acceptance.model_copy(update={"seen": seen}))
    with pytest.raises(MalformedMessageError, match="seen goes with terms"):
        made.hospital.connection.ask(ACCEPT_TERMS, body, collaboration_id=made.id)


def test_the_analyst_takes_no_head_of_another_ledger(made: Consortium) -> None:
    made.until_joined().publish(**pinned(made))
    made.lead_round.accept()
    acceptance = made.lead_round.directory.load(Acceptance)
    for seen in (SeenHead(length=1, digest=bytes(32)), SeenHead(length=0, digest=bytes(32)), None):
        body = made.lead.sign(acceptance.model_copy(update={"seen": seen}))
        with pytest.raises(OdcError, match=r"has seen another ledger|seen goes with terms"):
            made.lead.connection.ask(ACCEPT_TERMS, body, collaboration_id=made.id)


def forked(made: Consortium, page: Callable[..., bytes]) -> Callable[..., bytes]:
    """A ledger for the hospital alone: its first entry has another time, and all after it follow."""

    def shown(analyst: Analyst, viewer: Identity, collaboration_id: str, start: int) -> bytes:
        data = page(analyst, viewer, collaboration_id, 0)
        entries = list(decode(LedgerPage, data).entries)
        if viewer.name == HOSPITAL:
            entries[0] = entries[0].model_copy(update={"at": entries[0].at - 1})
        chained: list[LedgerEntry] = []
        last = first_previous(made.id)
        for entry in entries:
            chained.append(entry.model_copy(update={"previous": last}))
            last = entry_digest(chained[-1])
        head = LedgerHead(collaboration_id=made.id, length=len(chained), digest=last, at=made.clock())
        return encode(LedgerPage(entries=tuple(chained[start:]), head=made.analyst.sign(head)))

    return shown


def test_the_lead_seals_nothing_where_a_member_has_seen_another_ledger(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history for one member alone: it cannot tell, and the lead can."""
    made.until_joined().publish(**pinned(made))
    monkeypatch.setattr(views, "ledger_page", forked(made, views.ledger_page))
    monkeypatch.setattr("analyst_server.services.prepare.check_seen", lambda *_: None)
    for session in made.sessions:
        session.round(made.id).accept()
    with pytest.raises(LedgerError, match=f"{HOSPITAL} has seen another ledger than ours") as caught:
        made.lead_round.create_anchor()
    assert f"ask {HOSPITAL} for its ledger" in caught.value.hint
    theirs = made.hospital_round.stored_ledger()
    with pytest.raises(LedgerError, match="entry 0: is not the one seen before"):
        made.lead_round.verify_ledger(theirs)


def test_members_find_who_has_seen_another_ledger(made: Consortium) -> None:
    made.until_contributed(**pinned(made))
    assert made.lead_round.fetch_ledger()[1].members == (HOSPITAL,)
    with made.analyst.records.begin(write=True) as unit:
        (uplink,) = unit.uplinks_of(made.id, HOSPITAL)
        manifest = decode_stored(UplinkManifest, uplink.manifest)
        other = manifest.model_copy(update={"seen": SeenHead(length=4, digest=bytes(32))})
        uplink.manifest = made.hospital.sign(other)
    with pytest.raises(LedgerError, match=f"{HOSPITAL} has seen another ledger than ours, of 4 entries"):
        made.lead_round.fetch_ledger()


def test_a_manifest_that_is_not_its_partys_or_not_entered_is_refused(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.until_contributed(**pinned(made))
    (_, theirs) = made.hospital_round.directory.load_signed(UplinkManifest)
    manifest = decode_stored(UplinkManifest, theirs)
    forgeries = {
        "signed by somebody else": made.lead.sign(manifest),
        "no entry 'accept uplink'": made.hospital.sign(manifest.model_copy(update={"chunk_bytes": 2**17})),
        "does not say which ledger": made.hospital.sign(manifest.model_copy(update={"seen": None})),
    }
    ask = made.lead.connection.ask
    for says, forged in forgeries.items():

        def lying(operation: Any, *args: Any, forged: bytes = forged, **ids: Any) -> Any:
            if operation is LIST_MANIFESTS:
                return httpx.Response(200, content=pack_list([] if ids["query"] else [forged]))
            return ask(operation, *args, **ids)

        monkeypatch.setattr(made.lead.connection, "ask", lying)
        with pytest.raises(OdcError, match=says):
            made.lead_round.fetch_ledger()


def test_an_uplink_that_was_begun_keeps_its_manifest(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is what the analyst knows the upload by: the head in it is that of the first attempt."""
    made.until_anchored(**pinned(made))
    found = made.hospital_round
    found.prepare(made.table(1))
    unnamed = digest(found.directory.load(UplinkManifest))
    with monkeypatch.context() as cut_off:
        cut_off.setattr("user_client.sdk.uplink.send_uplink", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            found.contribute()
    begun = digest(found.directory.load(UplinkManifest))
    made.lead_round.prepare(made.table(0))
    made.lead_round.contribute()
    assert found.contribute().uplink_digest == begun != unnamed
    assert not {REFUSED_FILE} & {path.name for path in found.directory.path.iterdir()}
    assert found.directory.holds(RECEIPT_FILE)
    assert LEAD in found.fetch_ledger()[1].members
