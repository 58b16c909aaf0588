"""The local service: what it answers, whom it answers, and what it never says."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from protocol.errors import InputError
from protocol.table_schema import Schema
from tests.harness.app import ToApp
from tests.harness.in_process import Consortium, rows
from user_client.errors import FieldError
from user_client.sdk import Predictor
from user_client.service import Listening, read_or_create_token
from user_client.service.app import MAX_BODY_BYTES, create_app
from user_client.service.content import MOST_ROWS, PredictionRequest, inputs

TOKEN = "a-token-that-nobody-guesses"
SECRET = "Mrs-Miller"


@pytest.fixture
def predictor(consortium: Consortium) -> Predictor:
    consortium.until_released()
    consortium.hospital_round.receive()
    return consortium.hospital_round.predictor()


def asking(predictor: Predictor, headers: dict[str, Any] | None = None) -> httpx.Client:
    transport = ToApp(create_app(predictor, TOKEN))
    return httpx.Client(transport=transport, base_url="http://localhost", headers=headers)


@pytest.fixture
def service(predictor: Predictor) -> Iterator[httpx.Client]:
    with asking(predictor, {"authorization": f"Bearer {TOKEN}"}) as client:
        yield client


def as_rows(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(table).to_pylist()
    return found


def test_half_a_character_is_refused_in_words(service: httpx.Client) -> None:
    table = as_rows(rows(3))
    table[1]["x0"] = "\ud800"
    body = json.dumps({"rows": table})
    answer = service.post("/v1/predictions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "column 'x0', row 2: the text is no Unicode" in answer.json()["detail"]


def test_rows_get_what_the_command_predicts(service: httpx.Client, predictor: Predictor) -> None:
    table = rows(5)
    found = service.post("/v1/predictions", json={"rows": as_rows(table)})
    expected = predictor.predict(pa.table(table))
    assert found.status_code == 200
    answers = found.json()["predictions"]
    assert [answer["prediction"] for answer in answers] == expected.labels
    for answer, row in zip(answers, expected.probabilities, strict=True):
        assert list(answer) == ["prediction", "probabilities"]
        assert answer["probabilities"] == pytest.approx({"no": float(row[0]), "yes": float(row[1])}, abs=1e-6)


def test_fields_may_be_numbers_or_what_a_csv_file_has(service: httpx.Client) -> None:
    numbers = {"x0": 1, "x1": 0.25, "x2": -1.5, "not in the terms": None}
    texts = {"x0": "1", "x1": " 0.25", "x2": "-1.50"}
    first, second = service.post("/v1/predictions", json={"rows": [numbers, texts]}).json()["predictions"]
    assert first == second


def test_a_threshold_moves_the_class(service: httpx.Client) -> None:
    body = {"rows": as_rows(rows(5)), "thresholds": {"yes": 0.0}}
    found = service.post("/v1/predictions", json=body).json()["predictions"]
    assert {answer["prediction"] for answer in found} == {"yes"}


ROW = {"x0": 0, "x1": 0, "x2": 0}


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"rows": [ROW, {**ROW, "x1": SECRET}]}, 422, "column 'x1', row 2: expected a number"),
        ({"rows": [ROW, {**ROW, "x1": None}]}, 422, "column 'x1', row 2: the field is empty"),
        ({"rows": [ROW, {"x0": 1, "x2": SECRET}]}, 422, "column 'x1', row 2: the column is missing"),
        ({"rows": [{**ROW, "x1": [SECRET]}]}, 422, "rows.0: "),
        ({"rows": [{**ROW, "x1": True}]}, 422, "rows.0: "),
        ({"rows": []}, 422, "rows: "),
        ({"rows": [{}] * (MOST_ROWS + 1)}, 422, "rows: "),
        ({"rows": [ROW], "threshold": SECRET}, 422, "threshold: Extra"),
        ({"rows": [ROW], "thresholds": {SECRET: 0.5}}, 400, "one of no, yes"),
        ({"rows": [ROW], "interval": 0.9}, 400, "do not predict one"),
    ],
)
def test_a_request_that_means_nothing_is_answered_in_words_and_never_quoted(
    service: httpx.Client, caplog: pytest.LogCaptureFixture, body: Any, status: int, why: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        found = service.post("/v1/predictions", json=body)
    assert (found.status_code, found.headers["content-type"]) == (status, "application/problem+json")
    assert why in found.json()["detail"]
    assert found.json()["status"] == status
    assert SECRET not in found.text + caplog.text


def test_what_is_no_json_is_not_quoted(service: httpx.Client) -> None:
    found = service.post("/v1/predictions", content=f'{{"rows": {SECRET}'.encode())
    assert (found.status_code, SECRET in found.text) == (422, False)


def test_a_body_that_is_too_large_is_refused(service: httpx.Client) -> None:
    found = service.post("/v1/predictions", content=b" " * (MAX_BODY_BYTES + 1))
    assert (found.status_code, "fewer rows" in found.json()["title"]) == (413, True)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/model"), ("POST", "/v1/predictions"), ("GET", "/metrics")]
)
@pytest.mark.parametrize("sent", [None, "Bearer", f"Basic {TOKEN}", "Bearer another-token", "Bearer tökén"])
def test_without_the_token_nothing_is_answered(
    predictor: Predictor, method: str, path: str, sent: str | None
) -> None:
    client = asking(predictor, {"authorization": sent.encode("latin-1")} if sent else None)
    found = client.request(method, path, json={"rows": [ROW]})
    assert (found.status_code, found.headers["www-authenticate"]) == (401, "Bearer")


def test_the_health_needs_no_token_and_says_nothing_else(predictor: Predictor) -> None:
    found = asking(predictor).get("/healthz")
    assert (found.status_code, found.json()) == (200, {"status": "ok"})


def test_the_model_says_what_it_takes(service: httpx.Client, predictor: Predictor) -> None:
    found = service.get("/v1/model").json()
    assert found["inputs"] == dict.fromkeys(("x0", "x1", "x2"), "number")
    assert (found["label"], found["classes"], found["task"]) == ("y", ["no", "yes"], "classes")
    assert found["collaboration_id"] == predictor.terms.collaboration_id


def test_the_metrics_count_requests_and_rows(service: httpx.Client) -> None:
    service.post("/v1/predictions", json={"rows": [ROW, ROW]})
    service.post("/v1/predictions", json={"rows": []})
    service.get(f"/{SECRET}")
    found = service.get("/metrics").text
    assert 'odc_requests_total{path="/v1/predictions",status="200"} 1.0' in found
    assert 'odc_requests_total{path="/v1/predictions",status="422"} 1.0' in found
    assert 'odc_requests_total{path="other",status="404"} 1.0' in found
    assert "odc_predicted_rows_total 2.0" in found
    assert "odc_prediction_seconds_count 2.0" in found
    assert SECRET not in found


def test_what_is_unexpected_is_answered_counted_and_never_quoted(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise RuntimeError(f"cannot read {SECRET}")

    monkeypatch.setattr(Predictor, "predict", fail)
    found = service.post("/v1/predictions", json={"rows": [ROW]})
    assert (found.status_code, found.headers["content-type"]) == (500, "application/problem+json")
    assert found.json()["type"] == "/problems/unexpected"
    counted = service.get("/metrics").text
    assert 'odc_requests_total{path="/v1/predictions",status="500"} 1.0' in counted
    assert "odc_prediction_seconds_count 1.0" in counted
    assert "unexpected RuntimeError at test_service.py:" in caplog.text
    assert SECRET not in found.text + caplog.text


def test_anybody_may_read_the_description_which_names_every_path_and_the_token(predictor: Predictor) -> None:
    found = asking(predictor).get("/openapi.json").json()
    assert set(found["paths"]) == {"/healthz", "/v1/model", "/v1/predictions", "/metrics"}
    assert found["components"]["securitySchemes"]["apiToken"]["scheme"] == "bearer"
    assert found["paths"]["/v1/model"]["get"]["security"] == [{"apiToken": []}]
    assert found["paths"]["/healthz"]["get"]["security"] == []


@pytest.mark.parametrize(
    ("token", "by_certificate", "needed"),
    [
        (None, True, [{"clientCertificate": []}]),
        (TOKEN, True, [{"clientCertificate": [], "apiToken": []}]),
        (None, False, []),
    ],
)
def test_the_description_says_what_callers_have_to_show(
    predictor: Predictor, token: str | None, by_certificate: bool, needed: list[dict[str, list[str]]]
) -> None:
    found = create_app(predictor, token, by_certificate=by_certificate).openapi()
    assert found["paths"]["/v1/predictions"]["post"]["security"] == needed
    schemes = found["components"]["securitySchemes"]
    assert sorted(schemes) == sorted(name for one in needed for name in one)
    assert all(schemes[name]["type"] == "mutualTLS" for name in schemes if name == "clientCertificate")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"host": "10.0.0.5"}, "is not the loopback"),
        ({"host": "::"}, "is not the loopback"),
        ({"host": "hospital.example"}, "is not the loopback"),
        ({"certificate": "c.pem"}, "together"),
        ({"client_ca": "ca.pem"}, "needs TLS"),
    ],
)
def test_what_would_be_unsafe_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Listening(**given)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080/v1/predictions"),
        ("localhost", "http://localhost:8080/v1/predictions"),
        ("::1", "http://[::1]:8080/v1/predictions"),
    ],
)
def test_the_loopback_needs_no_tls(host: str, url: str) -> None:
    assert Listening(host).url == url


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Any) -> None:
    path = tmp_path / "serve.token"
    first = read_or_create_token(path)
    assert (read_or_create_token(path), path.stat().st_mode & 0o777) == (first, 0o600)
    path.write_text("short\n")
    with pytest.raises(InputError, match="holds no token"):
        read_or_create_token(path)


def test_dates_are_taken_as_they_are_written_and_durations_with_where_they_begin() -> None:
    numbers = {"kind": "range", "low": 0, "high": 100, "centre": 50, "dates": "iso"}
    schema = Schema.model_validate(
        {
            "columns": [
                {**numbers, "name": "admitted", "high": 30000},
                {**numbers, "name": "discharged", "since": "arrived"},
                {"kind": "ordinal", "name": "grade", "levels": ["low", "high"]},
            ],
            "label_column": {"name": "y", "classes": ["no", "yes"]},
        },
        strict=False,
    )
    assert inputs(schema) == {
        "admitted": "date written as iso",
        "discharged": "date written as iso",
        "arrived": "date written as iso",
        "grade": "text",
    }
    row = {"admitted": "2026-01-02", "discharged": "2026-01-05", "arrived": "2026-01-01", "grade": "high"}
    table = PredictionRequest(rows=[{**row, "other": 1}]).table(schema)
    assert table.to_pylist() == [row]
    with pytest.raises(FieldError, match="column 'arrived', row 1"):
        PredictionRequest(rows=[{name: row[name] for name in row if name != "arrived"}]).table(schema)
