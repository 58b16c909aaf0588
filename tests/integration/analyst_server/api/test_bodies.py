from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from analyst_server.api.bodies import read_limited
from protocol.errors import LimitExceededError
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.version import MEDIA_TYPE
from tests.harness.app import Api, slug
from tests.harness.world import HOSPITAL


def send(api: Api, content_type: str | None, body: bytes = b"") -> Any:
    path = f"/v1/collaborations/{api.world.id}/acceptance"
    headers = {} if content_type is None else {"content-type": content_type}
    return api.as_party(HOSPITAL).put(path, content=body, headers=headers)


@pytest.mark.parametrize("content_type", [MEDIA_TYPE, MEDIA_TYPE + "; charset=x", " " + MEDIA_TYPE])
def test_our_media_type_is_taken(api: Api, content_type: str) -> None:
    api.world.publish()
    answer = send(api, content_type, api.world.acceptance(HOSPITAL))
    assert answer.status_code == 204


@pytest.mark.parametrize(
    "content_type",
    [None, "application/json", "application/vnd.odc.vx+msgpack", "application/vnd.odc.v1+json", "text/plain"],
)
def test_another_content_type_is_refused(api: Api, content_type: str | None) -> None:
    api.world.publish()
    answer = send(api, content_type, api.world.acceptance(HOSPITAL))
    assert answer.status_code == 400
    assert slug(answer) in ("malformed-message", "unsupported-version")


@pytest.mark.parametrize(("version", "who"), [(2, "the analyst"), (0, "the client")])
def test_another_version_is_refused_and_says_who_upgrades(api: Api, version: int, who: str) -> None:
    answer = send(api, f"application/vnd.odc.v{version}+msgpack")
    assert slug(answer) == "unsupported-version"
    assert f"upgrade {who}" in answer.json()["hint"]
    assert answer.json()["theirs"] == [version]


def test_a_message_beyond_the_limit_is_refused(api: Api) -> None:
    answer = send(api, MEDIA_TYPE, bytes(MAX_MESSAGE_BYTES + 1))
    assert (answer.status_code, slug(answer)) == (413, "limit-exceeded")


def test_reading_stops_at_the_limit_whatever_the_length_header_says() -> None:
    taken: list[int] = []

    async def receive() -> dict[str, Any]:
        taken.append(1)
        return {"type": "http.request", "body": bytes(10), "more_body": True}  # without an end

    request = Request({"type": "http", "headers": [(b"content-length", b"10")]}, receive)
    with pytest.raises(LimitExceededError):
        asyncio.run(read_limited(request, 25))
    assert len(taken) == 3


def test_a_body_of_just_the_limit_is_read() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(25), "more_body": False}

    request = Request({"type": "http", "headers": []}, receive)
    assert asyncio.run(read_limited(request, 25)) == bytes(25)
