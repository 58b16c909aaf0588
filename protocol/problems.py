"""From a problem document to the error that it describes (docs/protocol.md, "Errors")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from protocol.errors import PROBLEM_TYPE_PREFIX, OdcError
from protocol.texts import visible

_MAX_CHARS: Final = 1500
"""Of a received detail or hint: ours are shorter."""


def _subclasses(cls: type[OdcError]) -> Iterator[type[OdcError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def all_errors() -> list[type[OdcError]]:
    """Return all error classes that are loaded, including those of the client and the server."""
    return list(_subclasses(OdcError))


def from_problem(problem: dict[str, Any]) -> OdcError:
    """Return the error that a received problem document describes; `OdcError` if its type is unknown."""
    kind = str(problem.get("type", "")).removeprefix(PROBLEM_TYPE_PREFIX)
    cls = next((cls for cls in all_errors() if cls.code == kind), OdcError)
    known = {"type", "title", "detail", "hint", "status", "instance"}
    context = {str(key): value for key, value in problem.items() if key not in known}
    detail = _line(problem.get("detail") or problem.get("title") or "no detail was sent")
    error = cls.rebuilt(detail, _line(problem.get("hint") or cls.hint), context)
    error.is_quoted = True
    return error


def _line(sent: object) -> str:
    """Return a received text as people and logs may see it: short, on one line, with nothing unseen in it."""
    spelt = " ".join(visible(str(sent)[:_MAX_CHARS]).split())[:_MAX_CHARS]
    return "".join(char if char.isprintable() else "?" for char in spelt)
