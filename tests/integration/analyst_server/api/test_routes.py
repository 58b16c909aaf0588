from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from analyst_server.api.problems import STATUS
from protocol.codec import decode, pack_list, unpack_list
from protocol.envelope import decode_stored, verify
from protocol.ledger import LedgerPage
from protocol.messages import Receipt
from protocol.operations import BEGIN_UPLINK, OPERATIONS
from protocol.terms import Terms
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, UPLOAD_MEDIA_TYPE
from tests.harness.app import Api, slug
from tests.harness.app import routes as all_routes
from tests.harness.certificates import NOW
from tests.harness.computing import claim, finish
from tests.harness.enrolments import INVITATION_ID, certificate, request
from tests.harness.world import HOSPITAL, LEAD, Uplink, make_uplink

MESSAGE = {"content-type": MEDIA_TYPE}


def begin(api: Api, uplink: Uplink) -> Any:
    path = f"/v1/collaborations/{api.world.id}/uplinks"
    return api.as_party(uplink.party).post(path, content=uplink.body, headers=MESSAGE)


def headers(offset: int, *, last: bool, digest: bytes | None = None) -> dict[str, str]:
    found = {
        "content-type": UPLOAD_MEDIA_TYPE,
        "upload-offset": str(offset),
        "upload-complete": "?1" if last else "?0",
    }
    if digest is not None:
        found["odc-whole-digest"] = f"sha-256=:{base64.b64encode(digest).decode()}:"
    return found


def append(api: Api, uplink: Uplink, location: str, *, start: int = 0, end: int | None = None) -> Any:
    last = end is None
    given = headers(start, last=last, digest=uplink.whole_digest if last else None)
    return api.as_party(uplink.party).patch(location, content=uplink.stream[start:end], headers=given)


@pytest.fixture
def ready(api: Api) -> Api:
    api.world.until_anchored()
    return api


# what there is


def test_every_operation_is_served_and_no_other(api: Api) -> None:
    listed = api.as_party(HOSPITAL).get("/openapi.json").json()["paths"]
    in_the_document = {(path, method.upper()) for path, methods in listed.items() for method in methods}
    served = {
        (route.path, method)
        for route in all_routes(api)
        if getattr(route, "include_in_schema", False)
        for method in route.methods
    }
    in_the_table = {(operation.path, operation.method) for operation in OPERATIONS}
    assert in_the_document == served == in_the_table


# enrolment


def test_a_new_request_for_a_certificate_is_created(api: Api) -> None:
    answer = api.anonymous.post("/v1/enrolments", content=request(), headers=MESSAGE)
    assert (answer.status_code, answer.json()["state"]) == (201, "pending")


def test_the_same_request_again_is_there_already(api: Api) -> None:
    body = request()
    api.anonymous.post("/v1/enrolments", content=body, headers=MESSAGE)
    assert api.anonymous.post("/v1/enrolments", content=body, headers=MESSAGE).status_code == 200


def test_a_certificate_goes_from_the_lead_to_who_asked(api: Api) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    api.anonymous.post("/v1/enrolments", content=request(key), headers=MESSAGE)
    lead = api.as_party(LEAD)
    (row,) = lead.get("/v1/enrolments").json()["enrolments"]
    put = lead.put(f"/v1/enrolments/{row['invitation_id']}/certificate", content=certificate(key))
    assert put.status_code == 204
    shown = api.anonymous.get(f"/v1/enrolments/{INVITATION_ID}").json()
    assert shown["certificate"].startswith("-----BEGIN CERTIFICATE-----")


def test_a_certificate_that_is_too_large_is_refused(api: Api) -> None:
    answer = api.as_party(LEAD).put(f"/v1/enrolments/{INVITATION_ID}/certificate", content=bytes(2**16 + 1))
    assert slug(answer) == "limit-exceeded"


# terms and anchor


def test_the_terms_are_fetched_as_they_were_signed(api: Api) -> None:
    api.world.publish()
    answer = api.as_party(HOSPITAL).get(f"/v1/collaborations/{api.world.id}/terms")
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert verify(Terms, answer.content, api.world.analyst.root, at=NOW).message == api.world.terms


