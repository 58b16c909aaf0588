"""What a body says, read before its types are checked, so that what is wrong can be told.

No answer quotes a body: a column is named only if the terms name it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

import numpy as np
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from protocol.drafts import key_twice
from runtime.names import near_name
from user_client.errors import FieldError
from user_client.service.content import columns_of

_MEMBERS: Final = ("rows", "thresholds", "interval", "skip_unfit")
_A_COLUMN: Final = 3
"""So many parts has the place of a field: `rows`, the number of its row, its column."""


class BodyError(ValueError):
    """A body that is no request, in words that quote nothing of it."""


class _Twice(dict[str, Any]):
    """An object that has one name more than once, and which."""

    name: str = ""


class _Parsed(Request):
    """A request whose body was read as JSON already."""

    parsed: Any = None

    async def json(self) -> Any:
        return self.parsed


class JsonRoute(APIRoute):
    """A route that reads a body itself, where it takes one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def read_first(request: Request) -> Response:
            found = _Parsed(request.scope, request.receive)
            _require_json(found)
            found.parsed = read(await found.body())
            refuse_twice(found.parsed, columns_of(request.app.state.predictor.schema))
            return await handler(found)

        return read_first


def _require_json(request: Request) -> None:
    """Raise `BodyError` for another type than JSON, or a body that is packed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BodyError("send the header `Content-Type: application/json`, and JSON as the body")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise BodyError("the body has a Content-Encoding: send it as it is")


def read(body: bytes) -> dict[str, Any]:
    """Return the object in a body; raises `BodyError`."""
    if not body.strip():
        raise BodyError("the body is empty: expected an object with the member `rows`")
    try:
        found = json.loads(body.decode("utf-8-sig"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8 from its byte {error.start + 1} on") from None
    except json.JSONDecodeError as error:
        raise BodyError(f"the body is not JSON from line {error.lineno}, column {error.colno} on") from None
    except RecursionError:
        raise BodyError("the body has too many lists or objects within each other") from None
    except ValueError:  # of `int`, which reads no number of thousands of digits
        raise BodyError("a number of the body has too many digits") from None
    if not isinstance(found, dict):
        raise BodyError("expected an object with the member `rows`, got JSON of another type")
    for name in found.keys() - set(_MEMBERS):
        raise BodyError(_extra(name))
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    name = key_twice(pairs)
    if name is None:
        return dict(pairs)
    twice = _Twice(pairs)
    twice.name = name
    return twice


def refuse_twice(body: dict[str, Any], columns: Collection[str]) -> None:
    """Raise an error if a name comes twice in the body or one of its rows: which of the two is meant?

    Raises
    ------
    FieldError
        With the column, if it is one of the terms.
    BodyError
        For another name.
    """
    if isinstance(body, _Twice) or isinstance(body.get("thresholds"), _Twice):
        raise BodyError("a member of the body, or of its `thresholds`, comes more than once")
    rows = body.get("rows")
    for number, row in enumerate(rows if isinstance(rows, list) else (), start=1):
        if isinstance(row, _Twice):
            if row.name in columns:
                raise FieldError(row.name, np.array([number]), "the column comes more than once in this row")
            raise BodyError(f"row {number}: a column that the terms do not name comes more than once")


def wrong_type(error: RequestValidationError, columns: Collection[str]) -> FieldError | BodyError:
    """Return what is wrong with the types of a body, with rows counted from 1."""
    first = error.errors()[0]
    place = first["loc"][1:]
    if not place:
        return BodyError("expected an object with the member `rows`")
    if place[0] != "rows" or len(place) == 1:  # further in, a name may be anything
        return BodyError(f"{place[0]}: {first['msg']}")
    number = int(place[1]) + 1
    if len(place) < _A_COLUMN:
        return BodyError(f"row {number}: expected an object with the columns as its members")
    if place[2] in columns:
        return FieldError(str(place[2]), np.array([number]), "expected a text, a number, true, false or null")
    return BodyError(f"row {number}: a column that the terms do not name is no text, number, boolean or null")


def _extra(name: str) -> str:
    """Return that a member has no meaning; it is named if it is one of ours with another ending, or so."""
    ours = ", ".join(_MEMBERS)
    if name.isascii() and name.isalpha() and (meant := near_name(name, _MEMBERS)):
        return f"{name}: Extra member; the body has {ours}. Is `{meant}` meant?"
    return f"the body has a member that is none of {ours}"
