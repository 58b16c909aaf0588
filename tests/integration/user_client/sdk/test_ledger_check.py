from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_server.services import views
from protocol.codec import decode, encode
from protocol.envelope import sign
from protocol.errors import (
    CertificateRevokedError,
    LedgerError,
    LimitExceededError,
    NotPermittedError,
    OdcError,
    TruncatedError,
)
from protocol.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerPage,
    check_chain,
    entry_digest,
    first_previous,
    pack_pages,
    unpack_pages,
)
from protocol.messages import Receipt
from protocol.states import Event
from tests.harness.certificates import NOT_AFTER
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, Consortium
from user_client.custody.round_directory import LEDGER_FILE, REFUSED_FILE
from user_client.errors import NotPreparedError
from user_client.sdk import (
    Session,
    ledger_check,
    renew_own,
    revoke,
    update_revocations,
)

# a spoilt serial number can come out negative, which the parser still reads, with a warning
pytestmark = pytest.mark.filterwarnings("ignore:Parsed a serial number")


@dataclass
class Round:
    """A finished round and its ledger."""

    made: Consortium
    data: bytes

    @property
    def entries(self) -> list[LedgerEntry]:
        return [entry for page in unpack_pages(self.data) for entry in page.entries]

    def find(self, event: Event, party: str | None = None) -> int:
        return next(one.index for one in self.entries if (one.event, one.party) == (event, party))

    def forged(self, entries: list[LedgerEntry], signer: Any = None, **head: Any) -> bytes:
        """What an analyst can make: any entries, chained and signed anew."""
        chained, last = [], first_previous(self.made.id)
        for index, entry in enumerate(entries):
            chained.append(entry.model_copy(update={"index": index, "previous": last}))
            last = entry_digest(chained[-1])
        values = {
            "collaboration_id": self.made.id,
            "length": len(chained),
            "digest": last,
            "at": self.made.clock(),
            **head,
        }
        signed = (signer or self.made.analyst.sign)(LedgerHead(**values))
        return pack_pages([encode(LedgerPage(entries=tuple(chained), head=signed))])

    def with_changed(self, index: int, **fields: Any) -> bytes:
        entries = self.entries
        entries[index] = entries[index].model_copy(update=fields)
        return self.forged(entries)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    with pytest.MonkeyPatch.context() as patched:
        made = Consortium(Path(tmp_path_factory.mktemp("ledger")), patched)
        made.until_released()
        for session in made.sessions:
            session.round(made.id).receive()
        yield Round(made, made.lead_round.fetch_ledger()[0])
        made.close()


@pytest.fixture
def hospital(played: Round, tmp_path: Path) -> Session:
    """The hospital as it is after the round, before it has seen a ledger; its own copy."""
    shutil.copytree(played.made.hospital.home.path, tmp_path / "home")
    session = Session(tmp_path / "home", played.made.clock)
    (directory(session, played) / LEDGER_FILE).unlink()
    return session


def directory(session: Session, played: Round) -> Path:
    return session.home.collaboration(played.made.id)


def test_the_ledger_of_another_member_holds_here_too(played: Round, hospital: Session) -> None:
    checked = hospital.round(played.made.id).verify_ledger(played.data)
    assert [entry.event for entry in checked.entries][:1] == ["publish terms"]
    assert checked.entries[-1].event == "fetch downlink"
    assert set(checked.checked) == {
        "terms.odc",
        "acceptance.odc",
        "anchor.odc",
        "uplink.odc",
        "receipt.odc",
        "downlink.odc",
    }
    assert hospital.round(played.made.id).stored_ledger() == played.data


@pytest.mark.parametrize("is_whole", [True, False], ids=["one bit of every byte", "every bit of a short one"])
def test_a_flipped_bit_anywhere_is_found(played: Round, hospital: Session, is_whole: bool) -> None:
    """An error of ours each time, and never another."""
    for path in directory(hospital, played).glob("*.odc"):
        path.unlink()  # nothing but the ledger itself can tell
    no_steps_of_ours = [entry for entry in played.entries if entry.party != HOSPITAL]
    data = bytearray(played.forged(no_steps_of_ours[:2]))
    if is_whole:
        shutil.copytree(
            directory(played.made.hospital, played), directory(hospital, played), dirs_exist_ok=True
        )
        data = bytearray(played.data)
    for place in range(len(data)):
        for bit in [place % 8] if is_whole else range(8):
            data[place] ^= 1 << bit
            with pytest.raises(OdcError):
                hospital.round(played.made.id).verify_ledger(bytes(data))
            data[place] ^= 1 << bit
    hospital.round(played.made.id).verify_ledger(bytes(data))


