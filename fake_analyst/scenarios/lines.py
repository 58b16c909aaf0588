"""An analyst that is overloaded, breaks off, or answers too much: a client bears it or stops in time."""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from fake_analyst.between import PIECE_BYTES, Answer, Lie, Request, in_json, with_body
from fake_analyst.client import Step
from fake_analyst.scenario import Scenario, Stand, Tried
from protocol.limits import MAX_ANSWER_BYTES
from protocol.operations import (
    APPEND,
    BEGIN_UPLINK,
    FETCH_DOWNLINK,
    FETCH_TERMS,
    UPLOAD_OFFSET,
    Operation,
)

PROBLEM: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
UNDER_WAY_BYTES: Final = 2**24
"""What the kernels and libraries on both sides may hold of an answer that nobody reads any more."""
PACKED_BYTES: Final = 4 * MAX_ANSWER_BYTES
BEYOND: Final = 10**12
"""An offset behind the end of every stream that is sent here."""
HOSTILE: Final = (
    "\x1b[2J\x1b[31mall is well\x1b[0m \u202egnorw\u202c \x07\x08\x00 \u200b\u2066\r odc: error: none"
)


def problem(slug: str, status: int, detail: str, **members: Any) -> Answer:
    """Return the answer to a request that is refused."""
    said = {
        "type": f"/problems/{slug}",
        "title": "Refused",
        "status": status,
        "detail": detail,
        "hint": "wait",
    }
    headers = {"retry-after": str(RETRY_AFTER_S)} if "retry_after_s" in members else {}
    return in_json({**said, "instance": "/", **members}, status, PROBLEM, **headers)


def _first(count: int, about: Operation | None, answer: Answer) -> Lie:
    """Return a lie that answers so for the first times, and then no more."""
    left = [count]

    def instead(_request: Request) -> Answer | None:
        left[0] -= 1
        return answer if left[0] >= 0 else None

    return Lie(about, instead=instead)


def _changed_once(about: Operation, change: Callable[[Answer], Answer]) -> Lie:
    left = [1]

    def once(_request: Request, answer: Answer) -> Answer | None:
        if answer.status >= 300 or not left[0]:
            return None
        left[0] = 0
        return change(answer)

    return Lie(about, once)


_TURNED_AWAY: Final = problem("too-many-requests", 429, "too many requests", retry_after_s=RETRY_AFTER_S)
_BUSY: Final = problem("storage-busy", 503, "the database is busy", retry_after_s=RETRY_AFTER_S)
_RESTARTING: Final = Answer(503, {"content-type": "text/html"}, b"<h1>503</h1>")


def _waits(tried: Tried) -> str:
    """Say if the client has asked again before the time it was told."""
    for before, after in zip(tried.noted, tried.noted[1:], strict=False):
        passed_s = after.request.at_s - before.request.at_s
        if before.status == 429 and passed_s < RETRY_AFTER_S:
            return f"it asked again {passed_s:.2f} s after a 429 with Retry-After: {RETRY_AFTER_S}"
    return ""


def _says_nothing_hidden(tried: Tried) -> str:
    """Say if the client has printed what would move a terminal's cursor, or hide."""
    output = "".join(one.output for one in tried.ran).replace("\r\n", "\n")
    found = sorted({f"U+{ord(one):04X}" for one in output if one not in "\n\t" and _is_hidden(one)})
    return f"it printed {', '.join(found)} of the analyst's" if found else ""


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf")


def _stops_reading(tried: Tried) -> str:
    taken = max(one.sent_bytes for one in tried.noted if one.lied)
    most = MAX_ANSWER_BYTES + UNDER_WAY_BYTES
    return f"it took {taken:,} bytes of one answer" if taken > most else ""


