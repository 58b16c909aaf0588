"""A certificate that was taken back, against a real server: on open connections, and after a restart."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import CertificateRevokedError
from protocol.identity import RevocationList
from tests.harness.attacks import got
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, rows
from user_client import sdk
from user_client.errors import TlsFailedError
from user_client.transport import connection as connection_module
from user_client.transport.trust import trusting


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    names = ("lead-hospital", "hospital-b", "hospital-c")
    with consortium(tmp_path_factory.mktemp("revoked"), *names) as found:
        yield found


def test_a_revoked_member_is_refused_on_the_connection_it_holds_open(made: Consortium) -> None:
    member = made.sessions["hospital-b"]
    collaboration = made.anchored()
    member.round(collaboration).prepare(rows(1, 40))
    assert member.round(collaboration).status()["state"] == "anchored"
    sdk.revoke(made.lead, "hospital-b", PASSPHRASE)
    with pytest.raises(CertificateRevokedError):
        member.round(collaboration).contribute()
    assert made.lead.round(collaboration).status()["state"] == "anchored"
    made.contribute("hospital-c", collaboration, rows(2, 40))  # the others go on


def test_a_restarted_analyst_still_refuses(made: Consortium, tmp_path: Path) -> None:
    sdk.revoke(made.lead, "hospital-b", PASSPHRASE)
    made.analyst.stop()
    made.analyst.start()
    member = made.sessions["hospital-b"]
    member.close()
    with pytest.raises(CertificateRevokedError):
        member.collaborations()


def test_the_lead_seals_no_anchor_for_a_revoked_member(made: Consortium) -> None:
    collaboration = made.publish(parties=["lead-hospital", "hospital-c"])
    for name in ("lead-hospital", "hospital-c"):
        made.sessions[name].round(collaboration).accept()
    sdk.revoke(made.lead, "hospital-c", PASSPHRASE)
    with pytest.raises(CertificateRevokedError, match="hospital-c was revoked"):
        made.lead.round(collaboration).create_anchor()


def test_a_revoked_analyst_is_not_talked_to(made: Consortium) -> None:
    """Last: nobody of this consortium believes its analyst afterwards."""
    assert sdk.revoke(made.lead, "analyst", PASSPHRASE).certificates == 1
    member = made.sessions["hospital-c"]
    list_from_the_lead = made.lead.home.revocations_path.read_bytes()
    sdk.update_revocations(member, list_from_the_lead)
    for session in (member, made.lead):
        session.close()
        with pytest.raises(TlsFailedError, match="has revoked the certificate"):
            session.collaborations()


BLIND = """
from protocol.identity import RevocationList

read = RevocationList.__init__

def overlook(self, *arguments):
    read(self, *arguments)
    self.revoked_at = {}

RevocationList.__init__ = overlook
"""
"""The mutation, for a process: whatever list it holds, nobody stands on it."""


def test_without_the_list_all_who_were_revoked_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above would see if nobody held to the list: the server, the lead, and TLS."""
    (tmp_path / "sitecustomize.py").write_text(BLIND)
    with consortium(tmp_path, "lead-hospital", "hospital-b", PYTHONPATH=str(tmp_path)) as made:
        monkeypatch.setattr(RevocationList, "__init__", RevocationList.__init__)  # put back at the end
        exec(BLIND, {})  # noqa: S102  # the same for the institutions, which live in this process
        monkeypatch.setattr(connection_module, "trusting", trusting_any_list)
        member, found = made.sessions["hospital-b"], made.anchored()
        member.round(found).prepare(rows(1, 40))
        for name in ("hospital-b", "analyst"):
            sdk.revoke(made.lead, name, PASSPHRASE)
        for session in made.sessions.values():
            session.close()
        member.round(found).contribute()
        sealed = made.anchored()
        got("revoked member and analyst, nobody holds to the list", uplinks=1, anchors=len(made.sessions))
        assert made.state(found) == "collecting"
        assert made.state(sealed) == "anchored"


def trusting_any_list(root_pem: str, revocations: Path | None) -> ssl.SSLContext:
    context = trusting(root_pem, revocations)
    context.verify_flags &= ~ssl.VERIFY_CRL_CHECK_LEAF
    return context