@pytest.mark.parametrize("keep", [0, 1, 4, 100, -1])
def test_a_ledger_that_was_cut_off_is_found(played: Round, hospital: Session, keep: int) -> None:
    with pytest.raises((LedgerError, TruncatedError)):
        hospital.round(played.made.id).verify_ledger(played.data[:keep])


def test_the_error_names_the_entry_that_was_changed(played: Round, hospital: Session) -> None:
    page = unpack_pages(played.data)[0]
    changed = page.entries[3].model_copy(update={"at": 1})
    entries = (*page.entries[:3], changed, *page.entries[4:])
    spoilt = pack_pages([encode(page.model_copy(update={"entries": entries}))])
    with pytest.raises(LedgerError, match="entry 4: does not continue entry 3"):
        hospital.round(played.made.id).verify_ledger(spoilt)


def test_a_rewritten_ledger_is_found_by_the_receipt(played: Round, hospital: Session) -> None:
    """Nothing was seen before: the receipt alone pins all that came before it."""
    index = played.find(Event.ACCEPT_UPLINK, HOSPITAL)
    with pytest.raises(LedgerError, match=f"entry {index}: is not the one our receipt names"):
        hospital.round(played.made.id).verify_ledger(played.with_changed(0, at=1))


def test_a_rewritten_ledger_is_found_by_the_one_seen_before(played: Round, hospital: Session) -> None:
    hospital.round(played.made.id).verify_ledger(played.data)
    last = len(played.entries) - 1
    with pytest.raises(LedgerError, match=f"entry {last}: is not the one seen before"):
        hospital.round(played.made.id).verify_ledger(played.with_changed(last, at=1))


def test_a_shortened_ledger_is_found(played: Round, hospital: Session) -> None:
    (directory(hospital, played) / "downlink.odc").unlink()  # which the last entry is about
    shorter = played.forged(played.entries[:-1])
    hospital.round(played.made.id).verify_ledger(shorter)
    hospital.round(played.made.id).verify_ledger(played.data)
    assert hospital.round(played.made.id).stored_ledger() == played.data
    with pytest.raises(LedgerError, match="it was shortened"):
        hospital.round(played.made.id).verify_ledger(shorter)


def test_a_ledger_that_ends_before_our_uplink_is_found(played: Round, hospital: Session) -> None:
    index = played.find(Event.ACCEPT_UPLINK, HOSPITAL)
    with pytest.raises(LedgerError, match=f"our receipt names entry {index}"):
        hospital.round(played.made.id).verify_ledger(played.forged(played.entries[:index]))


@pytest.mark.parametrize(
    ("event", "party"),
    [
        (Event.PUBLISH_TERMS, None),
        (Event.ACCEPT_TERMS, HOSPITAL),
        (Event.PUBLISH_ANCHOR, LEAD),
        (Event.ACCEPT_UPLINK, HOSPITAL),
        (Event.RELEASE, None),
        (Event.FETCH_DOWNLINK, HOSPITAL),
    ],
    ids=str,
)
@pytest.mark.parametrize("subject", [None, bytes(32)], ids=["none", "another"])
def test_a_step_about_another_message_than_ours_is_found(
    played: Round, hospital: Session, event: Event, party: str | None, subject: bytes | None
) -> None:
    (directory(hospital, played) / "receipt.odc").unlink()  # which would say it first
    index = played.find(event, party)
    with pytest.raises(LedgerError, match=f"entry {index}: '{event}'"):
        hospital.round(played.made.id).verify_ledger(played.with_changed(index, subject=subject))


