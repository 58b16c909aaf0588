"""What a member believes of the terms, what it is shown, and what it signs."""

from __future__ import annotations

import pytest

from protocol.errors import ConsentMissingError, NotPermittedError, TermsMismatchError
from protocol.operations import ACCEPT_TERMS, Operation
from tests.harness.in_process import HOSPITAL, LEAD, SVM, Consortium, answer_instead
from user_client.custody.round_directory import ACCEPTANCE_FILE
from user_client.sdk import plain_words
from user_client.transport import Answer


def test_the_terms_are_those_the_analyst_published(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    assert (terms.collaboration_id, terms.parties) == (consortium.id, (LEAD, HOSPITAL))


def test_terms_the_analyst_did_not_sign_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    answer_instead(monkeypatch, consortium.hospital, consortium.lead.sign(terms))
    with pytest.raises(NotPermittedError, match="is not the analyst"):
        consortium.hospital_round.fetch_terms()


def test_terms_of_another_collaboration_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined()
    other, wanted = consortium.publish(), consortium.publish()
    data = consortium.hospital.connection.request("GET", f"/v1/collaborations/{other}/terms").content
    answer_instead(monkeypatch, consortium.hospital, data)
    with pytest.raises(NotPermittedError, match="another collaboration"):
        consortium.hospital.round(wanted).fetch_terms()


def test_terms_that_do_not_name_us_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish(parties=[LEAD])
    data = consortium.lead.connection.request("GET", f"/v1/collaborations/{consortium.id}/terms").content
    answer_instead(monkeypatch, consortium.hospital, data)
    with pytest.raises(NotPermittedError, match=f"do not name {HOSPITAL}"):
        consortium.hospital_round.fetch_terms()


def test_terms_that_changed_since_we_signed_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_accepted()
    terms = consortium.hospital_round.fetch_terms()
    changed = consortium.analyst.sign(terms.model_copy(update={"title": "Changed"}))
    answer_instead(monkeypatch, consortium.hospital, changed)
    with pytest.raises(TermsMismatchError, match="our acceptance") as caught:
        consortium.hospital_round.fetch_terms()
    assert "stop, and ask the lead" in caught.value.hint


def test_signing_again_sends_the_same_signature(consortium: Consortium) -> None:
    consortium.until_accepted()
    path = consortium.directory_of(consortium.hospital) / ACCEPTANCE_FILE
    before = path.read_bytes()
    consortium.hospital_round.accept()
    assert path.read_bytes() == before


def test_row_revealing_terms_are_not_signed_without_the_word(consortium: Consortium) -> None:
    consortium.until_joined().publish(model=SVM)
    with pytest.raises(ConsentMissingError):
        consortium.hospital_round.accept()
    assert consortium.hospital_round.accept(accept_row_revealing_model=True)


def test_terms_that_changed_before_they_were_signed_are_told(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consortium.until_joined().publish()
    terms = consortium.hospital_round.fetch_terms()
    assert caplog.text == ""
    changed = consortium.analyst.sign(terms.model_copy(update={"title": "Changed"}))
    with monkeypatch.context() as patched:
        answer_instead(patched, consortium.hospital, changed)
        assert consortium.hospital_round.fetch_terms().title == "Changed"
    assert "has changed the terms since they were shown" in caplog.text
    with pytest.raises(
        TermsMismatchError
    ):  # what was shown last is what is signed, and not what was published
        consortium.hospital_round.accept()


def test_the_plain_words_say_what_leaves_and_who_sees_it(consortium: Consortium) -> None:
    consortium.until_joined().publish()
    words = plain_words(consortium.hospital_round.fetch_terms())
    assert f"Institutions: {LEAD}, {HOSPITAL}. Lead institution: {LEAD}." in words
    assert "the projection of each row: 3 numbers (12 bytes) in place of its 3 encoded features" in words
    assert "the projection of the anchor with the same basis (36 bytes)" in words
    assert "- x0: from -4 to 4; a number outside is refused; an empty field is refused" in words
    assert "Warning: no differential privacy" in words
    assert "uniform" not in words


@pytest.mark.parametrize(
    ("rep_dtype", "said"),
    [("f2", "36 bytes|16-bit floats"), ("i1", "18 bytes|8-bit integers"), ("f8", "144 bytes|64-bit floats")],
)
def test_the_plain_words_say_how_far_the_numbers_are_rounded(
    consortium: Consortium, rep_dtype: str, said: str
) -> None:
    consortium.until_joined().publish(rep_dtype=rep_dtype, anchor={"kind": "uniform", "rows": 6})
    words = plain_words(consortium.hospital_round.fetch_terms())
    for part in said.split("|"):
        assert part in words


def test_the_plain_words_warn_of_what_the_terms_chose(consortium: Consortium) -> None:
    schema = {
        "columns": [
            {"kind": "categorical", "name": "ward", "levels": ["a", "b"]},
            {"kind": "numeric", "name": "age", "low": 0, "high": 9, "impute": 4},
        ],
        "label_column": {"name": "y", "classes": ["no", "yes"]},
    }
    consortium.until_joined().publish(anchor={"kind": "uniform", "rows": 9}, table_schema=schema, model=SVM)
    words = plain_words(consortium.hospital_round.fetch_terms())
    assert "Warning: uniform anchor: it tells the analyst more" in words
    assert "row-revealing model" in words
    assert "- ward: one of a, b; an empty field is refused" in words
    assert "- age: from 0 to 9; a number outside is refused; an empty field counts as 4" in words


def test_the_terms_that_were_shown_are_the_terms_that_are_signed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined().publish()
    shown = consortium.hospital_round.fetch_terms()
    asked = []
    plain = consortium.hospital.connection.ask

    def noted(operation: Operation, body: bytes | None = None, **ids: str) -> Answer:
        asked.append(operation)
        return plain(operation, body, query="", **ids)

    monkeypatch.setattr(consortium.hospital.connection, "ask", noted)
    assert consortium.hospital_round.accept() == shown
    assert asked == [ACCEPT_TERMS]  # nothing is fetched again
