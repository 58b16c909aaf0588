"""Whoever is not who they should be: refused in words, and nothing changes at the analyst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odc_demo.actors import CommandError, Institution
from protocol.errors import CertificateRequiredError, InvitationError, NotFoundError, NotPermittedError
from protocol.messages import UplinkManifest
from protocol.operations import BEGIN_UPLINK, LIST_ACCEPTANCES
from runtime.terminal import exit_code
from tests.harness import AS_MESSAGE
from tests.harness.consortium import PASSPHRASE, Consortium, consortium, refused, rows
from user_client import sdk
from user_client.custody.round_directory import ACCEPTANCE_FILE
from user_client.errors import NotJoinedError, TlsFailedError
from user_client.sdk import Session
from user_client.transport import AnalystConnection, Traffic


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    names = ("lead-hospital", "hospital-b", "hospital-c")
    with consortium(tmp_path_factory.mktemp("strangers"), *names) as found:
        yield found


@pytest.fixture(scope="module")
def elsewhere(made: Consortium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The lead of another consortium that expects its own analyst at the address of ours."""
    with Session(tmp_path_factory.mktemp("elsewhere")) as session:
        sdk.create_consortium(
            session,
            name="Another",
            party="lead-hospital",
            analyst_url=made.analyst.url,
            passphrase=PASSPHRASE,
        )
        yield session


def test_without_a_client_certificate_the_analyst_says_to_join_first(made: Consortium) -> None:
    root = made.lead.home.root_path.read_text()
    with (
        AnalystConnection(made.analyst.url, root, None, Traffic()) as line,
        refused(made, CertificateRequiredError, exit_code=5),
    ):
        line.request("GET", "/v1/collaborations").json()


def test_before_joining_a_command_says_so_and_asks_nobody(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        Institution("nobody", tmp_path).odc("status")
    assert caught.value.exit_code == 5
    assert f"odc: hint: {NotJoinedError.hint}" in caught.value.stderr


def test_a_certificate_of_another_consortium_is_refused_in_the_handshake(
    made: Consortium, elsewhere: Session
) -> None:
    root, theirs = made.lead.home.root_path.read_text(), elsewhere.home
    identity = (theirs.certificate_path, theirs.key_path)
    with (
        AnalystConnection(made.analyst.url, root, identity, Traffic(), pause=lambda _s: None) as line,
        refused(made, TlsFailedError, exit_code=7, says="refused this institution's certificate"),
    ):
        line.request("GET", "/v1/collaborations").json()


def test_a_server_of_another_consortium_is_refused_by_the_client(
    made: Consortium, elsewhere: Session
) -> None:
    with refused(made, TlsFailedError, exit_code=7, says="certificate of this consortium"):
        elsewhere.collaborations()


def test_the_command_ends_with_7_and_the_hint_when_tls_fails(made: Consortium, elsewhere: Session) -> None:
    with pytest.raises(CommandError) as caught:
        Institution("elsewhere", elsewhere.home.path).odc("status")
    assert caught.value.exit_code == 7
    assert f"odc: hint: {TlsFailedError.hint}" in caught.value.stderr


def test_an_acceptance_of_one_is_not_taken_from_another(made: Consortium) -> None:
    found = made.publish()
    b, c = made.sessions["hospital-b"], made.sessions["hospital-c"]
    b.round(found).accept()
    signed = (b.home.collaboration(found) / ACCEPTANCE_FILE).read_bytes()
    address = f"/v1/collaborations/{found}/acceptance"
    with refused(made, NotPermittedError, exit_code=5, says="hospital-c sent a message signed by hospital-b"):
        c.connection.request("PUT", address, content=signed, headers=AS_MESSAGE)


def test_an_uplink_of_one_is_not_taken_from_another(made: Consortium) -> None:
    found = made.anchored()
    b, c = made.sessions["hospital-b"], made.sessions["hospital-c"]
    b.round(found).prepare(rows(1, 40))
    manifest, signed = b.round(found).directory.load_signed(UplinkManifest)
    address = f"/v1/collaborations/{found}/uplinks"
    with refused(made, NotPermittedError, exit_code=5, says="signed by hospital-b"):
        c.connection.request("POST", address, content=signed, headers=AS_MESSAGE)
    # nor the other way round: signed by C, in the name of B
    posing = c.sign(manifest)
    with refused(made, NotPermittedError, exit_code=5, says="of another party"):
        c.connection.request("POST", address, content=posing, headers=AS_MESSAGE)
    made.contribute_all(found)
    made.receive_all(found)


def test_an_upload_of_one_is_unknown_to_another(made: Consortium) -> None:
    found = made.anchored()
    b, c = made.sessions["hospital-b"], made.sessions["hospital-c"]
    b.round(found).prepare(rows(1, 40))
    _, signed = b.round(found).directory.load_signed(UplinkManifest)
    opened = b.connection.ask(BEGIN_UPLINK, signed, collaboration_id=found).json()
    headers = {"upload-offset": "0", "upload-complete": "?0"}
    with refused(made, NotFoundError, exit_code=6):
        c.connection.request_once(
            "PATCH", f"/v1/uploads/{opened['upload_id']}", content=b"x", headers=headers
        )
    with refused(made, NotFoundError, exit_code=6):
        c.connection.request("HEAD", f"/v1/uploads/{opened['upload_id']}")
    assert b.round(found).contribute().party == "hospital-b"


def test_only_the_lead_creates_the_anchor(made: Consortium) -> None:
    found = made.publish()
    for session in made.sessions.values():
        session.round(found).accept()
    b = made.sessions["hospital-b"]
    with refused(made, NotPermittedError, exit_code=5):
        b.round(found).create_anchor()
    with refused(made, NotPermittedError, exit_code=5, says="is not the lead"):
        b.connection.ask(LIST_ACCEPTANCES, collaboration_id=found)
    made.lead.round(found).create_anchor()
    assert made.state(found) == "anchored"


def test_a_request_with_the_wrong_join_secret_gets_no_certificate_and_holds_up_nobody(
    made: Consortium, tmp_path: Path
) -> None:
    """From one who copied the ticket but not the secret, as the analyst could."""
    for_thief, for_newcomer = sdk.invite(made.lead, "hospital-d"), sdk.invite(made.lead, "hospital-e")
    with Session(tmp_path / "thief") as thief, Session(tmp_path / "newcomer") as newcomer:
        assert sdk.join(thief, for_thief.model_copy(update={"join_secret": "0" * 64})) is None
        assert sdk.join(newcomer, for_newcomer) is None
        with pytest.raises(InvitationError, match="hospital-d was not made with its join secret") as caught:
            sdk.approve_pending(made.lead, PASSPHRASE)
        assert exit_code(caught.value) == 5
        assert "odc consortium reject" in caught.value.hint
        assert sdk.join(thief, None) is None
        assert sdk.join(newcomer, None) is not None
