"""From a problem document to the error that it describes (docs/protocol.md, "Errors")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.errors import PROBLEM_TYPE_PREFIX, OdcError


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
    detail = str(problem.get("detail") or problem.get("title") or "no detail was sent")
    return cls.rebuilt(detail, str(problem.get("hint") or cls.hint), context)
