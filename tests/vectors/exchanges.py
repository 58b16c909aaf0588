"""The cases of http.json: what a client makes of answers, and of lines that break.

In `uploads` and `downloads` each step is what the analyst does with the next PATCH or GET. A step says what
the request has to be; a `break` ends the connection after it; `stands` is what every HEAD is answered until
the next step.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from tests.vectors.examples import ANCHOR_REP, COLLABORATION, LABELS, REP, UPLINK, Case, array_stream
from tests.vectors.packing import pack

PROBLEM = "application/problem+json"
UPLOAD = "3f6c8e0fd15b4f24a2a5a6b7c8d9e0f1"
STREAM = b"".join(map(array_stream, (REP, ANCHOR_REP, LABELS)))
FIRST = 32 + len(REP)
WHOLE_DIGEST = hashlib.sha256(b"".join(spec["digest"] for spec in UPLINK["arrays"])).digest()
RECEIPT_BYTES = "81a178c0"  # stands for the signed receipt: a client takes it from the answer as it is


def problems() -> Iterator[Case]:
    """Answers and the error that each is: its slug, or null where the status alone says it."""

    def document(slug: str, status: int, **more: Any) -> dict[str, Any]:
        return {
            "type": f"/problems/{slug}",
            "title": "T",
            "status": status,
            "detail": "d",
            "hint": "h",
            **more,
        }

    rows: list[tuple[str, int, dict[str, str], Any, dict[str, Any]]] = [
        ("a problem", 409, {"content-type": PROBLEM}, document("out-of-order", 409),
            {"slug": "out-of-order"}),
        ("a media type in other letters, with a parameter", 409,
            {"content-type": "Application/Problem+JSON; charset=utf-8"}, document("out-of-order", 409),
            {"slug": "out-of-order"}),
        ("an offset", 409, {"content-type": PROBLEM}, document("offset-mismatch", 409, expected=65568),
            {"slug": "offset-mismatch", "expected": 65568}),
        ("too many requests", 429, {"content-type": PROBLEM, "retry-after": "3"},
            document("too-many-requests", 429, retry_after_s=3),
            {"slug": "too-many-requests", "retry_after_s": 3}),
        ("too many requests, in a header alone", 429, {"retry-after": "7"}, None,
            {"slug": None, "retry_after_s": 7}),
        ("a slug of a later version", 409, {"content-type": PROBLEM}, document("of-the-future", 409),
            {"slug": None}),
        ("a member of a later version", 404, {"content-type": PROBLEM}, document("not-found", 404, new=[1]),
            {"slug": "not-found"}),
        ("JSON that is no problem document", 404, {"content-type": "application/json"},
            document("not-found", 404), {"slug": None}),
        ("a page of a proxy", 502, {"content-type": "text/html"}, None, {"slug": None}),
        ("a problem document that is a list", 500, {"content-type": PROBLEM}, [1], {"slug": None}),
        ("a type without a slug", 404, {"content-type": PROBLEM},
            {"type": "about:blank", "status": 404, "title": "Not Found"}, {"slug": None}),
        ("a type that begins as ours does", 404, {"content-type": PROBLEM},
            {**document("not-found", 404), "type": "/problems/not-found/x"}, {"slug": None}),
    ]  # fmt: skip
    for name, status, headers, body, expected in rows:
        yield {"name": name, "status": status, "headers": headers, "json": body, **expected}


def _refusal(slug: str, status: int, **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "headers": {"content-type": PROBLEM},
        "json": {"type": f"/problems/{slug}", "title": "T", "status": status, "detail": "d", **more},
    }


DONE = {
    "status": 200,
    "headers": {"content-type": "application/vnd.odc.v1+msgpack"},
    "hex": RECEIPT_BYTES,
}


def uploads() -> Iterator[Case]:
    all_of_it = len(STREAM)

    def stands(offset: int, begun: int = 0) -> dict[str, int]:
        return {"offset": offset, "begun": begun}

    for name, start, steps, verdict in [
        ("at once", stands(0), [{"at": 0, "answer": DONE}], "valid"),
        ("one that had begun", stands(FIRST), [{"at": FIRST, "answer": DONE}], "valid"),
        ("one that had begun inside a chunk", stands(FIRST, 7), [{"at": FIRST + 7, "answer": DONE}], "valid"),
        ("one that is complete", {**stands(all_of_it), "complete": True}, [{"at": all_of_it, "answer": DONE}],
            "valid"),
        ("a line that breaks before anything", stands(0),
            [{"at": 0, "break": True, "stands": stands(0)}, {"at": 0, "answer": DONE}], "valid"),
        ("a line that breaks after a chunk", stands(0),
            [{"at": 0, "break": True, "stands": stands(FIRST)}, {"at": FIRST, "answer": DONE}], "valid"),
        ("a line that breaks inside a chunk", stands(0),
            [{"at": 0, "break": True, "stands": stands(FIRST, 3)}, {"at": FIRST + 3, "answer": DONE}],
            "valid"),
        ("a line that breaks when everything has arrived", stands(0),
            [{"at": 0, "break": True, "stands": stands(all_of_it)}, {"at": all_of_it, "answer": DONE}],
            "valid"),
        ("another offset", stands(FIRST),
            [{"at": FIRST, "answer": _refusal("offset-mismatch", 409, expected=0), "stands": stands(0)},
             {"at": 0, "answer": DONE}], "valid"),
        ("what had begun was at fault", stands(FIRST, 3),
            [{"at": FIRST + 3, "answer": _refusal("digest-mismatch", 422), "stands": stands(FIRST)},
             {"at": FIRST, "answer": DONE}], "valid"),
        ("too many requests", stands(0),
            [{"at": 0, "answer": _refusal("too-many-requests", 429, retry_after_s=1), "stands": stands(0)},
             {"at": 0, "answer": DONE}], "valid"),
        ("an analyst that restarts", stands(0),
            [{"at": 0, "answer": {"status": 503, "headers": {}}, "stands": stands(FIRST)},
             {"at": FIRST, "answer": DONE}], "valid"),
        ("another uplink was accepted", stands(0),
            [{"at": 0, "answer": _refusal("different-uplink", 409), "stands": stands(0)}],
            "different-uplink"),
        ("a round that is sealed", stands(0),
            [{"at": 0, "answer": _refusal("out-of-order", 409), "stands": stands(0)}], "out-of-order"),
        ("a row that is too long", stands(0),
            [{"at": 0, "answer": _refusal("row-too-long", 422), "stands": stands(0)}], "row-too-long"),
    ]:  # fmt: skip
        yield {"name": name, "begins": {"complete": False, **start}, "steps": steps, "verdict": verdict}


def downloads() -> Iterator[Case]:
    """Of a resource of 100 bytes, byte k being k; `from` says which bytes of it an answer has."""
    first, second = '"one"', '"two"'

    def part(begin: int, end: int = 100, tag: str = first, *, says: int | None = None) -> dict[str, Any]:
        start = begin if says is None else says
        headers = {"etag": tag, "content-range": f"bytes {start}-99/100"}
        return {"status": 206, "headers": headers, "from": begin, "to": end}

    everything = {"status": 200, "headers": {"etag": first}, "from": 0, "to": 100}
    for name, steps, verdict in [
        ("in one part", [{"at": 0, "answer": part(0)}], "valid"),
        ("an analyst that knows no parts", [{"at": 0, "answer": everything}], "valid"),
        ("a line that breaks", [{"at": 0, "answer": part(0, 40), "break": True},
                                {"at": 40, "if_range": first, "answer": part(40)}], "valid"),
        ("a line that breaks twice", [{"at": 0, "answer": part(0, 40), "break": True},
                                      {"at": 40, "if_range": first, "answer": part(40, 70), "break": True},
                                      {"at": 70, "if_range": first, "answer": part(70)}], "valid"),
        ("all of it again", [{"at": 0, "answer": part(0, 40), "break": True},
                             {"at": 40, "if_range": first, "answer": everything}], "valid"),
        ("a part that was not asked for", [{"at": 0, "answer": part(0, 40), "break": True},
                                           {"at": 40, "if_range": first, "answer": part(50, says=50)}],
            "refused"),
        ("a part of another version", [{"at": 0, "answer": part(0, 40), "break": True},
                                       {"at": 40, "if_range": first, "answer": part(40, tag=second)}],
            "refused"),
        ("before the release", [{"at": 0, "answer": _refusal("out-of-order", 409)}], "out-of-order"),
        ("after a failure", [{"at": 0, "answer": _refusal("round-failed", 409)}], "round-failed"),
    ]:  # fmt: skip
        yield {"name": name, "steps": steps, "verdict": verdict}


def exchanges() -> dict[str, Any]:
    """The content of http.json."""
    digest = f"sha-256=:{base64.b64encode(WHOLE_DIGEST).decode()}:"
    return {
        "collaboration_id": COLLABORATION,
        "upload_id": UPLOAD,
        "manifest": pack(UPLINK).hex(),
        "stream": STREAM.hex(),
        "whole_digest": digest,
        "repr_digest": digest,
        "receipt": RECEIPT_BYTES,
        "problems": [*problems()],
        "uploads": [*uploads()],
        "downloads": [*downloads()],
    }
