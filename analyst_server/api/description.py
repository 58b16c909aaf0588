"""The OpenAPI document: the table of operations with what the handlers add, in the form that programs read.

Nothing is said here of a single operation. What all share is: addresses, schemes, problem documents.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from analyst_server.api.access import SCHEMES, security
from analyst_server.api.fields import ACCEPT_ENCODING, RETRY_AFTER, Field
from analyst_server.api.fields import SCHEMES as WWW_AUTHENTICATE
from analyst_server.api.problems import OF_HTTP, PROBLEM_MEDIA_TYPE, STATUS, UNEXPECTED
from analyst_server.api.surface import SERVED, Bytes, Content, Draft, Says, Served, success
from protocol import __version__
from protocol.errors import PROBLEM_TYPE_PREFIX
from protocol.operations import OPERATIONS, Operation, Tag
from protocol.texts import Identifier, PartyName
from protocol.tracing import MEMBER
from protocol.version import STREAM_MEDIA_TYPE

Json = dict[str, Any]

_REF: Final = "#/components/schemas/{model}"
_ABOUT: Final = """\
The analyst of a consortium that practises Orthonormal Data Collaboration. docs/protocol.md specifies the
wire; bodies that are not JSON name their section there.

Requests go over TLS 1.3 and, but for those that anybody may send, with a client certificate of the consortium
or an API token. Every error is a problem document (RFC 9457) whose `type` says what it is. Any request may be
answered 429, and 503 without a document by an analyst that stops: both are to be repeated."""
_TAGS: Final[Mapping[Tag, str]] = {
    "discovery": "Versions, limits, health.",
    "enrolment": "How a newcomer gets its certificate.",
    "trust": "Renewal and revocation of certificates.",
    "collaborations": "What happens before the uplinks.",
    "uplink": "The one uplink of an institution, resumable.",
    "results": "The one downlink, and what is known of a round.",
    "tokens": "API tokens of an institution.",
    "operator": "The steps of the analyst's operator.",
}
_IDS: Final[Mapping[str, tuple[Any, str]]] = {
    "collaboration_id": (Identifier, "The id of a collaboration."),
    "invitation_id": (Identifier, "The id of an invitation or a renewal."),
    "upload_id": (Identifier, "The id that the answer to the manifest has."),
    "token_id": (Identifier, "The id of an API token."),
    "party": (PartyName, "The name of a party."),
    "slug": (str, "The last part of a problem's type."),
}
_PROBLEM: Final[Json] = {
    "title": "Problem",
    "type": "object",
    "description": "Why a request is refused (RFC 9457). Members besides these belong to the type.",
    "required": ["type", "title", "status", "detail", "hint", "instance"],
    "properties": {
        "type": {
            "type": "string",
            "description": f"`{PROBLEM_TYPE_PREFIX}SLUG`, or `{OF_HTTP}` for what HTTP refuses.",
        },
        "title": {"type": "string", "description": "The same for every occurrence."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was expected, and what came."},
        "hint": {"type": "string", "description": "What to do next."},
        "instance": {"type": "string", "description": "The path that was asked."},
        MEMBER: {"type": "string", "description": "The id of the request, for the analyst's log."},
        "retry_after_s": {"type": "integer", "description": "After how many seconds to ask again."},
    },
}


@cache
def document() -> Json:
    """Return the document. Every handler has to be registered: `app` loads them all."""
    # in the order of the table, whichever module was loaded first
    ordered = {operation: SERVED[operation] for operation in OPERATIONS if operation in SERVED}
    schemas = _Schemas(ordered.values())
    paths: defaultdict[str, Json] = defaultdict(dict)
    for operation, served in ordered.items():
        paths[operation.path][operation.method.lower()] = _operation(operation, served, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ODC analyst",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": _ABOUT,
        },
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "paths": dict(paths),
        "components": {"schemas": schemas.all(), "securitySchemes": SCHEMES},
    }


@cache
def as_json() -> bytes:
    """Return the document as it is sent."""
    return json.dumps(document(), separators=(",", ":")).encode()


class _Schemas:
    """The JSON schemas of types, each under a name of its own."""

    def __init__(self, all_served: Iterable[Served]) -> None:
        types: dict[tuple[str, JsonSchemaMode], TypeAdapter[Any]] = {}
        for served in all_served:
            answered = [served.answers, *(one.content for one in served.says)]
            for content, mode in (
                (served.takes, "validation"),
                *((one, "serialization") for one in answered),
            ):
                if found := _type(content):
                    types[_key(found), mode] = TypeAdapter(found)  # type: ignore[index]  # modes
        inputs = [(key, mode, adapter) for (key, mode), adapter in types.items()]
        self._of, shared = TypeAdapter.json_schemas(inputs, ref_template=_REF)
        self._shared: Json = shared.get("$defs", {})

    def of(self, content: Content, mode: JsonSchemaMode) -> Json:
        """Return the schema of what a body contains."""
        if isinstance(content, Bytes):
            return {"type": "string", "format": "binary", "description": _specified(content)}
        found = _type(content)
        assert found is not None  # noqa: S101  # what is not bytes has a type
        schema = self._of[_key(found), mode]
        if not isinstance(content, Draft):
            return schema
        whole = self._shared[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        required = [name for name in whole["required"] if name not in content.filled_in]
        return {**whole, "title": f"{found.__name__}Draft", "required": required}

    def all(self) -> Json:
        """Return every schema that others refer to, by name."""
        return {**self._shared, "Problem": _PROBLEM}


def _type(content: Content | None) -> type | None:
    if isinstance(content, Draft):
        return content.of
    return None if content is None or isinstance(content, Bytes) else content


def _key(found: type) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def _specified(content: Bytes) -> str:
    return f"{content.what}: docs/protocol.md, under “{content.heading}”."


def _operation(operation: Operation, served: Served, schemas: _Schemas) -> Json:
    reads = list(served.reads)
    if operation.answer not in (None, STREAM_MEDIA_TYPE):
        reads.append(ACCEPT_ENCODING)
    found: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": served.about.partition("\n")[0].partition(". ")[0].rstrip("."),
        "description": f"{served.about}\n\nFor {operation.caller.value}.",
        "security": security(operation),
        "parameters": [
            *_ids(operation),
            *(_parameter("query", field) for field in served.queries),
            *(_parameter("header", field) for field in reads),
        ],
        "responses": _responses(operation, served, schemas),
    }
    if operation.body is not None:
        assert served.takes is not None, operation.name  # noqa: S101  # a test asks for every operation
        media_type = operation.body.media_type or "application/octet-stream"
        limit = operation.body.max_bytes
        found["requestBody"] = {
            "required": limit is not None,  # the last of a stream may have been sent before
            "description": f"At most {limit} bytes."
            if limit
            else "As long as the terms or the manifest say.",
            "content": {media_type: {"schema": schemas.of(served.takes, "validation")}},
        }
    return found


def _ids(operation: Operation) -> Iterable[Json]:
    for part in operation.path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}")
            kind, about = _IDS.get(name, (str, f"The {name}."))
            schema = TypeAdapter(kind).json_schema()
            yield {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _parameter(where: str, field: Field) -> Json:
    given = {"example": field.example} if field.example else {}
    shown = {"name": field.name, "in": where, "required": field.is_needed, "description": field.about}
    return {**shown, "schema": _value(field), **given}


def _value(field: Field) -> Json:
    return (
        {"type": "string"} if field.pattern is None else {"type": "string", "pattern": f"^({field.pattern})$"}
    )


def _headers(fields: Iterable[Field]) -> Json:
    return {
        field.name: {"description": field.about, "required": field.is_needed, "schema": _value(field)}
        for field in fields
    }


def _responses(operation: Operation, served: Served, schemas: _Schemas) -> Json:
    said = {one.status: one for one in served.says}
    found = _problems(operation)
    statuses = {success(operation)} | ({200} if operation.creates else set())
    for status in sorted(statuses | set(said)):
        says = said.get(status, Says(status))
        about = says.about or _about_success(operation, status)
        answer: Json = {"description": about}
        if says.fields:
            answer["headers"] = _headers(says.fields)
        content, media_type = says.content, operation.answer
        if status in statuses and operation.answer is not None:
            content = served.answers
        if content is not None and media_type is not None:
            answer["content"] = {media_type: {"schema": schemas.of(content, "serialization")}}
        if says.is_problem:
            answer["content"] = _problem(status, [OF_HTTP])
        if str(status) in found:  # readiness: 503 is also what storage that fails is answered with
            before = found[str(status)]
            answer["description"] = f"{about} Or: {before['description']}"
            answer["content"] = {**answer.get("content", {}), **before["content"]}
            fields = answer.get("headers", {})
            answer["headers"] = {
                name: {**one, "required": False} for name, one in fields.items()
            } | before.get("headers", {})
        found[str(status)] = answer
    return dict(sorted(found.items()))


def _about_success(operation: Operation, status: int) -> str:
    if operation.creates:
        return "Created." if status == 201 else "The same request was answered before."
    return "Done." if operation.answer is None else "The answer."


def _problems(operation: Operation) -> dict[str, Json]:
    """Return an answer for each status that a problem of the table has, and for what comes anywhere."""
    titles: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for problem in operation.all_problems:
        titles[STATUS[problem]][PROBLEM_TYPE_PREFIX + problem.code] = problem.title
    titles[500][UNEXPECTED] = "Unexpected error at the analyst"
    return {str(status): _refusal(status, known) for status, known in titles.items()}


def _refusal(status: int, titles: Mapping[str, str]) -> Json:
    about = ", ".join(f"`{kind}` ({title})" for kind, title in titles.items())
    answer: Json = {"description": f"{about}.", "content": _problem(status, list(titles))}
    if status == 401:
        answer["headers"] = _headers([WWW_AUTHENTICATE])
    if status in (429, 503):
        answer["headers"] = _headers([RETRY_AFTER])
    return answer


def _problem(status: int, kinds: list[str]) -> Json:
    told: Json = {"properties": {"type": {"enum": kinds}, "status": {"const": status}}}
    return {PROBLEM_MEDIA_TYPE: {"schema": {"allOf": [{"$ref": _REF.format(model="Problem")}, told]}}}
