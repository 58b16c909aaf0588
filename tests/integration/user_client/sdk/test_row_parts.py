"""Parts of a prediction: what is said of the rows and columns that they are made of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.harness.halves import JOINING, of_hospital, of_lead, part, people, predicted, released
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.errors import (
    ConfirmationNeededError,
    FieldError,
    PartRefusedError,
    PartsNeededError,
    PolicyError,
)
from user_client.sdk import Policy, next_step
from user_client.sdk.model_card import card_of
from user_client.sdk.parts import JoinedPredictor, make_part


def test_a_field_that_does_not_fit_is_named_by_its_row_in_the_whole_table(
    consortium: Consortium, tmp_path: Path
) -> None:
    members, fresh = released(consortium), people(9, 30)
    file = part(members[HOSPITAL], of_hospital(fresh.slice(10)), tmp_path / "part")
    values = fresh["x0"].to_pylist()
    values[25] = 50.0  # of the 16th row that is in the part
    own = of_lead(fresh).set_column(1, "x0", pa.array(values))
    joined = JoinedPredictor(members[LEAD].directory, [file])
    with pytest.raises(FieldError, match="column 'x0', data row 26: expected a number"):
        list(joined.predict_parts([own]))


def test_columns_of_another_unit_are_noticed_by_whoever_makes_a_part_and_whoever_adds_them(
    consortium: Consortium, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    columns = [
        {"kind": "numeric", "name": name, "low": -4, "high": 4, "out_of_range": "clip"}
        for name in ("x0", "x1", "x2")
    ]
    schema = {"columns": columns, "label_column": {"name": "y", "classes": ["no", "yes"]}}
    members, fresh = released(consortium, table_schema=schema), people(9, 30)

    def warned() -> int:
        told = [record.message for record in caplog.records if "in the first rows, " in record.message]
        caplog.clear()
        return len(told)

    def in_thousandths(table: pa.Table, name: str) -> pa.Table:
        values = pa.array([1000 * value for value in table[name].to_pylist()])
        return table.set_column(table.column_names.index(name), name, values)

    file = part(members[HOSPITAL], of_hospital(fresh), tmp_path / "part")
    predicted(members[LEAD], of_lead(fresh), file)
    assert warned() == 0
    part(members[HOSPITAL], in_thousandths(of_hospital(fresh), "x2"), tmp_path / "other")
    assert warned() == 1
    predicted(members[LEAD], in_thousandths(of_lead(fresh), "x0"), file)
    assert warned() == 1


def test_what_is_no_part_is_not_read_to_its_end(consortium: Consortium, tmp_path: Path) -> None:
    members = released(consortium)
    file = part(members[HOSPITAL], of_hospital(people(9)), tmp_path / "part")
    with file.open("r+b") as content:
        content.truncate(2**40)  # more than any memory
    with pytest.raises(PartRefusedError, match="part is not whole"):
        JoinedPredictor(members[LEAD].directory, [file])
    table = tmp_path / "rows.csv"
    table.write_bytes(b"pid,x2\n")
    with table.open("r+b") as content:
        content.truncate(2**40)
    with pytest.raises(PartRefusedError, match="is no part of a prediction"):
        JoinedPredictor(members[LEAD].directory, [table])


def test_an_interval_is_refused_as_the_evaluation_is_that_it_needs(
    consortium: Consortium, tmp_path: Path
) -> None:
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in ("x0", "x1", "x2")]
    label = {"kind": "number", "name": "days", "low": -20.0, "high": 20.0}
    consortium.until_anchored(
        **{
            **JOINING,
            "table_schema": {"columns": columns, "label_column": label},
            "model": {"kind": "ridge"},
        }
    )
    table = people(0)
    own = of_lead(table).append_column("days", table["x0"])
    for found, held in ((consortium.lead_round, own), (consortium.hospital_round, of_hospital(table))):
        found.prepare(held)
        found.contribute()
    consortium.compute()
    for found in (consortium.lead_round, consortium.hospital_round):
        found.receive()
    file = part(consortium.hospital_round, of_hospital(table), tmp_path / "part")
    joined = JoinedPredictor(consortium.lead_round.directory, [file])
    with pytest.raises(PartsNeededError, match="an interval needs whole rows") as caught:
        list(joined.predict_parts([own], coverage=0.9))
    assert caught.value.hint == "leave out --interval: it needs `odc evaluate`, which needs whole rows too"


def test_before_and_after_it_is_fetched_nobody_is_sent_to_an_evaluation(consortium: Consortium) -> None:
    consortium.until_anchored(**JOINING)
    table = people(0)
    for found, held in (
        (consortium.lead_round, of_lead(table)),
        (consortium.hospital_round, of_hospital(table)),
    ):
        found.prepare(held)
        found.contribute()
    consortium.compute()
    found = consortium.lead_round
    with_parts = f"odc predict TABLE --with FILE, with a file of odc part TABLE from each of {HOSPITAL}"
    assert next_step(found.status(), found.directory).words == f"odc receive, then {with_parts}"
    found.receive()
    assert next_step(found.status(), found.directory).words == with_parts
    card = card_of(found.directory, None, found.report())
    assert (
        card.scores[0]
        == "not measured here: others hold some of the columns, and `odc evaluate` needs whole rows"
    )


def test_whoever_forgets_is_told_that_others_need_its_parts(consortium: Consortium) -> None:
    members = released(consortium)
    with pytest.raises(ConfirmationNeededError, match=f"nor would {HOSPITAL} get a part of ours to predict"):
        members[LEAD].forget(confirmed=False)


@pytest.mark.parametrize("column", ["pid", "x2"])
def test_no_part_is_made_of_a_column_that_must_never_leave(consortium: Consortium, column: str) -> None:
    members = released(consortium)
    Policy(never=(column,)).store(consortium.hospital.home)
    with pytest.raises(PolicyError, match=f"the column {column} must never leave"):
        make_part(members[HOSPITAL].directory, [of_hospital(people(9))])
