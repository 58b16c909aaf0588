"""Whether the arrays here are those that the records speak of: a directory may not be mounted.

Records and store have the same id from the first start on (docs/adr/0082). It is compared before the server
starts, whenever somebody asks whether it is ready, before a round is claimed, and before a receipt is signed.
"""

from __future__ import annotations

import logging
import secrets
from typing import Final

from analyst_server.blobs import STORE_ID_KEY, id_of
from analyst_server.services.acts import note
from analyst_server.services.analyst import Analyst
from analyst_server.services.stored import blob_key
from analyst_server.store import Unit
from protocol.errors import StorageBusyError, StorageError
from protocol.states import ENDED

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""Servers that start at the same time for the first time overtake one another; all but one look again."""
_NOT_HERE: Final = "the analyst's arrays are not where its records have them"
_HINT: Final = (
    "is it mounted? A copy that was restored brings its id with it. Only if nothing else is to come there:"
    " odc-analyst accept-arrays (docs/operations.md, the id of the arrays)"
)


def noted(analyst: Analyst) -> str | None:
    """Return the id of the store that the records speak of, None before the first start."""
    with analyst.records.begin() as unit:
        return unit.store_id()


def settle(analyst: Analyst) -> None:
    """Give records and store one id, if they have none; raise `StorageError` if they have two.

    The store is written first and in the transaction of the records: a start that was cut off in between
    leaves an id in the store alone, which the next start takes over.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _settle(analyst)
        except StorageBusyError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _settle(analyst: Analyst) -> None:
    known = noted(analyst)
    if known is None:
        with analyst.records.begin(write=True) as unit:
            if unit.store_id() is None:  # else another one was first
                _name(analyst, unit)
        known = noted(analyst)
    found = id_of(analyst.blobs)
    if found != known:
        raise elsewhere(analyst.blobs.place, known, found)


def _name(analyst: Analyst, unit: Unit) -> None:
    found = id_of(analyst.blobs)
    if found is None and (lost := _lost_uplinks(analyst, unit)):
        raise _not_in(analyst.blobs.place, f"it has none of the {lost} uplinks that were received")
    store_id = found or secrets.token_hex(16)
    unit.put_first_store_id(store_id)  # whoever does so at the same time waits here
    if found is None:
        analyst.blobs.write(STORE_ID_KEY, store_id.encode())


def _lost_uplinks(analyst: Analyst, unit: Unit) -> int:
    """Return how many uplinks the records name if none of them is here, and 0 if one is."""
    running = unit.collaborations_but_in(ENDED)
    received = [uplink for round_id in running for uplink in unit.received_uplinks(round_id)]
    is_here = any(analyst.blobs.exists(blob_key(uplink)) for uplink in received)
    return 0 if is_here else len(received)


def elsewhere(place: str, known: str | None, found: str | None) -> StorageError:
    """Return the error for the operator, with the place and what is wrong with it."""
    return _not_in(place, f"it has the id {found}, the records speak of {known}" if found else "it has no id")


def _not_in(place: str, why: str) -> StorageError:
    error = StorageError(f"the arrays of these records are not in {place}: {why}")
    error.hint = _HINT
    return error


def require_here(analyst: Analyst, unit: Unit | None = None) -> None:
    """Raise `StorageError` unless the store has the id that the records name."""
    require(analyst, noted(analyst) if unit is None else unit.store_id())


def require(analyst: Analyst, known: str | None) -> None:
    """Raise `StorageError` unless the store has an id; it costs a look at one small blob.

    Those who ask over the network read it: the place is in the log alone.
    """
    if known is None:  # no server has started with these records yet
        return
    if (found := id_of(analyst.blobs)) != known:
        place = analyst.blobs.place
        log.error("%s: %s has the id %s, and the records speak of %s", _NOT_HERE, place, found, known)
        raise StorageError(f"{_NOT_HERE}; its operator has to look")


def require_for_command(analyst: Analyst) -> None:
    """Raise `StorageError`, with the place, if a command that reads all arrays would read others."""
    known, found = noted(analyst), id_of(analyst.blobs)
    if known not in (None, found):
        raise elsewhere(analyst.blobs.place, known, found)


def accept(analyst: Analyst) -> str:
    """Take what is in the store for the arrays of these records, because a person says so; return its id."""
    with analyst.records.begin(write=True) as unit:
        found = id_of(analyst.blobs)
        store_id = found or unit.store_id() or secrets.token_hex(16)
        unit.put_store_id(store_id)
        note(unit, "accept arrays", analyst.clock(), analyst.blobs.place)
        if found is None:
            analyst.blobs.write(STORE_ID_KEY, store_id.encode())
    return store_id
