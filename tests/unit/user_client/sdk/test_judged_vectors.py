"""When a certificate has to hold: tests/vectors/judged.json, as a member judges what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from protocol import messages
from protocol.codec import Message
from protocol.errors import OdcError
from protocol.identity import load_certificate
from protocol.ledger import LedgerHead, SeenLedger
from protocol.terms import Terms
from user_client.sdk import Session
from user_client.sdk.session import require_signed_by

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "judged.json").read_text())
KINDS: dict[str, type[Message]] = {
    "Terms": Terms,
    "Acceptance": messages.Acceptance,
    "SealedAnchor": messages.SealedAnchor,
    "UplinkManifest": messages.UplinkManifest,
    "Receipt": messages.Receipt,
    "DownlinkManifest": messages.DownlinkManifest,
    "LedgerHead": LedgerHead,
    "SeenLedger": SeenLedger,
}


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in VECTORS[name]]


def session_at(directory: Path, case: dict[str, Any]) -> Session:
    """A member with the root of the vectors, at the time of a case."""
    found = Session(directory, clock=lambda: int(case["at"]))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "root.pem").write_text(VECTORS["root"])
    if case.get("revocations"):
        found.home.adopt_revocations(bytes.fromhex(case["revocations"]))
    return found


def judge(session: Session, case: dict[str, Any]) -> None:
    """Verify a message by the way in which the member has it."""
    kind, data = KINDS[case["kind"]], bytes.fromhex(case["hex"])
    if case["held"] == "sent":
        session.verify(kind, data)
        return
    message = session.verify_kept(kind, data).message
    if isinstance(message, LedgerHead):
        require_signed_by(data, message.at)
    elif case["entered_at"] is not None:
        require_signed_by(data, case["entered_at"])


@pytest.mark.parametrize("case", cases("messages"))
def test_a_message_is_judged_at_the_time_of_the_vectors(case: dict[str, Any], tmp_path: Path) -> None:
    with session_at(tmp_path / "home", case) as session:
        if case["verdict"] == "valid":
            judge(session, case)
            return
        with pytest.raises(OdcError) as caught:
            judge(session, case)
        assert caught.value.code == case["verdict"]


@pytest.mark.parametrize("case", cases("connections"))
def test_who_connects_is_judged_now(case: dict[str, Any], tmp_path: Path) -> None:
    with session_at(tmp_path / "home", case) as session:
        root, certificate = session.home.root(), load_certificate(bytes.fromhex(case["hex"]))
        if case["verdict"] == "valid":
            root.identify(certificate, at=case["at"])
            return
        with pytest.raises(OdcError) as caught:
            root.identify(certificate, at=case["at"])
        assert caught.value.code == case["verdict"]
