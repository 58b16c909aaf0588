"""The downlink over HTTP: whole, in parts (RFC 9110, section 14), and acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services import downlinks
from protocol.version import STREAM_MEDIA_TYPE
from tests.harness.app import Api, slug
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD


@pytest.fixture
def released(api: Api) -> Api:
    claim(api.world.until_sealed())
    finish(api.world)
    return api


def get(api: Api, **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.as_party(HOSPITAL).get(f"/v1/collaborations/{api.world.id}/downlink", headers=given)


def waiting(api: Api) -> list[str]:
    return downlinks.yet_to_fetch(api.world.analyst, api.world.id)


def test_the_whole_names_its_version_and_offers_parts(released: Api) -> None:
    answer = get(released)
    assert answer.status_code == 200
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == get(released).headers["etag"]


def test_two_members_have_two_versions(released: Api) -> None:
    path = f"/v1/collaborations/{released.world.id}/downlink"
    assert released.as_party(LEAD).get(path).headers["etag"] != get(released).headers["etag"]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("0-", 0, None), ("0-0", 0, 1), ("5-9", 5, 10), ("700-", 700, None), ("3-99999999", 3, None)],
)
def test_a_part_is_the_bytes_that_were_asked_for(
    released: Api, asked: str, start: int, end: int | None
) -> None:
    whole = get(released).content
    answer = get(released, range=f"bytes={asked}")
    assert (answer.status_code, answer.content) == (206, whole[start:end])
    last = (end or len(whole)) - 1
    assert answer.headers["content-range"] == f"bytes {start}-{last}/{len(whole)}"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == STREAM_MEDIA_TYPE


def test_there_is_nothing_behind_the_end(released: Api) -> None:
    length = len(get(released).content)
    answer = get(released, range=f"bytes={length}-")
    assert (answer.status_code, slug(answer)) == (416, "about:blank")
    assert answer.headers["content-range"] == f"bytes */{length}"


@pytest.mark.parametrize("asked", ["bytes=-5", "bytes=0-1,3-4", "rows=0-", "bytes=x-", "bytes=٣-"])
def test_another_form_of_range_is_ignored(released: Api, asked: str) -> None:
    headers: Any = {"range": asked.encode()}
    path = f"/v1/collaborations/{released.world.id}/downlink"
    assert released.as_party(HOSPITAL).get(path, headers=headers).status_code == 200


def test_a_part_of_another_version_is_the_whole_of_this_one(released: Api) -> None:
    tag = get(released).headers["etag"]
    assert get(released, range="bytes=5-", if_range=tag).status_code == 206
    assert get(released, range="bytes=5-", if_range='"other"').status_code == 200


def test_a_client_that_asks_by_ranges_has_fetched_when_it_says_so(released: Api) -> None:
    answer = get(released, range="bytes=0-")
    assert HOSPITAL in waiting(released)
    thanks = get(released, if_none_match=answer.headers["etag"], range="bytes=0-0")
    assert (thanks.status_code, thanks.content) == (304, b"")
    assert HOSPITAL not in waiting(released)


def test_an_acknowledgement_of_another_version_gets_a_byte_and_counts_for_nothing(released: Api) -> None:
    answer = get(released, if_none_match='"other"', range="bytes=0-0")
    assert (answer.status_code, len(answer.content)) == (206, 1)
    assert HOSPITAL in waiting(released)


def test_a_client_that_knows_no_parts_has_fetched_when_the_last_byte_was_sent(released: Api) -> None:
    get(released)
    assert HOSPITAL not in waiting(released)


def test_lost_results_are_told_as_such(released: Api, caplog: pytest.LogCaptureFixture) -> None:
    for path in (released.world.directory / "blobs" / released.world.id / "results").iterdir():
        path.unlink()
    answer = get(released)
    assert (answer.status_code, slug(answer)) == (500, "data-lost")
    assert "No such file" in caplog.text  # with its path, for the operator
    assert HOSPITAL in waiting(released)
