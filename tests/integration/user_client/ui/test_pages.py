"""What an institution's own pages show and offer, and when: its table, the terms, what would leave."""

from __future__ import annotations

import re

import pytest

from analyst_server.services import end
from protocol.limits import MAX_NAME_CHARS
from tests.harness.clicking import Clicking
from tests.harness.in_process import HOSPITAL, Consortium, csv, rows
from user_client.errors import ConnectionFailedError
from user_client.sdk import join
from user_client.tables import Source
from user_client.ui.work import Named

SHOW_LEAVING = "Show what would leave</button>"
PNG = "data:image/png"


def sign_all(consortium: Consortium) -> None:
    for session in consortium.sessions:
        session.round(consortium.id).accept()


def anchored(clicking: Clicking) -> Consortium:
    made = clicking.consortium
    made.publish()
    sign_all(made)
    made.lead_round.create_anchor()
    return made


def released(clicking: Clicking) -> Consortium:
    made = anchored(clicking)
    for seed, session in enumerate(made.sessions):
        session.round(made.id).prepare(made.table(seed))
        session.round(made.id).contribute()
    made.compute()
    made.hospital_round.receive()
    return made


def test_a_late_consumer_signs_after_the_release(clicking: Clicking) -> None:
    clicking.consortium.release_without(HOSPITAL)
    assert "The terms wait for you to read and sign them." in clicking.see()
    page = clicking.see("/terms")
    assert "Sign the terms</button>" in page
    assert "Or reject them" not in page
    assert clicking.send("accept", "/terms", confirmed="yes").headers["location"] == clicking.round
    assert "Nothing to do for now: we wait until the lead has sealed the anchor for us" in clicking.see()


def test_the_words_on_a_file_come_back_with_its_form(clicking: Clicking) -> None:
    anchored(clicking)
    table = str(clicking.consortium.table(1))
    for act, page in (("check", "/table"), ("prepare", "/table")):
        clicking.work(act, page, table=table, csv="decimal-point,thousands")
        assert clicking.field("/table", "csv") == "decimal-point,thousands"
        assert "<details open>" in clicking.see("/table")


def test_the_words_come_back_with_the_form_that_predicts(clicking: Clicking) -> None:
    made = released(clicking)
    clicking.work("predict", "/predict", table=str(made.table(1)), csv="decimal-point,thousands")
    assert clicking.field("/predict", "csv") == "decimal-point,thousands"


def test_a_picture_is_shown_beside_the_table_that_it_is_of(clicking: Clicking) -> None:
    made = anchored(clicking)
    table = str(made.table(1))
    clicking.work("prepare", "/table", table=table, shape="1x3")
    page = clicking.see("/leaving")
    assert PNG in page
    assert f"Prepared from <code>{table}</code>" in page
    made.hospital_round.prepare(made.table(2))  # at the terminal
    page = clicking.see("/leaving")
    assert PNG not in page
    assert "Prepared from" not in page


def test_a_result_names_the_table_that_it_is_of(clicking: Clicking) -> None:
    made = released(clicking)
    ours, others = str(made.table(1)), str(made.table(5))
    clicking.work("check", "/table", table=ours)
    clicking.work("predict", "/predict", table=ours)
    clicking.work("explain", "/predict", table=others)
    assert f"The table fits: {ours}" in clicking.headings("/table")
    assert clicking.field("/table", "table") == ours
    assert clicking.field("/predict", "table") == others
    headings = clicking.headings("/predict")
    assert f"40 rows predicted, of {ours}" in headings
    assert f"Where the answers come from, for {others}" in headings
    found = clicking.client.get(f"{clicking.round}/predict?as=json").json()
    assert (found["predictions"]["table"], found["explanation"]["table"]) == (ours, others)
    assert clicking.client.get(f"{clicking.round}/table?as=json").json()["checked"]["table"] == ours


def test_how_far_a_score_falls_is_in_the_unit_of_the_score(clicking: Clicking) -> None:
    made = released(clicking)
    clicking.work("explain", "/predict", table=str(made.table(5)))
    page = clicking.see("/predict")
    assert "shuffled, ROC-AUC falls by" in page
    assert re.search(r"Score of these rows: ROC-AUC \d+\.\d\.", page)
    assert re.search(r"<td[^>]*>-?\d+\.\d ±\d+\.\d</td>", page)


def test_a_sheet_and_a_query_say_which_table_it_is() -> None:
    book = Named(Source("book.xlsx", sheet="May"), "")
    query = Named(Source("sqlite:///rows.db", query="select 1"), "")
    assert (book.words, query.words) == ("book.xlsx, sheet May", "sqlite:///rows.db, select 1")


def test_a_page_is_answered_when_there_is_news(clicking: Clicking) -> None:
    made = clicking.consortium
    made.publish()
    made.hospital_round.accept()
    found = re.search(r'hx-get="([^"]+)"', clicking.see())
    assert found is not None
    assert clicking.client.get(found[1]).status_code == 204
    made.lead_round.accept()
    news = clicking.client.get(found[1])
    assert news.status_code == 200
    assert 'id="institutions"' in news.text  # by which it gets the focus back


