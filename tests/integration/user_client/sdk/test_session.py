from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_server.services import end, views
from protocol.errors import LimitExceededError, NotFoundError, TrustError, UnsupportedVersionError
from protocol.operations import LIST_COLLABORATIONS
from tests.harness.in_process import LEAD, Consortium
from tests.harness.scripted_server import InTurn, connect
from user_client.errors import ChoiceNeededError, ConnectionFailedError, NotJoinedError, NotPreparedError
from user_client.sdk import Session, create_consortium
from user_client.sdk import session as session_module
from user_client.sdk.session import REMEMBERED_S, meet
from user_client.transport import AnalystConnection
from user_client.transport.connection import Answer

URL, NOW = "https://analyst:8443", 1_800_000_000
OK = httpx.Response(200, json={"wire_versions": [1]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analyst.json"


def test_the_analyst_is_asked_once_a_day(path: Path) -> None:
    server = InTurn(OK)
    for now in (NOW, NOW + 1, NOW + REMEMBERED_S - 1):
        meet(connect(server), URL, path, now)
    assert len(server.requests) == 1
    meet(connect(server), URL, path, NOW + REMEMBERED_S)
    assert len(server.requests) == 2


def test_another_analyst_is_asked_itself(path: Path) -> None:
    server = InTurn(OK)
    meet(connect(server), URL, path, NOW)
    meet(connect(server), "https://other:8443", path, NOW)
    assert len(server.requests) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"analyst_url": 1, "asked_at": "x"}'])
def test_a_memory_that_cannot_be_read_is_none(path: Path, text: str) -> None:
    path.write_text(text)
    server = InTurn(OK)
    meet(connect(server), URL, path, NOW)
    assert len(server.requests) == 1
    assert json.loads(path.read_text())["wire_versions"] == [1]


def test_a_clock_that_was_set_back_remembers_nothing(path: Path) -> None:
    server = InTurn(OK)
    meet(connect(server), URL, path, NOW)
    meet(connect(server), URL, path, NOW - 1)
    assert len(server.requests) == 2


def test_a_remembered_version_we_speak_no_more_is_refused(path: Path) -> None:
    path.write_text(json.dumps({"analyst_url": URL, "wire_versions": [7], "asked_at": NOW}))
    with pytest.raises(UnsupportedVersionError):
        meet(connect(InTurn(OK)), URL, path, NOW)


def test_after_a_version_error_the_analyst_is_asked_anew(consortium: Consortium) -> None:
    session = consortium.until_joined().hospital
    with session:
        session.collaborations()
    assert session.home.analyst_path.exists()

    def refuse() -> None:
        raise UnsupportedVersionError([1], [2], "this program")

    with pytest.raises(UnsupportedVersionError), session:
        refuse()
    assert not session.home.analyst_path.exists()


def test_an_analyst_that_was_not_there_is_met_when_it_is(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = consortium.until_joined().hospital
    session.close()
    met: list[str] = []

    def first_away(_connection: AnalystConnection, url: str, *_rest: object) -> None:
        met.append(url)
        if len(met) == 1:
            raise ConnectionFailedError("the analyst does not answer")

    monkeypatch.setattr(session_module, "meet", first_away)
    with pytest.raises(ConnectionFailedError):
        _ = session.connection
    assert not session.is_connected()
    assert session.connection is session.connection
    assert len(met) == 2


# the rounds of a session


def test_the_only_collaboration_needs_no_name(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    assert consortium.hospital.round().id == consortium.id


def test_of_several_collaborations_one_must_be_named(consortium: Consortium) -> None:
    consortium.until_joined()
    both = sorted([consortium.publish(), consortium.publish()])
    with pytest.raises(ChoiceNeededError) as caught:
        consortium.hospital.round()
    assert all(f"Readmission ({name[:8]})" in caught.value.detail for name in both)
    assert consortium.hospital.round(both[0]).id == both[0]


def test_the_first_digits_of_an_id_are_enough(consortium: Consortium) -> None:
    consortium.until_joined()
    first, second = consortium.publish(), consortium.publish()
    assert consortium.hospital.round(first[:8]).id == first
    consortium.hospital.round(second).fetch_terms()
    assert consortium.hospital.round(second[:8]).id == second
    with pytest.raises(NotFoundError, match="begins with"):
        consortium.hospital.round("0" * 31)


@pytest.mark.parametrize("is_earlier", [False, True], ids=["this-version", "an-earlier-analyst"])
def test_the_analyst_is_asked_for_those_alone_whose_id_begins_so(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, is_earlier: bool
) -> None:
    """One of an earlier version lists all."""
    consortium.until_joined()
    first, _ = consortium.publish(), consortium.publish()
    asked, ask = [], AnalystConnection.ask

    def noted(connection: AnalystConnection, *given: Any, query: str = "", **ids: Any) -> Answer:
        asked.append(query)
        return ask(connection, *given, query="" if is_earlier else query, **ids)

    monkeypatch.setattr(AnalystConnection, "ask", noted)
    assert consortium.hospital.round(first[:8]).id == first
    assert asked == [f"begins={first[:8]}"]


def test_a_list_of_several_pages_is_whole(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_LISTED", 2)
    consortium.until_joined()
    published = [consortium.publish() for _ in range(5)]
    asked, ask = [], AnalystConnection.ask

    def noted(connection: AnalystConnection, *given: Any, query: str = "", **ids: Any) -> Answer:
        asked.append(query)
        return ask(connection, *given, query=query, **ids)

    monkeypatch.setattr(AnalystConnection, "ask", noted)
    listed = [row["collaboration_id"] for row in consortium.hospital.collaborations()]
    assert sorted(listed) == sorted(published)
    assert asked == ["after=", f"after={listed[1]}", f"after={listed[3]}"]


@pytest.mark.parametrize("repeats", [True, False], ids=["repeats itself", "has no pages"])
def test_an_analyst_without_further_pages_is_asked_no_more(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, repeats: bool
) -> None:
    consortium.until_joined()
    published = consortium.publish()
    only = AnalystConnection.ask_json(consortium.hospital.connection, LIST_COLLABORATIONS)
    again = {"next": published} if repeats else {}
    monkeypatch.setattr(AnalystConnection, "ask_json", lambda *_, **__: {**only, **again})
    assert [row["collaboration_id"] for row in consortium.hospital.collaborations()] == [published]


def test_a_list_without_end_is_refused(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MOST_COLLABORATIONS", 2)
    monkeypatch.setattr(views, "MOST_LISTED", 1)
    consortium.until_joined()
    for _ in range(3):
        consortium.publish()
    with pytest.raises(LimitExceededError, match="collaborations of a list"):
        consortium.hospital.collaborations()


def test_a_title_stays_known_after_a_list_of_others(consortium: Consortium) -> None:
    consortium.until_joined()
    first, second = consortium.publish(), consortium.publish()
    session = consortium.hospital
    titles = {row["collaboration_id"]: row["title"] for row in session.collaborations()}
    assert [row["collaboration_id"] for row in session.collaborations(begins=second)] == [second]
    assert session.title_of(first) == titles[first] != ""


def test_a_step_that_acts_means_no_collaboration_that_was_given_up(consortium: Consortium) -> None:
    consortium.until_accepted()
    old = consortium.id
    end.cancel(consortium.analyst, old)
    assert consortium.hospital.round().id == old
    with pytest.raises(NotPreparedError, match=rf"Readmission \({old[:8]}\) is cancelled"):
        consortium.hospital.round(running=True)
    new = consortium.publish()
    assert consortium.hospital.round(running=True).id == new
    assert consortium.hospital.round(running=True, accepted=True).id == new


def test_a_step_of_a_round_prefers_the_terms_that_we_have_signed(consortium: Consortium) -> None:
    consortium.until_accepted()
    signed = consortium.id
    consortium.publish()
    assert consortium.hospital.round(running=True, accepted=True).id == signed
    with pytest.raises(ChoiceNeededError):
        consortium.hospital.round(running=True)


def test_what_needs_a_stored_round_means_none_that_is_only_listed(consortium: Consortium) -> None:
    consortium.until_joined()
    first, second = consortium.publish(), consortium.publish()
    for each in (first, second):
        consortium.hospital.round(each).fetch_terms()
    end.cancel(consortium.analyst, first)
    consortium.publish()
    assert consortium.hospital.round().id == second


def test_of_stored_rounds_that_have_all_ended_one_must_be_named(consortium: Consortium) -> None:
    """Their models are here, so that nothing has to run."""
    consortium.until_joined()
    both = [consortium.publish(), consortium.publish()]
    for each in both:
        consortium.hospital.round(each).fetch_terms()
        end.cancel(consortium.analyst, each)
    with pytest.raises(ChoiceNeededError) as caught:
        consortium.hospital.round()
    assert all(each[:8] in caught.value.detail for each in both)


def test_without_collaborations_there_is_none_to_choose(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(NotPreparedError, match="no collaboration names this institution yet"):
        consortium.hospital.round()


def test_the_collaboration_we_work_on_is_chosen_without_asking(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    monkeypatch.setattr(Session, "collaborations", None)
    assert consortium.hospital.round().id == consortium.id


def test_a_session_without_membership_has_no_connection(tmp_path: Path) -> None:
    with Session(tmp_path / "nobody") as session, pytest.raises(NotJoinedError):
        session.connection  # noqa: B018  # the property raises


def test_a_session_shows_where_it_is(tmp_path: Path) -> None:
    assert repr(Session(tmp_path)) == f"<Session in {tmp_path}>"


def test_a_message_of_another_consortium_is_not_believed(consortium: Consortium, tmp_path: Path) -> None:
    consortium.until_accepted()
    foreign = Session(tmp_path / "foreign", consortium.clock)
    create_consortium(foreign, name="F", party=LEAD, analyst_url="https://x", passphrase="long enough")
    terms = consortium.hospital_round.fetch_terms()
    with pytest.raises(TrustError):
        consortium.hospital.verify(type(terms), foreign.sign(terms))


def test_the_home_may_be_a_text(tmp_path: Path) -> None:
    assert not Session(str(tmp_path)).is_joined()
    assert Session(str(tmp_path)).home.path == tmp_path
