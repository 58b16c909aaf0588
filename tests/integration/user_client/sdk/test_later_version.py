"""A round with programs of a later version, which say more: whoever does not know it keeps it and goes on."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from protocol.codec import Message, decode, encode
from protocol.envelope import decode_stored
from protocol.ledger import LedgerHead, LedgerPage, unpack_pages
from protocol.messages import Acceptance, DownlinkManifest, Receipt, SealedAnchor, UplinkManifest
from tests.harness.in_process import Consortium
from user_client.sdk import Session

LATER = {"opt_later": ("than this program", {"knows": b"\0"})}


def saying_more(message: Message) -> Message:
    return message.model_copy(update=LATER) if message.model_config["extra"] == "allow" else message


@pytest.fixture(autouse=True)
def later_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everybody sign open messages with an optional field, and the analyst put one into its pages."""
    for kind in (Session, Analyst):

        def sign(self: Any, message: Message, before: Any = kind.sign) -> bytes:
            return bytes(before(self, saying_more(message)))

        monkeypatch.setattr(kind, "sign", sign)
    page = views.ledger_page

    def ledger_page(*asked: Any) -> bytes:
        return encode(saying_more(decode(LedgerPage, page(*asked))))

    monkeypatch.setattr(views, "ledger_page", ledger_page)


def test_a_round_ends_the_same_and_what_was_kept_is_kept_whole(consortium: Consortium) -> None:
    consortium.until_released()
    round_ = consortium.hospital_round
    round_.receive()
    directory = round_.directory
    for kind in (Acceptance, SealedAnchor, UplinkManifest, Receipt, DownlinkManifest):
        assert directory.load(kind).model_extra == LATER, kind.__name__
    pages = unpack_pages(round_.stored_ledger())
    assert len(pages) > 1  # one for each time that it was followed
    assert [page.model_extra for page in pages] == [LATER] * len(pages)
    assert {str(decode_stored(LedgerHead, page.head).model_extra) for page in pages} == {str(LATER)}
    assert round_.verify_ledger(round_.stored_ledger()).entries
