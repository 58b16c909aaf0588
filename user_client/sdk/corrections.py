"""What differs between terms and the earlier ones that they replace, for whoever signs both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from protocol.errors import NotFoundError, NotPermittedError
from protocol.terms import Terms
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk.session import Session
from user_client.sdk.terms import fetch_terms

_IDS: Final = frozenset({"collaboration_id", "replaces"})
_SHOWN_ITEMS: Final = 12
"""Of longer arrays of plain values, only the number of those that differ is told."""


def differences(session: Session, terms: Terms) -> list[str] | None:
    """Return each field that differs from the terms that these replace, before and after.

    Returns None if they replace none, or if we were no party of the earlier ones.

    Raises `TrustError` if the analyst did not sign the earlier terms.
    """
    if terms.replaces is None:
        return None
    directory = RoundDirectory(session.home, terms.replaces)
    try:
        is_here = directory.holds(Terms)
        earlier = directory.load(Terms) if is_here else fetch_terms(session, directory, keep=False)
    except (NotFoundError, NotPermittedError):
        return None
    return list(_between(_fields(earlier), _fields(terms)))


def _between(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            yield f"gone: {name} = {_text(before[name])}"
        elif name not in before:
            yield f"new: {name} = {_text(after[name])}"
        elif before[name] != after[name]:
            yield f"{name}: {_change(before[name], after[name])}"


def _change(before: Any, after: Any) -> str:
    both = isinstance(before, list) and isinstance(after, list)
    if both and len(before) == len(after) > _SHOWN_ITEMS:
        others = sum(one != other for one, other in zip(before, after, strict=True))
        return f"{others} of {len(after)} values differ"
    return f"{_text(before)} -> {_text(after)}"


def _text(value: Any) -> str:
    if isinstance(value, list) and len(value) > _SHOWN_ITEMS:
        return f"{len(value)} values"
    return json.dumps(value, ensure_ascii=False)


def _fields(terms: Terms) -> dict[str, Any]:
    content = terms.model_dump(mode="json")
    return dict(_flat("", {name: value for name, value in content.items() if name not in _IDS}))


def _flat(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the plain values in a message, each with its path; a column has its name in the path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{where}.{name}" if where else name, inner)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for place, item in enumerate(value, 1):
            yield from _flat(f"{where}[{item.get('name', place)}]", item)
    else:
        yield where, value