def test_the_uplink_of_a_receipt_must_be_the_one_entered(played: Round, hospital: Session) -> None:
    index = played.find(Event.ACCEPT_UPLINK, HOSPITAL)
    heads = check_chain(played.made.id, played.entries)
    other = played.find(Event.ACCEPT_UPLINK, LEAD)
    for number, match in ((other, "does not accept the uplink our receipt is for"), (99, "names entry 99")):
        receipt = directory(hospital, played) / "receipt.odc"
        stored = hospital.round(played.made.id).directory.load(Receipt)
        digest = heads[min(number, len(heads) - 2) + 1]
        moved = stored.model_copy(update={"ledger_index": number, "ledger_digest": digest})
        receipt.write_bytes(played.made.analyst.sign(moved))
        with pytest.raises(LedgerError, match=match):
            hospital.round(played.made.id).verify_ledger(played.data)
    assert index != other


def test_an_uplink_that_was_forgotten_is_told_by_its_receipt(played: Round, hospital: Session) -> None:
    (directory(hospital, played) / "uplink.odc").unlink()
    assert "uplink.odc" not in hospital.round(played.made.id).verify_ledger(played.data).checked


@pytest.mark.parametrize("names", [("acceptance.odc",), ("uplink.odc", "receipt.odc")])
def test_a_step_in_our_name_that_we_know_nothing_of_is_found(
    played: Round, hospital: Session, names: tuple[str, ...]
) -> None:
    for name in names:
        (directory(hospital, played) / name).unlink()
    with pytest.raises(LedgerError, match="in our name, but no such message is stored here"):
        hospital.round(played.made.id).verify_ledger(played.data)


def test_a_second_acceptance_in_our_name_is_found(played: Round, hospital: Session) -> None:
    """Also one that our own follows."""
    (directory(hospital, played) / "receipt.odc").unlink()
    index = played.find(Event.ACCEPT_TERMS, HOSPITAL)
    another = played.entries[index].model_copy(update={"subject": bytes(32)})
    entries = [*played.entries[:index], another, *played.entries[index:]]
    with pytest.raises(
        LedgerError, match=f"entry {index}: 'accept terms' in our name is not about the message"
    ):
        hospital.round(played.made.id).verify_ledger(played.forged(entries))


def test_a_step_of_ours_that_was_left_out_is_found(played: Round, hospital: Session) -> None:
    before = played.find(Event.ACCEPT_TERMS, HOSPITAL)
    entries = [entry for entry in played.entries if entry.index != before]
    (directory(hospital, played) / "receipt.odc").unlink()
    with pytest.raises(LedgerError, match="no entry 'accept terms' in our name"):
        hospital.round(played.made.id).verify_ledger(played.forged(entries))


def test_an_anchor_we_have_needs_its_entry(played: Round, hospital: Session) -> None:
    for name in ("receipt.odc", "uplink.odc", "downlink.odc"):
        (directory(hospital, played) / name).unlink()
    only_terms = played.entries[: played.find(Event.PUBLISH_ANCHOR, LEAD)]
    with pytest.raises(LedgerError, match="no entry 'publish anchor', though we have the anchor"):
        hospital.round(played.made.id).verify_ledger(played.forged(only_terms))