def test_acceptances_and_anchors_travel_as_lists(api: Api) -> None:
    world = api.world
    world.publish()
    path = f"/v1/collaborations/{world.id}"
    for party in (LEAD, HOSPITAL):
        body = world.acceptance(party)
        api.as_party(party).put(f"{path}/acceptance", content=body, headers=MESSAGE)
    assert len(unpack_list(api.as_party(LEAD).get(f"{path}/acceptances").content)) == 2
    sealed = {party: world.sealed_anchor(party) for party in (LEAD, HOSPITAL)}
    put = api.as_party(LEAD).put(f"{path}/anchors", content=pack_list(list(sealed.values())), headers=MESSAGE)
    assert put.status_code == 204
    assert api.as_party(HOSPITAL).get(f"{path}/anchor").content == sealed[HOSPITAL]


def test_an_institution_sees_its_collaborations(api: Api) -> None:
    api.world.publish()
    (row,) = api.as_party(HOSPITAL).get("/v1/collaborations").json()["collaborations"]
    assert row["state"] == "enrolling"


# uplink


def test_a_new_upload_has_a_place_and_stands_at_nothing(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    answer = begin(ready, uplink)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/uploads/{answer.json()['upload_id']}"
    assert (answer.headers["upload-offset"], answer.headers["upload-complete"]) == ("0", "?0")
    assert answer.headers["upload-length"] == str(len(uplink.stream))


def test_the_same_upload_is_found_again(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    first, again = begin(ready, uplink), begin(ready, uplink)
    assert (again.status_code, again.headers["location"]) == (200, first.headers["location"])


def test_the_last_append_is_answered_by_the_receipt(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    answer = append(ready, uplink, begin(ready, uplink).headers["location"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    assert decode_stored(Receipt, answer.content).party == HOSPITAL


def test_an_append_in_parts_says_where_it_stands(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL, rows=20_000)
    location = begin(ready, uplink).headers["location"]
    first_chunk = 32 + 2**16
    answer = append(ready, uplink, location, end=first_chunk)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(first_chunk))
    assert answer.headers["upload-begun"] == "0"
    asked = ready.as_party(HOSPITAL).head(location)
    assert (asked.status_code, asked.headers["upload-offset"]) == (204, str(first_chunk))
    assert append(ready, uplink, location, start=first_chunk).status_code == 200


def test_an_append_that_is_not_the_last_says_what_is_kept_of_the_next_chunk(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL, rows=20_000)
    location = begin(ready, uplink).headers["location"]
    answer = append(ready, uplink, location, end=32 + 2**16 + 700)
    assert (answer.headers["upload-offset"], answer.headers["upload-begun"]) == (str(32 + 2**16), "700")
    assert answer.headers["upload-complete"] == "?0"


def test_a_broken_line_keeps_every_whole_chunk_of_an_upload_below_a_megabyte(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL, rows=20_000)
    assert len(uplink.stream) < 2**20
    location = begin(ready, uplink).headers["location"]
    given = headers(0, last=True, digest=uplink.whole_digest)
    reached = 32 + 2**16
    ready.app.state.body_idle_timeout_s = 0.05
    sent = [uplink.stream[: reached + 700]]
    assert ready.broken_off(HOSPITAL, location, given, sent, hangs_up=True) == 408
    asked = ready.as_party(HOSPITAL).head(location).headers
    assert (asked["upload-offset"], asked["upload-begun"]) == (str(reached), "700")
    assert append(ready, uplink, location, start=reached + 700).status_code == 200


def test_the_whole_digest_counts_and_that_of_the_representation_stands_in_for_it(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    location = begin(ready, uplink).headers["location"]
    given = headers(0, last=True, digest=uplink.whole_digest)
    whole = given.pop("odc-whole-digest")
    other = f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"
    client = ready.as_party(HOSPITAL)
    for wrong in ({"odc-whole-digest": other, "repr-digest": whole}, {"repr-digest": other}):
        answer = client.patch(location, content=uplink.stream, headers={**given, **wrong})
        assert (answer.status_code, slug(answer)) == (422, "digest-mismatch")
    for right in ({"odc-whole-digest": whole, "repr-digest": other}, {"repr-digest": whole}):
        stands = int(client.head(location).headers["upload-offset"])
        sent = {**given, **right, "upload-offset": str(stands)}
        assert client.patch(location, content=uplink.stream[stands:], headers=sent).status_code == 200


@pytest.mark.parametrize("kind", [MEDIA_TYPE.upper(), f"{MEDIA_TYPE.title()} ; charset=x"])
def test_a_media_type_is_compared_without_regard_to_case(ready: Api, kind: str) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    path = f"/v1/collaborations/{ready.world.id}/uplinks"
    answer = ready.as_party(HOSPITAL).post(path, content=uplink.body, headers={"content-type": kind})
    assert answer.status_code == 201


# problems


def test_the_type_of_every_problem_leads_to_what_it_means(api: Api) -> None:
    for kind, status in STATUS.items():
        answer = api.anonymous.get(f"/problems/{kind.code}")
        assert answer.status_code == 200
        found = answer.json()
        assert (found["type"], found["title"]) == (f"/problems/{kind.code}", kind.title)
        assert (found["status"], found["hint"]) == (status, kind.hint)
        assert found["about"]
    assert api.anonymous.get("/problems/unexpected").json()["status"] == 500
    unknown = api.anonymous.get("/problems/no-such-thing")
    assert (unknown.status_code, slug(unknown)) == (404, "not-found")


def test_completing_again_with_nothing_gets_the_same_receipt(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    location = begin(ready, uplink).headers["location"]
    first = append(ready, uplink, location)
    again = append(ready, uplink, location, start=len(uplink.stream))
    assert (again.status_code, again.content) == (200, first.content)
    receipt = ready.as_party(HOSPITAL).get(f"/v1/collaborations/{ready.world.id}/receipt")
    assert receipt.content == first.content


def test_an_append_at_a_wrong_place_names_the_right_one(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    answer = append(ready, uplink, begin(ready, uplink).headers["location"], start=7)
    assert (answer.status_code, slug(answer), answer.json()["expected"]) == (409, "offset-mismatch", 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"upload-offset": "-1"},
        {"upload-offset": "x"},
        {"upload-offset": ""},
        {"upload-offset": "٣"},
        {"upload-offset": "9" * 19},
        {"upload-complete": "1"},
        {"upload-complete": ""},
        {"odc-whole-digest": ""},
        {"odc-whole-digest": "sha-256=:AAAA:"},
        {"odc-whole-digest": "sha-512=:" + "A" * 43 + "=:"},
        {"odc-whole-digest": "sha-256=:" + "=" * 44 + ":"},
    ],
    ids=str,
)
def test_an_append_with_wrong_headers_is_refused(ready: Api, changed: dict[str, str]) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    location = begin(ready, uplink).headers["location"]
    given = {**headers(0, last=True, digest=uplink.whole_digest), **changed}
    raw = {name: value.encode() for name, value in given.items()}
    answer = ready.as_party(HOSPITAL).patch(location, content=uplink.stream, headers=raw)  # type: ignore[arg-type]
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")


def test_more_than_a_chunk_at_once_is_taken_in_pieces(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL, rows=200_000)
    assert len(uplink.stream) > 2**20
    assert append(ready, uplink, begin(ready, uplink).headers["location"]).status_code == 200


def test_an_unknown_upload_has_no_offset(ready: Api) -> None:
    assert ready.as_party(HOSPITAL).head("/v1/uploads/" + "0" * 32).status_code == 404


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_line_that_breaks_or_falls_silent_keeps_what_was_whole(ready: Api, is_idle: bool) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL, rows=400_000)
    assert len(uplink.stream) > 3 * 2**20
    location = begin(ready, uplink).headers["location"]
    sent = [uplink.stream[: 2**20], uplink.stream[2**20 : 2 * 2**20], b"x"]
    ready.app.state.body_idle_timeout_s = 0.05
    given = headers(0, last=True, digest=uplink.whole_digest)
    assert ready.broken_off(HOSPITAL, location, given, sent, hangs_up=not is_idle) == 408
    kept = int(ready.as_party(HOSPITAL).head(location).headers["upload-offset"])
    assert 2**20 < kept <= 2 * 2**20


def test_a_broken_append_is_answered_and_can_go_on(ready: Api) -> None:
    uplink = make_uplink(ready.world.terms, HOSPITAL)
    location = begin(ready, uplink).headers["location"]
    ready.app.state.body_idle_timeout_s = 0.05
    given = headers(0, last=True, digest=uplink.whole_digest)
    assert ready.broken_off(HOSPITAL, location, given, [], hangs_up=False) == 408
    assert append(ready, uplink, location).status_code == 200


def test_a_sender_that_hangs_up_in_the_middle_of_a_message_is_no_incident(
    ready: Api, caplog: pytest.LogCaptureFixture
) -> None:
    path = BEGIN_UPLINK.url(collaboration_id=ready.world.id)
    given = {"content-type": MEDIA_TYPE, "content-length": "100"}
    with caplog.at_level("INFO"):
        status = ready.broken_off(HOSPITAL, path, given, [b"half"], hangs_up=True, method=BEGIN_UPLINK.method)
    assert status == 408
    assert "hung up" in caplog.text
    assert "incident" not in caplog.text


# what comes back


def test_the_downlink_is_a_stream_of_known_length(api: Api) -> None:
    world = api.world.until_sealed()
    assert claim(world) is not None
    finish(world)
    answer = api.as_party(HOSPITAL).get(f"/v1/collaborations/{world.id}/downlink")
    assert answer.headers["content-type"] == STREAM_MEDIA_TYPE
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_downlink_before_the_release_is_out_of_order(ready: Api) -> None:
    answer = ready.as_party(HOSPITAL).get(f"/v1/collaborations/{ready.world.id}/downlink")
    assert (answer.status_code, slug(answer)) == (409, "out-of-order")


def test_a_member_reads_the_report(ready: Api) -> None:
    answer = ready.as_party(HOSPITAL).get(f"/v1/collaborations/{ready.world.id}/report")
    assert answer.json()["state"] == "anchored"


def test_a_member_reads_the_ledger_from_where_it_asks(ready: Api) -> None:
    client, address = ready.as_party(HOSPITAL), f"/v1/collaborations/{ready.world.id}/ledger"
    whole, rest = client.get(address), client.get(address, params={"start": "3"})
    assert whole.headers["content-type"] == MEDIA_TYPE
    assert decode(LedgerPage, rest.content).entries == decode(LedgerPage, whole.content).entries[3:]


@pytest.mark.parametrize("start", ["-1", "x", "1e3", "9" * 16, "4"])
def test_a_ledger_is_asked_for_by_a_number_it_has(ready: Api, start: str) -> None:
    address = f"/v1/collaborations/{ready.world.id}/ledger"
    answer = ready.as_party(HOSPITAL).get(address, params={"start": start})
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")


# answers compressed


def test_terms_are_compressed_for_who_asks_and_only_then(ready: Api) -> None:
    address = f"/v1/collaborations/{ready.world.id}/terms"
    client = ready.as_party(HOSPITAL)
    plain = client.get(address, headers={"accept-encoding": "identity"})
    packed = client.get(address, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert packed.num_bytes_downloaded < plain.num_bytes_downloaded


def test_a_downlink_is_never_compressed(api: Api) -> None:
    world = api.world.until_sealed()
    assert claim(world) is not None
    finish(world)
    address = f"/v1/collaborations/{world.id}/downlink"
    answer = api.as_party(HOSPITAL).get(address, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in answer.headers
    assert int(answer.headers["content-length"]) == answer.num_bytes_downloaded
