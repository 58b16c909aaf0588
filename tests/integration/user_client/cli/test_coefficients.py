"""The command that shows coefficients."""

from __future__ import annotations

import numpy as np

from tests.harness.in_process import COLUMNS
from tests.harness.odc import Odc


def test_coefficients_are_shown_with_what_to_know_of_them(odc: Odc) -> None:
    odc.consortium.until_released(latent_dim=2)
    odc("receive")
    table = odc.consortium.table(2)
    lines = odc("coefficients", table).out.splitlines()
    assert lines[0] == "how far each change moves the log-odds of y = yes:"
    assert [line.split(",")[0].strip() for line in lines[1:4]] == ["x0", "x1", "x2"]
    assert " to " in lines[1]
    assert lines[-1] == "a coefficient says what goes with the answer, not what causes it"
    found = odc("coefficients", table, "--json").json
    assert {each["column"] for each in found["coefficients"]} == {"x0", "x1", "x2"}
    assert found["coefficients"][0]["low"] < found["coefficients"][0]["value"]


def test_of_three_classes_each_but_the_first_has_a_heading(odc: Odc) -> None:
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS]
    label = {"name": "y", "classes": ["mild", "severe", "well"]}
    consortium = odc.consortium
    consortium.until_anchored(table_schema={"columns": columns, "label_column": label})
    labels = np.random.default_rng(0).choice(label["classes"], 40).tolist()
    tables = [consortium.table(seed, y=labels) for seed in range(2)]
    for session, table in zip(consortium.sessions, tables, strict=True):
        session.round(consortium.id).prepare(table)
        session.round(consortium.id).contribute()
    consortium.compute()
    odc("receive")
    lines = odc("coefficients", tables[1]).out.splitlines()
    assert lines[0] == "how far each change moves the log-odds of each y against mild:"
    assert [lines[1], lines[5]] == ["severe:", "well:"]
    assert [line.split(",")[0].strip() for line in lines[2:5]] == list(COLUMNS)


def test_a_model_without_coefficients_names_the_other_command(odc: Odc) -> None:
    odc.consortium.until_released(model={"kind": "mlp", "epochs": 1})
    odc("receive")
    result = odc("coefficients", odc.consortium.table(2))
    assert (result.code, "odc explain TABLE" in result.err) == (3, True)
