"""The local service: what it answers, whom it answers, and what it never says."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pyarrow as pa
import pytest
from starlette.types import ASGIApp, Message

from protocol.errors import InputError
from protocol.table_schema import Schema
from tests.harness.app import ToApp
from tests.harness.in_process import Consortium, rows
from user_client.errors import FieldError
from user_client.sdk import Predictor
from user_client.service import Listening, app, read_or_create_token
from user_client.service.app import MAX_BODY_BYTES, create_app
from user_client.service.content import MOST_ROWS, PredictionRequest, inputs

TOKEN = "a-token-that-nobody-guesses"
SECRET = "Mrs-Miller"


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Predictor]:
    """The model of one round; a test that asks it changes nothing of it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(Consortium(tmp_path_factory.mktemp("round"), patch)) as consortium,
    ):
        consortium.until_released()
        consortium.hospital_round.receive()
        yield consortium.hospital_round.predictor()


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
    assert "column 'x0', data row 2: the text is no Unicode" in answer.json()["detail"]


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
        ({"rows": [ROW, {**ROW, "x1": SECRET}]}, 422, "column 'x1', data row 2: expected a number"),
        ({"rows": [ROW, {**ROW, "x1": None}]}, 422, "column 'x1', data row 2: the field is empty"),
        ({"rows": [ROW, {"x0": 1, "x2": SECRET}]}, 422, "column 'x1', data row 2: the column is missing"),
        (
            {"rows": [ROW, {**ROW, "x1": [SECRET]}]},
            422,
            "column 'x1', data row 2: expected a text, a number, true",
        ),
        ({"rows": [{**ROW, "x1": True}]}, 422, "column 'x1', data row 1: expected a number"),
        ({"rows": [ROW, {**ROW, SECRET: []}]}, 422, "row 2: a column that the terms do not name is no text"),
        ({"rows": [ROW, SECRET]}, 422, "row 2: expected an object with the columns"),
        ({"rows": [ROW], SECRET: 1}, 422, "a member that is none of rows, thresholds, interval"),
        ({"rows": [ROW], "thresholds": {SECRET: SECRET}}, 422, "thresholds: "),
        ([SECRET], 422, "expected an object with the member `rows`"),
        (SECRET, 422, "expected an object with the member `rows`"),
        ({"rows": []}, 422, "rows: "),
        ({"rows": [{}] * (MOST_ROWS + 1)}, 422, "rows: "),
        ({"rows": [ROW], "threshold": SECRET}, 422, "threshold: Extra"),
        ({"rows": [ROW], "thresholds": {SECRET: 0.5}}, 400, "one of no, yes"),
        ({"rows": [ROW], "interval": 0.9}, 400, "do not predict one"),
        ({"rows": [ROW], "skip_unfit": SECRET}, 422, "skip_unfit: "),
        (
            {"rows": [{**ROW, "x1": [SECRET]}], "skip_unfit": True},
            422,
            "column 'x1', data row 1: expected a text",
        ),
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


def asked(service: httpx.Client, body: bytes, **headers: str) -> dict[str, Any]:
    given = {"content-type": "application/json", **headers}
    found = service.post("/v1/predictions", content=body, headers=given)
    assert (found.status_code, found.headers["content-type"]) == (422, "application/problem+json")
    assert SECRET not in found.text
    answer: dict[str, Any] = found.json()
    assert "GET /v1/model" in answer["hint"]
    return answer


