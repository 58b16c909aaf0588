"""The REST reference, as Markdown, from the OpenAPI documents of the analyst and of ``odc serve``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from analyst_server import app  # noqa: F401  # registers every handler, which the description needs
from analyst_server.api import description
from user_client.sdk import Predictor
from user_client.service.app import create_app

Json = Mapping[str, Any]

WRITTEN: Final = (
    "<!-- written by `make reference` from the OpenAPI document: change the code, not this file -->"
)
_ANALYST: Final = """\
# REST of the analyst

{about}

Version {version}. A running analyst serves the same as an OpenAPI document at `GET /openapi.json`, to
anybody. How an integration gets a token is described for the [integrator](for-integrators.md);
[protocol.md](protocol.md) has the meaning of every byte.

**In every answer.** Any request may be refused with {common}. They are not repeated below.
A request may have `Accept-Encoding: gzip`, or name the
[coding](protocol.md#content-coding) of the analyst's certificate.
"""
_SERVICE: Final = """\
# REST of the local service

{about}

Version {version}. This is what `odc serve` answers at an institution ([how to run
it](operations.md#a-local-service)). The service has the same as an OpenAPI document at `GET /openapi.json`.
The callers below are those of a service with a token; with `--client-ca`, callers need a client
certificate.
"""
_SLUG: Final = re.compile(r"`/problems/([a-z0-9-]+)`")


def analyst_reference() -> str:
    """Return the page about the analyst's REST API."""
    document = description.document()
    common = _common_problems(document)
    about = _ANALYST.format(
        about=document["info"]["description"],
        version=document["info"]["version"],
        common=", ".join(map(_problem_link, sorted(common))),
    )
    tags = [(tag["name"], tag["description"]) for tag in document["tags"]]
    parts = [WRITTEN, about, *_operations(document, tags, common), *_schemas(document)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def service_reference() -> str:
    """Return the page about the REST API of ``odc serve``."""
    # the description asks nothing of the predictor, which only handlers use
    document = create_app(cast("Predictor", None), "a token").openapi()
    about = _SERVICE.format(about=document["info"]["description"], version=document["info"]["version"])
    parts = [WRITTEN, about, *_operations(document, [], frozenset()), *_schemas(document)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _all_operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _problems(operation: Json) -> set[str]:
    return {
        slug
        for response in operation["responses"].values()
        for slug in _SLUG.findall(response["description"])
    }


def _common_problems(document: Json) -> frozenset[str]:
    return frozenset(set.intersection(*(_problems(one) for *_, one in _all_operations(document))))


def _operations(document: Json, tags: Iterable[tuple[str, str]], common: frozenset[str]) -> Iterator[str]:
    for tag, about in [*tags, ("", "")]:
        of_tag = [one for one in _all_operations(document) if one[2].get("tags", [""])[0] == tag]
        if not of_tag:
            continue
        yield f"## {tag.capitalize()}\n\n{about}" if tag else "## Paths"
        for method, path, operation in of_tag:
            yield _operation(method, path, operation, common)


def _operation(method: str, path: str, operation: Json, common: frozenset[str]) -> str:
    parts = [
        f"### `{method} {path}`",
        _about(operation),
        f"Callers: {_callers(operation.get('security', []))}.",
    ]
    parameters = [one for one in operation.get("parameters", []) if one["name"] != "Accept-Encoding"]
    if parameters:
        parts.append(_table(("parameter", "where", "value", "about"), map(_parameter, parameters)))
    body = operation.get("requestBody")
    if body is not None:
        needed = "" if body.get("required", False) else " (may be left out)"
        parts.append(
            f"Body{needed}: {_content(body['content'])}. {_one_line(body.get('description', ''))}".strip()
        )
    responses = operation["responses"]
    good = [(status, one) for status, one in responses.items() if int(status) < 400]
    parts.append(_table(("status", "content", "about"), (_answer(status, one) for status, one in good)))
    refusals = sorted(_problems(operation) - common)
    if refusals:
        parts.append(f"Refused with: {', '.join(map(_problem_link, refusals))}.")
    elif not common:
        refused = [(status, one) for status, one in responses.items() if int(status) >= 400]
        if refused:
            parts.append(_table(("refused", "when"), (_refusal(status, one) for status, one in refused)))
    return "\n\n".join(parts)


def _about(operation: Json) -> str:
    text = operation.get("description") or operation["summary"]
    return "\n\n".join(_one_line(paragraph) for paragraph in re.split(r"\n\s*\n", text))


def _callers(security: Iterable[Json]) -> str:
    ways = [
        " and ".join(f"`{scheme}`{_scopes(scopes)}" for scheme, scopes in way.items()) for way in security
    ]
    return " or ".join(ways) or "anybody"


def _scopes(scopes: Iterable[str]) -> str:
    said = ", ".join(f"`{scope}`" for scope in scopes)
    return f" ({said})" if said else ""


def _parameter(one: Json) -> tuple[str, str, str, str]:
    needed = one["in"] if one.get("required") else f"{one['in']}, optional"
    return f"`{one['name']}`", needed, _type(one["schema"]), _one_line(one.get("description", ""))


def _answer(status: str, response: Json) -> tuple[str, str, str]:
    content = response.get("content")
    about = _one_line(response["description"])
    if about == "Successful Response":  # FastAPI's word where a handler has none
        about = "The answer."
    return status, _content(content) if content else "empty", about


def _refusal(status: str, response: Json) -> tuple[str, str]:
    return status, _one_line(response["description"])


def _content(content: Json) -> str:
    return " or ".join(
        f"`{media_type}` {_type(of.get('schema', {}))}" if media_type.endswith("json") else f"`{media_type}`"
        for media_type, of in content.items()
    )


def _schemas(document: Json) -> Iterator[str]:
    yield "## Schemas"
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts = [f"### Schema {name}"]  # not the name alone, which some tags have as well
        if about := _one_line(schema.get("description", "")):
            parts.append(about)
        if properties := schema.get("properties"):
            rows = (_property(key, one, key in schema.get("required", ())) for key, one in properties.items())
            parts.append(_table(("member", "value", "about"), rows))
        else:
            parts.append(f"Value: {_type({key: one for key, one in schema.items() if key != 'title'})}")
        yield "\n\n".join(parts)


def _property(name: str, schema: Json, is_required: bool) -> tuple[str, str, str]:
    said = f"`{name}`" if is_required else f"`{name}` (optional)"
    about = _one_line(schema.get("description", ""))
    if "default" in schema and schema["default"] is not None:
        about = f"{about} Default: `{schema['default']}`.".strip()
    return said, _type(schema), about


def _type(schema: Json) -> str:
    """Return the type of a value in words, with a link for each schema that has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[word]))
    kind = schema.get("type", "anything")
    if kind == "array":
        items = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
        return f"list of {_type(items)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    return " ".join([kind, *_bounds(schema)])


def _bounds(schema: Json) -> Iterator[str]:
    words = {
        "minimum": ">= {}",
        "exclusiveMinimum": "> {}",
        "maximum": "<= {}",
        "exclusiveMaximum": "< {}",
        "minLength": "of at least {} characters",
        "maxLength": "of at most {} characters",
        "minItems": "of at least {}",
        "maxItems": "of at most {}",
        "pattern": "like `{}`",
    }
    for name, text in words.items():
        if name in schema:
            yield text.format(str(schema[name]).replace("|", "\\|"))


def _problem_link(slug: str) -> str:
    return f"[{slug}](errors.md#{slug})"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
