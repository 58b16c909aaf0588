"""A draft of terms as a file that people write: read, and checked with the line of each mistake."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from protocol.codec import MOST_EXPLAINED, explained
from protocol.drafts import fields_of_json, terms_of
from protocol.errors import InputError, UnreadableFileError
from protocol.terms import Terms
from runtime.files import read_text
from runtime.names import near_name

_HEADER: Final = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.-]+)\s*\]\]?")
_KEY: Final = re.compile(r"^\s*([A-Za-z0-9_-]+)\s*=")
Place = tuple[int | str, ...]


def terms_of_draft(path: Path, **ids: str) -> Terms:
    """Return the terms in a TOML or JSON file, with the ids filled in that no draft has.

    Raises
    ------
    UnreadableFileError
        If the file is neither.
    InputError
        If a field is wrong; it names the line of a TOML file and what is allowed there.
    """
    text, is_json = read_text(path), path.suffix == ".json"
    draft = parsed_draft(text, is_json=is_json, named=str(path))
    return checked_draft(draft, ids, "" if is_json else text, named=str(path))


def parsed_draft(text: str, *, is_json: bool, named: str) -> dict[str, Any]:
    """Return the fields of a draft in TOML or JSON; raises `UnreadableFileError`."""
    try:
        draft = fields_of_json(text) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        unread = UnreadableFileError(named, str(error))
        unread.hint = "correct the TOML or JSON at that place; `odc terms draft` writes a draft to begin with"
        raise unread from None
    return draft


def checked_draft(draft: Mapping[str, Any], ids: Mapping[str, str], text: str, *, named: str) -> Terms:
    """Return the terms of a draft with both ids; ``text`` is the TOML it comes from, if it does.

    Raises `InputError`, which names the lines of what is wrong.
    """
    try:
        return terms_of(draft, ids)
    except ValidationError as error:
        wrong = _wrong(error, dict(_places(text)))
        more = [f"and {len(wrong) - MOST_EXPLAINED} more"] if len(wrong) > MOST_EXPLAINED else []
        found = InputError(f"{named}: {'; '.join([*wrong[:MOST_EXPLAINED], *more])}")
        found.hint = "correct the file; `odc terms check TABLE --terms FILE` checks it before it is published"
        raise found from None


def _wrong(error: ValidationError, places: Mapping[Place, int]) -> list[str]:
    """Return a sentence for each field that is wrong: its line if it has one, its name, and why."""
    meant = _meant(error)
    instead = {(*place[:-1], name) for place, name in meant.items()}
    found = []
    for place, where, why in explained(error, most=None):
        if place in instead:  # it is there, misspelt
            continue
        if place in meant:
            why = "there is no such field" + (f": did you mean '{meant[place]}'?" if meant[place] else "")
        found.append(f"{_line(places, place or _field_in(why, places))}{f'{where}: ' if place else ''}{why}")
    return found


def _meant(error: ValidationError) -> dict[Place, str | None]:
    """Return where fields stand that terms do not have, and which field each of them may be meant for."""
    errors = error.errors(include_url=False, include_input=False)
    missing = [item["loc"] for item in errors if item["type"] == "missing"]
    found: dict[Place, str | None] = {}
    for item in errors:
        if item["type"] == "extra_forbidden":
            *table, name = item["loc"]
            beside = [str(place[-1]) for place in missing if [*place[:-1]] == table]
            found[item["loc"]] = near_name(str(name), beside) or near_name(str(name), _fields() - {name})
    return found


@cache
def _fields() -> frozenset[str]:
    """Return the names of all fields in terms, whatever they are part of."""
    schema = Terms.model_json_schema()
    return frozenset(
        name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", ())
    )


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Yield where each table and key of a TOML file stands, and its line."""
    seen: Counter[str] = Counter()
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(name.split("."))
            if header[1] == "[[":
                table = (*table, seen[name])
                seen[name] += 1
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, key[1]), number


def _field_in(why: str, places: Collection[Place]) -> Place:
    """Return the first field that a sentence about several names, or none."""
    words = re.findall(r"[a-z_]+", why)
    return next(((word,) for word in words if (word,) in places), ())


def _line(places: Mapping[Place, int], wanted: Place) -> str:
    """Return the line of the nearest place that holds the wanted one; the wanted may name kinds between."""
    holding = [place for place in places if _is_within(wanted, place)]
    return f"line {places[max(holding, key=len)]}, " if holding else ""


def _is_within(wanted: Place, place: Place) -> bool:
    left = iter(wanted)
    return all(part in left for part in place)