AS_JSON = json.dumps({"rows": [ROW]}).encode()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is empty"),
        (b"null", "expected an object with the member `rows`"),
        (b"{", "not JSON from line 1, column 2 on"),
        (AS_JSON[:-1] + f', "{SECRET}": "\xfc"}}'.encode("latin-1"), "is not UTF-8 from its byte"),
        (b"[" * 100_000, "too many lists"),
        (AS_JSON.replace(b"0", b"9" * 5000), "too many digits"),
        (AS_JSON[:-1] + b', "rows": []}', "comes more than once"),
        (AS_JSON[:-1] + b', "thresholds": {"yes": 0, "yes": 1}}', "comes more than once"),
        (
            AS_JSON.replace(b'{"x0', b'{"x1": 5, "x0'),
            "column 'x1', data row 1: the column comes more than once",
        ),
        (
            AS_JSON.replace(b'{"x0', f'{{"{SECRET}": 5, "{SECRET}": 6, "x0'.encode()),
            "row 1: a column that the terms do not name comes more",
        ),
        (AS_JSON[:-1] + b', "\\ud800": 5}', "a member that is none of"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_apart(service: httpx.Client, body: bytes, why: str) -> None:
    assert why in asked(service, body)["detail"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_of_another_type_is_told_so(service: httpx.Client, kind: str) -> None:
    found = asked(service, AS_JSON, **{"content-type": kind})
    assert "`Content-Type: application/json`" in found["detail"]


def test_a_packed_body_is_told_so(service: httpx.Client) -> None:
    found = asked(service, gzip.compress(AS_JSON), **{"content-encoding": "gzip"})
    assert "has a Content-Encoding" in found["detail"]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_what_says_json_in_another_spelling_is_read(service: httpx.Client, start: bytes) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert service.post("/v1/predictions", content=start + AS_JSON, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({"rows": [{**ROW, "x1": SECRET}]}, "GET /v1/model"),
        ({"rows": [{**ROW, "x1": None}]}, "GET /v1/model"),
        ({"rows": [ROW], "thresholds": {"maybe": 0.5}}, "GET /v1/model"),
    ],
)
def test_a_hint_is_for_who_asks_over_rest(service: httpx.Client, body: Any, hint: str) -> None:
    found = service.post("/v1/predictions", json=body).json()["hint"]
    assert hint in found
    assert "command" not in found


def test_a_boolean_is_the_text_true_or_false() -> None:
    columns = [{"kind": "ordinal", "name": "smoker", "levels": ["false", "true"]}]
    label = {"name": "y", "classes": ["no", "yes"]}
    schema = Schema.model_validate({"columns": columns, "label_column": label}, strict=False)
    said = [{"smoker": value} for value in (True, False, "true", None)]
    asking_for = PredictionRequest.model_validate({"rows": said})
    assert asking_for.table(schema).column("smoker").to_pylist() == ["true", "false", "true", None]


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


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_may_be_spelt_in_any_case(predictor: Predictor, scheme: str) -> None:
    client = asking(predictor, {"authorization": f"{scheme} {TOKEN}"})
    assert client.get("/v1/model").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/v1/model", "/metrics", "/openapi.json"])
def test_head_gets_what_get_would_get_without_the_body(service: httpx.Client, path: str) -> None:
    found = service.head(path)
    assert (found.status_code, found.content) == (200, b"")
    assert found.headers["content-type"] == service.get(path).headers["content-type"]


def test_no_caller_is_sent_to_another_address(service: httpx.Client) -> None:
    found = service.post("/v1/predictions/", json={"rows": [ROW]}, headers={"host": "elsewhere.example"})
    assert (found.status_code, "location" in found.headers) == (404, False)


def test_with_too_many_requests_under_way_the_next_is_answered_503(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_UNDER_WAY", 0)
    found = service.post("/v1/predictions", json={"rows": [ROW]})
    assert (found.status_code, found.headers["retry-after"]) == (503, "1")
    assert found.headers["content-type"] == "application/problem+json"
    assert service.get("/healthz").status_code == 200
    assert 'path="/v1/predictions",status="503"} 1.0' in service.get("/metrics").text


def asked_in_part(
    application: ASGIApp, receive: Callable[[], Awaitable[Message]], ends_after_s: float | None = None
) -> list[Message]:
    """Return what is answered to a request whose body comes as `receive` says."""
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/predictions", "headers": headers}
    answered: list[Message] = []

    async def send(message: Message) -> None:
        answered.append(message)

    async def ask() -> None:
        task = asyncio.ensure_future(application(scope, receive, send))
        if ends_after_s is not None:
            await asyncio.wait([task], timeout=ends_after_s)
            task.cancel()
        await task

    asyncio.run(ask())
    return answered


def test_who_hangs_up_in_the_midst_of_a_body_is_not_predicted_for(predictor: Predictor) -> None:
    application = create_app(predictor, TOKEN)
    coming: list[Message] = [
        {"type": "http.request", "body": AS_JSON, "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return coming.pop(0)

    assert asked_in_part(application, receive) == []
    client = httpx.Client(transport=ToApp(application), base_url="http://localhost")
    counted = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    assert 'odc_requests_total{path="/v1/predictions",status="disconnected"} 1.0' in counted
    assert "odc_predicted_rows_total 0.0" in counted


def test_a_request_that_the_end_of_the_service_breaks_off_is_answered(
    predictor: Predictor, caplog: pytest.LogCaptureFixture
) -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    head, body = asked_in_part(create_app(predictor, TOKEN), receive, ends_after_s=0.0)
    assert head["status"] == 503
    assert "the service ends" in json.loads(body["body"])["title"].lower()
    assert "Traceback" not in caplog.text


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
    with pytest.raises(FieldError, match="column 'arrived', data row 1"):
        PredictionRequest(rows=[{name: row[name] for name in row if name != "arrived"}]).table(schema)