HEADS: dict[str, tuple[dict[str, Any], str]] = {
    "of another collaboration": ({"collaboration_id": "f" * 32}, "of another collaboration"),
    "of more entries": ({"length": 99}, "a head promises 99"),
    "of no entries": ({"length": 0}, "a head promises 0"),
    "of fewer entries": ({"length": 1}, "entry 0: is not the one the analyst signed"),
    "of other entries": ({"digest": bytes(32)}, "is not the one the analyst signed"),
    "signed tomorrow": ({"at": NOT_AFTER}, "in the future"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_not_of_these_entries_is_found(played: Round, hospital: Session, name: str) -> None:
    values, match = HEADS[name]
    with pytest.raises(LedgerError, match=match):
        hospital.round(played.made.id).verify_ledger(played.forged(played.entries, **values))


def test_an_older_head_of_the_same_entries_is_not_their_head(played: Round, hospital: Session) -> None:
    heads = check_chain(played.made.id, played.entries)
    older = played.forged(played.entries, length=1, digest=heads[1])
    with pytest.raises(LedgerError, match=r"has \d+ entries, its head is of 1"):
        hospital.round(played.made.id).verify_ledger(older)


def test_only_the_analyst_signs_heads(played: Round, hospital: Session) -> None:
    lead = played.made.lead
    forged = played.forged(played.entries, lambda head: sign(head, lead.home.key(), lead.home.certificate()))
    with pytest.raises(NotPermittedError, match=f"signed by {LEAD}"):
        hospital.round(played.made.id).verify_ledger(forged)


def test_a_ledger_outlives_the_certificate_it_was_signed_with(
    played: Round, hospital: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hospital, "clock", lambda: played.made.clock() + 10 * 365 * 86400)
    hospital.round(played.made.id).verify_ledger(played.data)


def test_too_long_a_ledger_is_not_read(
    played: Round, hospital: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_check, "MAX_LEDGER_BYTES", 1000)
    for ask in (
        lambda: hospital.round(played.made.id).verify_ledger(played.data),
        lambda: played.made.hospital_round.fetch_ledger(),
    ):
        with pytest.raises(LimitExceededError):
            ask()


def test_a_ledger_comes_in_pages(played: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_LEDGER_PAGE", 4)
    data, checked = played.made.lead_round.fetch_ledger()
    pages = unpack_pages(data)
    assert [len(page.entries) for page in pages[:-1]] == [4] * (len(pages) - 1)
    assert list(checked.entries) == played.entries


def test_a_ledger_that_stops_short_of_its_head_is_found(
    played: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = unpack_pages(played.data)[0]
    empty = encode(page.model_copy(update={"entries": ()}))
    monkeypatch.setattr(
        type(played.made.hospital.connection), "ask", lambda *_, **__: httpx.Response(200, content=empty)
    )
    with pytest.raises(LedgerError, match="its head promises"):
        played.made.hospital_round.fetch_ledger()


def test_before_the_first_fetch_there_is_none(played: Round, hospital: Session) -> None:
    with pytest.raises(NotPreparedError):
        hospital.round(played.made.id).stored_ledger()


# each with a round of its own, whose analyst lies


def test_what_does_not_hold_is_kept_as_evidence(consortium: Consortium) -> None:
    consortium.until_accepted()
    consortium.hospital_round.fetch_ledger()
    with consortium.analyst.records.begin(write=True) as unit:
        unit.ledger(consortium.id)[-1].at += 1
    consortium.restart_analyst()
    evidence = consortium.directory_of(consortium.hospital) / REFUSED_FILE
    with pytest.raises(LedgerError) as caught:
        consortium.hospital_round.fetch_ledger()
    assert str(evidence) in caught.value.hint
    kept = evidence.read_bytes()
    assert len(unpack_pages(kept)[0].entries) == 3
    with pytest.raises(LedgerError):
        consortium.hospital_round.verify_ledger(kept)


def test_what_was_seen_before_is_checked_too(consortium: Consortium) -> None:
    consortium.until_accepted()
    data, _ = consortium.hospital_round.fetch_ledger()
    (consortium.directory_of(consortium.hospital) / LEDGER_FILE).write_bytes(data[:-1])
    with pytest.raises(LedgerError, match=rf"the ledger seen before, .*{LEDGER_FILE}"):
        consortium.hospital_round.fetch_ledger()


def test_an_acceptance_that_was_not_sent_yet_is_no_contradiction(consortium: Consortium) -> None:
    consortium.until_accepted()
    page = decode(
        LedgerPage,
        views.ledger_page(consortium.analyst, consortium.hospital.membership.identity, consortium.id, 0),
    )
    early = Round(consortium, b"").forged(list(page.entries[:1]))
    assert consortium.hospital_round.verify_ledger(early).checked == ("terms.odc",)


def test_a_revoked_analyst_signs_no_ledger(consortium: Consortium) -> None:
    consortium.until_accepted()
    data, _ = consortium.hospital_round.fetch_ledger()
    renew_own(consortium.lead, PASSPHRASE)
    revoke(consortium.lead, "analyst", PASSPHRASE)
    update_revocations(consortium.hospital, consortium.lead.home.revocations_path.read_bytes())
    with pytest.raises(CertificateRevokedError):
        consortium.hospital_round.verify_ledger(data)
