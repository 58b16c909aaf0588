"""The local service where a row does not fit the terms: it refuses, or skips the row, as it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.harness.app import ToApp
from tests.harness.in_process import Consortium, rows
from user_client.service.app import create_app

SECRET = "Mrs-Miller"
ROW = {"x0": 0, "x1": 0, "x2": 0}


@pytest.fixture
def service(consortium: Consortium) -> Iterator[httpx.Client]:
    consortium.until_released()
    consortium.hospital_round.receive()
    application = create_app(consortium.hospital_round.predictor(), None)
    with httpx.Client(transport=ToApp(application), base_url="http://localhost") as client:
        yield client


def test_rows_that_do_not_fit_may_be_skipped(service: httpx.Client) -> None:
    fitting = pa.table(rows(5)).to_pylist()
    unfit = [
        {**ROW, "x1": SECRET},
        {"x0": SECRET},
        {**ROW, "x0": SECRET, "x1": None},
        {**ROW, "x2": "\ud800"},
    ]
    body = json.dumps({"rows": [unfit[0], fitting[0], *unfit[1:], *fitting[1:]], "skip_unfit": True})
    alone = service.post("/v1/predictions", json={"rows": fitting}).json()
    found = service.post("/v1/predictions", content=body, headers={"content-type": "application/json"})
    first, *others = alone["predictions"]
    assert found.status_code == 200
    assert found.json()["predictions"] == [None, first, None, None, None, *others]
    where = [(1, "x1"), (3, "x1"), (4, "x0"), (5, "x2")]  # a row with several such fields is named once
    assert found.json()["unfit"] == [{"row": row, "column": column} for row, column in where]
    assert SECRET not in found.text
    assert f"odc_predicted_rows_total {2 * len(fitting):.1f}" in service.get("/metrics").text


@pytest.mark.parametrize(
    ("asked_for", "expected"),
    [
        ([ROW], {"unfit": []}),
        ([{**ROW, "x1": SECRET}], {"predictions": [None], "unfit": [{"row": 1, "column": "x1"}]}),
        ([{}], {"predictions": [None], "unfit": [{"row": 1, "column": "x0"}]}),
    ],
)
def test_who_skips_rows_is_told_which_even_if_none_or_all_are(
    service: httpx.Client, asked_for: list[Any], expected: dict[str, Any]
) -> None:
    found = service.post("/v1/predictions", json={"rows": asked_for, "skip_unfit": True}).json()
    assert {name: found[name] for name in expected} == expected


def test_without_skipping_an_answer_is_as_before(service: httpx.Client) -> None:
    for body in ({"rows": [ROW]}, {"rows": [ROW], "skip_unfit": False}):
        assert list(service.post("/v1/predictions", json=body).json()) == ["predictions"]


def test_a_refusal_over_a_row_says_how_to_skip_it(service: httpx.Client) -> None:
    body = {"rows": [ROW, {**ROW, "x1": SECRET}]}
    assert '`"skip_unfit": true` in the body' in service.post("/v1/predictions", json=body).json()["hint"]
