"""One id leads from a request to its answer, to the log, and to the round that it let begin."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from protocol.tracing import traceparent
from runtime.logs import JsonLines, Lines, telling, told
from tests.harness.app import Api
from tests.harness.computing import Watched
from tests.harness.world import World

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Written(logging.Handler):
    """Keeps what a formatter makes of each record when it is logged."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def written() -> Iterator[Written]:
    handler = Written(JsonLines())
    root = logging.getLogger("analyst_server")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def test_a_refusal_carries_the_id_that_the_log_has(world: World, written: Written) -> None:
    answer = Api(world).with_pem(None).get("/v1/collaborations")
    problem = answer.json()
    assert re.fullmatch("[0-9a-f]{16}", problem["request"])
    assert [json.loads(line)["request"] for line in written.lines] == [problem["request"]]


def test_the_trace_that_a_client_sends_is_the_id(world: World, written: Written) -> None:
    client = Api(world).with_pem(None)
    answer = client.get("/no/such/path", headers={"traceparent": traceparent(TRACE)})
    assert answer.json()["request"] == TRACE
    assert [json.loads(line)["request"] for line in written.lines] == [TRACE]


def test_what_a_client_makes_up_is_no_id(world: World, written: Written) -> None:
    client = Api(world).with_pem(None)
    answer = client.get("/no/such/path", headers={"traceparent": 'x" level="critical'})
    assert re.fullmatch("[0-9a-f]{16}", answer.json()["request"])
    assert "critical" not in "".join(written.lines)


def test_an_answer_without_a_problem_carries_no_id(world: World) -> None:
    """It would be bytes in every answer, for a client that knows what it has asked."""
    answer = Api(world).with_pem(None).get("/healthz")
    assert TRACE not in str(answer.headers)
    assert "request" not in answer.text


def test_the_lines_of_a_round_have_the_id_of_the_request_that_completed_it(
    world: World, written: Written
) -> None:
    with telling(request=TRACE):
        world.until_sealed()
    Watched(world).run_one()
    lines = [json.loads(line) for line in written.lines]
    done = next(line for line in lines if line["message"].endswith(": done"))
    assert (done["request"], done["collaboration_id"]) == (TRACE, world.id)


def test_a_line_of_text_ends_with_what_it_is_about() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "done", None, None)
    with telling(request=TRACE):
        assert Lines("%(message)s").format(record) == f"done [request={TRACE}]"
        assert json.loads(JsonLines().format(record))["request"] == TRACE
    assert Lines("%(message)s").format(record) == "done"
    assert told("request") is None