def _packed(request: Request, answer: Answer) -> Answer | None:
    """Return an answer whose gzip unpacks to four times what one may have."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return None
    return with_body(
        answer, gzip.compress(bytes(PACKED_BYTES), compresslevel=1), **{"content-encoding": "gzip"}
    )


def _endless(_request: Request, answer: Answer) -> Answer:
    return Answer(200, {"content-type": answer.headers["content-type"]}, bytes(PIECE_BYTES), is_endless=True)


def _begins_at(offset: int) -> Callable[[Stand], Sequence[Lie]]:
    def change(_request: Request, answer: Answer) -> Answer:
        said = json.loads(answer.body)
        return with_body(answer, json.dumps({**said, "offset": offset}).encode())

    return lambda _stand: [Lie(BEGIN_UPLINK, change)]


def _goes_on_at(offset: int) -> Callable[[Stand], Sequence[Lie]]:
    """Return an analyst that says at every attempt that it stands at this byte."""
    refusal = problem("offset-mismatch", 409, "expected another offset", expected=offset)

    def where(_request: Request, answer: Answer) -> Answer:
        return replace(answer, headers={**answer.headers, "upload-offset": str(offset)})

    return lambda _stand: [Lie(APPEND, instead=lambda _request: refusal), Lie(UPLOAD_OFFSET, where)]


def _keeps_to_the_stream(tried: Tried) -> str:
    """Say if the client has sent something from an offset on that no stream has."""
    sent = [
        one.request.headers.get("upload-offset", "0")
        for one in tried.after
        if one.request.operation is APPEND
    ]
    wrong = [offset for offset in sent if not offset.isdigit() or int(offset) >= BEYOND]
    return f"it went on at the byte {wrong[0]}, which its stream does not have" if wrong else ""


def _starts_again(tried: Tried) -> str:
    offsets = [
        one.request.headers.get("upload-offset") for one in tried.noted if one.request.operation is APPEND
    ]
    return "" if offsets[1:2] == ["0"] else f"it sent from these bytes on: {offsets}, not again from 0"


def _halved(answer: Answer) -> Answer:
    return replace(answer, hangs_up_after=len(answer.body) // 2)


_AGAIN: Final = "try again, after a pause that doubles from half a second to half a minute"
_OFFSET: Final = (
    "It MUST stop, and send nothing, where an answer names an offset that its stream does not have"
)
_BOUND: Final = "| `MAX_ANSWER_BYTES` | 67108864 | Any other answer of the analyst"

BEFORE_ANYTHING_IS_SIGNED: Final = (
    Scenario(
        name="problem-with-hostile-text",
        does="refuses the terms with a detail, a title and a hint that have control and direction characters",
        section="12",
        says="A client MUST NOT write these texts to a terminal or a log without replacing",
        step=Step.ACCEPT,
        lies=lambda _stand: [
            _first(99, FETCH_TERMS, problem("not-permitted", 403, HOSTILE, hint=HOSTILE, title=HOSTILE))
        ],
        judge=_says_nothing_hidden,
    ),
    Scenario(
        name="answer-without-end",
        does="sends zero bytes for ever where the terms should be",
        section="13",
        says=_BOUND,
        step=Step.ACCEPT,
        lies=lambda _stand: [Lie(FETCH_TERMS, _endless)],
        judge=_stops_reading,
    ),
    Scenario(
        name="answer-packed-without-bound",
        does="sends terms as a megabyte of gzip that unpacks to 256, if the client asks for gzip",
        section="11",
        says="whoever unpacks MUST bound what comes out",
        step=Step.ACCEPT,
        if_asked=True,
        lies=lambda _stand: [Lie(FETCH_TERMS, _packed)],
    ),
    Scenario(
        name="terms-cut-off",
        does="hangs up in the middle of the terms, once",
        section="11",
        says="Every request may be repeated: the second is acknowledged like the first",
        step=Step.ACCEPT,
        lies=lambda _stand: [_changed_once(FETCH_TERMS, _halved)],
        ends="succeeds",
    ),
)
WHILE_ROWS_ARE_SENT: Final = (
    Scenario(
        name="storm-of-429",
        does="turns the first three requests away with Retry-After, and the first bytes of the uplink",
        section="12",
        says="client SHOULD obey up to a minute",
        step=Step.CONTRIBUTE,
        lies=lambda _stand: [_first(3, None, _TURNED_AWAY), _first(1, APPEND, _TURNED_AWAY)],
        ends="succeeds",
        judge=_waits,
    ),
    Scenario(
        name="busy-storage",
        does="answers the first request with `storage-busy`, and the first bytes of the uplink",
        section="12",
        says="A client MUST expect 429, 503 and 507 in answer to any request",
        step=Step.CONTRIBUTE,
        lies=lambda _stand: [_first(1, None, _BUSY), _first(1, APPEND, _BUSY)],
        ends="succeeds",
    ),
    Scenario(
        name="503-without-a-word",
        does=(
            "answers the first request with a 503 that has no problem document, and the first "
            "bytes of the uplink"
        ),
        section="12",
        says=_AGAIN,
        step=Step.CONTRIBUTE,
        lies=lambda _stand: [_first(1, None, _RESTARTING), _first(1, APPEND, _RESTARTING)],
        ends="succeeds",
    ),
    Scenario(
        name="receipt-cut-off",
        does="stores the uplink and hangs up in the middle of the receipt",
        section="11",
        says="it MUST NOT assume that what it sent has arrived",
        step=Step.CONTRIBUTE,
        lies=lambda _stand: [_changed_once(APPEND, _halved)],
        ends="succeeds",
    ),
    Scenario(
        name="upload-starts-again",
        does="says that it could not make the bytes durable, once",
        section="11",
        says="409 `offset-mismatch`, with 0 in `expected`. The upload starts again from 0",
        step=Step.CONTRIBUTE,
        lies=lambda _stand: [
            _first(1, APPEND, problem("offset-mismatch", 409, "expected offset 0", expected=0))
        ],
        ends="succeeds",
        judge=_starts_again,
    ),
    Scenario(
        name="upload-begins-behind-its-end",
        does="opens the upload at a byte that the stream does not have",
        section="11",
        says=_OFFSET,
        step=Step.CONTRIBUTE,
        lies=_begins_at(BEYOND),
        never=(APPEND,),
    ),
    Scenario(
        name="upload-begins-before-its-start",
        does="opens the upload at the byte -1",
        section="11",
        says=_OFFSET,
        step=Step.CONTRIBUTE,
        lies=_begins_at(-1),
        never=(APPEND,),
    ),
    Scenario(
        name="upload-goes-on-behind-its-end",
        does="says in the middle of the upload that it stands at a byte that the stream does not have",
        section="11",
        says=_OFFSET,
        step=Step.CONTRIBUTE,
        lies=_goes_on_at(BEYOND),
        never=(),
        judge=_keeps_to_the_stream,
    ),
)
WHILE_THE_MODEL_COMES: Final = (
    Scenario(
        name="downlink-cut-off",
        does="hangs up in the middle of the downlink, once",
        section="11",
        says="A downlink can be fetched through as many connections as it takes",
        step=Step.RECEIVE,
        lies=lambda _stand: [_changed_once(FETCH_DOWNLINK, _halved)],
        ends="succeeds",
    ),
    Scenario(
        name="nobody-lies",
        does="says the truth to the end",
        section="9",
        says="The model takes one input named `rep`",
        step=Step.RECEIVE,
        ends="succeeds",
        predicts=True,
    ),
)
