"""What the pages of an institution show whose rows are joined with those of another."""

from __future__ import annotations

from tests.harness.clicking import Clicking
from tests.harness.halves import JOINING, of_hospital, of_lead, people
from tests.harness.in_process import LEAD, csv


def test_a_member_is_asked_for_its_own_columns_and_the_row_key(clicking: Clicking) -> None:
    made = clicking.consortium
    made.publish(**JOINING)
    for session in made.sessions:
        session.round(made.id).accept()
    page = clicking.see("/table")
    assert "It needs 2 columns (pid, x2). It is read on this machine." in page
    table = csv(made.directory / "own.csv", of_hospital(people(0)).to_pydict())
    clicking.work("check", "/table", table=str(table))
    assert "40 rows of 1 encoded features." in clicking.see("/table")


def test_a_member_is_told_how_it_predicts_where_its_columns_alone_do_not_do(clicking: Clicking) -> None:
    made = clicking.consortium
    made.publish(**JOINING)
    for session in made.sessions:
        session.round(made.id).accept()
    made.lead_round.create_anchor()
    for found, own in ((made.lead_round, of_lead(people(0))), (made.hospital_round, of_hospital(people(0)))):
        found.prepare(own)
        found.contribute()
    made.compute()
    made.hospital_round.receive()
    command = f"odc predict TABLE --with FILE, with a file of odc part TABLE from each of {LEAD}"
    page = clicking.see()
    assert f"The model is here. At a terminal: {command}." in page
    assert "Predict a table</a>" not in page
    page = clicking.see("/predict")
    assert command in page
    assert "<form" not in page