def test_what_would_leave_is_offered_when_it_is_our_turn(clicking: Clicking) -> None:
    made = clicking.consortium
    made.publish()
    sign_all(made)
    assert SHOW_LEAVING not in clicking.see("/table")
    assert "computed when it is our turn to send. Nothing to do for now: we wait for" in clicking.see(
        "/table"
    )
    made.lead_round.create_anchor()
    assert SHOW_LEAVING in clicking.see("/table")
    clicking.work("prepare", "/table", table=str(made.table(1)))
    assert "What would leave</a>" in clicking.see("/leaving")
    made.hospital_round.contribute()
    assert SHOW_LEAVING not in clicking.see("/table")
    assert "What has left</a>" in clicking.see("/leaving")


def test_an_error_is_shown_while_its_step_is_the_next(clicking: Clicking) -> None:
    made = anchored(clicking)
    clicking.work("check", "/table", table=str(made.table(1)).replace(".csv", ".parquet"))
    assert "parquet" in clicking.alert("/table")
    assert not clicking.alert()
    clicking.work("prepare", "/table", table=str(made.table(1)))
    clicking.work("contribute", "/leaving", confirmed="yes", seen="another")
    assert "something else is prepared" in clicking.alert().lower()
    made.hospital_round.contribute()
    assert not clicking.alert()


def test_a_reason_is_as_long_as_the_analyst_takes_it(clicking: Clicking) -> None:
    clicking.consortium.publish()
    assert f'maxlength="{MAX_NAME_CHARS}"' in clicking.see("/terms")


def test_the_digest_of_the_terms_is_whole(clicking: Clicking) -> None:
    clicking.consortium.publish()
    assert re.search(r">[0-9a-f]{64}</span>", clicking.see("/terms"))


def test_advice_is_for_who_sends_a_form(clicking: Clicking) -> None:
    clicking.consortium.publish()
    for fields in ({"table": ""}, {"table": "sqlite:////tmp/none.db", "sheet": "May"}):
        text = clicking.send("check", "/table", **fields).text
        assert "send the form again" in text
        assert "run the command" not in text
    assert "follow the link below" in clicking.client.get("/ui/nothing").text


def test_a_long_list_has_several_pages_the_newest_first(
    clicking: Clicking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.paging.MOST", 2)
    ids = []
    for number in range(3):
        ids.append(clicking.consortium.publish(title=f"Round {number}"))
        clicking.consortium.clock.forward(1)
    first, second = (clicking.client.get(f"/ui{query}").text for query in ("", "?start=2"))
    assert [one in first for one in ids] == [False, True, True]
    assert [one in second for one in ids] == [True, False, False]
    assert 'href="/ui?start=2"' in first
    assert "The next collaborations" not in second
    assert clicking.client.get("/ui?start=x").status_code == 400


def test_a_table_of_one_row(clicking: Clicking) -> None:
    made = released(clicking)
    one = csv(made.directory / "one.csv", rows(9, 1))
    clicking.work("predict", "/predict", table=str(one))
    assert f"1 row predicted, of {one}" in clicking.headings("/predict")
    assert "The only row" in clicking.see("/predict")


def test_a_score_is_written_as_everywhere(clicking: Clicking) -> None:
    made = released(clicking)
    clicking.work("explain", "/predict", table=str(made.table(1)))
    assert re.search(r"Score of these rows: ROC-AUC \d+\.\d\.", clicking.see("/predict"))


def test_nothing_is_fetched_of_what_was_cancelled(clicking: Clicking) -> None:
    made = clicking.consortium
    made.publish()
    end.cancel(made.analyst, made.id)
    for page in ("/predict", "/card"):
        assert "no model can be fetched any more" in clicking.see(page)


def test_the_model_card_speaks_of_no_file_that_was_not_made(clicking: Clicking) -> None:
    made = released(clicking)
    page = clicking.see("/card")
    assert "Model: logistic" in page
    assert "What it reads" in page
    assert "Alignment: " in page
    for words in ("This file", "Exported", "# Readmission", "tensor"):
        assert words not in page
    card = clicking.client.get(f"{clicking.round}/card?as=json").json()["card"]
    assert card["inputs"] == dict.fromkeys(("x0", "x1", "x2"), "number")
    assert card["party"] == made.hospital.membership.party


def test_the_lead_sees_how_many_wait(leading: Clicking) -> None:
    made = leading.consortium
    for name, said in (("hospital-x", "hospital-x waits for"), ("hospital-y", "wait for")):
        join(made.session(name), made.invitation(name))
        assert f"{said} a certificate" in leading.client.get("/ui").text


def test_of_a_form_without_an_answer_nobody_says_that_nothing_was_changed(
    clicking: Clicking, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicking.consortium.publish()

    def no_answer(*_: object) -> None:
        raise ConnectionFailedError("the analyst did not answer in time")

    monkeypatch.setattr("user_client.ui.acting.reject_terms", no_answer)
    answer = clicking.send("reject", "/terms", reason="why not")
    assert answer.status_code == 502
    assert "Nothing was changed" not in answer.text
