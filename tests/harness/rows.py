"""Rows of the analyst's database, as short as a test of the records needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

from analyst_server.store import Collaboration, Records, Uplink


def collaboration(number: int = 1, **changed: Any) -> Collaboration:
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "title": "Readmission",
        "state": "draft",
        "terms": b"terms",
        "terms_digest": bytes(32),
        "created_at": number,
        "updated_at": number,
    }
    return Collaboration(**{**values, **changed})


def uplink(number: int, *, party: str = "hospital-a", **changed: Any) -> Uplink:
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "collaboration_id": f"{1:032x}",
        "party": party,
        "manifest": b"manifest",
        "manifest_digest": bytes(32),
        "rows": 3,
        "payload_bytes": 100,
        "created_at": number,
    }
    return Uplink(**{**values, **changed})


def put(records: Records, *rows: Any) -> None:
    with records.begin(write=True) as unit:
        for row in rows:
            unit.add(row)


def get(records: Records, number: int = 1) -> Collaboration | None:
    with records.begin() as unit:
        return unit.collaboration(f"{number:032x}")


@contextmanager
def connection_of(records: Records) -> Iterator[Connection]:
    """Open a transaction, and yield the connection that the records take for it."""
    opened: list[Connection] = []

    def note(connection: Connection) -> None:
        opened.append(connection)

    event.listen(Engine, "engine_connect", note)
    try:
        with records.begin():
            yield opened[0]
    finally:
        event.remove(Engine, "engine_connect", note)
