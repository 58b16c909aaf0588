from __future__ import annotations

import json
import logging
import shlex

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from analyst_server.api.access_log import AccessLog
from runtime.logs import JsonLines, Lines

FORGED = "/x status=200 outcome=ok party=hospital-b"


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def logged(path: str, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """Return the record of a request for a path, which the server below has decoded."""

    async def unheard(message: Message) -> None:
        pass

    async def silent() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "client": ("192.0.2.1", 1)}
    with caplog.at_level(logging.INFO):
        anyio.run(AccessLog(refuse), scope, silent, unheard)
    return caplog.records[-1]


@pytest.mark.parametrize(
    "path",
    [FORGED, '/x" status=200 outcome="ok', '/x\\" status=200', "/x\u00a0status=200", "/\tparty=lead", '/"'],
)
def test_a_path_writes_no_field_of_its_own(path: str, caplog: pytest.LogCaptureFixture) -> None:
    fields = [each.partition("=") for each in shlex.split(logged(path, caplog).getMessage())]
    assert [name for name, _, _ in fields] == ["address", "method", "path", "status", "outcome", "ms"]
    assert {name: value for name, _, value in fields}["path"] == path
    assert {name: value for name, _, value in fields}["status"] == "404"


def test_an_ordinary_path_stands_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    line = Lines("%(message)s").format(logged("/v1/collaborations", caplog))
    assert line.startswith(
        "address=192.0.2.1 method=GET path=/v1/collaborations status=404 outcome=refused ms="
    )


def test_in_json_a_path_is_one_value(caplog: pytest.LogCaptureFixture) -> None:
    found = json.loads(JsonLines().format(logged(FORGED, caplog)))
    assert (found["path"], found["status"], found["party"]) == (FORGED, 404, None)
