"""Terms as people and programs write them: fields of JSON or TOML, without the two ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Any

from protocol.terms import Terms


def fields_of_json(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a draft; raises `ValueError` if it is no JSON object, or a key is in it twice."""
    found = json.loads(text, object_pairs_hook=_each_once)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def terms_of(draft: Mapping[str, Any], ids: Mapping[str, str]) -> Terms:
    """Return the terms of a draft with both ids.

    A list takes the place of a tuple, and nothing else is taken for another: a text is no number, and neither
    is true. Raises `pydantic.ValidationError`.
    """
    return Terms.model_validate(_as_on_the_wire({**draft, **ids}))


def _as_on_the_wire(value: Any) -> Any:
    """Return a value with tuples in the place of lists, and with the dates and times of TOML as texts."""
    if isinstance(value, Mapping):
        return {key: _as_on_the_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_as_on_the_wire, value))
    return value.isoformat() if isinstance(value, date | time) else value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := key_twice(pairs)) is not None:
        raise ValueError(f"the key {json.dumps(twice[:40])} is there twice")
    return dict(pairs)


def key_twice(pairs: Iterable[tuple[str, Any]]) -> str | None:
    """Return the first key that comes again, None if each is there once."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None
