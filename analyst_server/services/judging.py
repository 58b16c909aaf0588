"""The judgement of a model: made once its round is computed, while the institutions already have the model.

A worker holds the round's lease meanwhile. If it is cut off, the next one starts again: what the judgement
is made from is kept until it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from analyst_server.blobs import DamagedBlobError
from analyst_server.compute.judging import Unjudged, judge_model
from analyst_server.compute.sequence import Run, here
from analyst_server.compute.trained import scores_as_json
from analyst_server.services import newer, own_arrays
from analyst_server.services.analyst import Analyst
from analyst_server.services.rounds import (
    CUT_OFF_TOO_OFTEN,
    MOST_CUT_OFF,
    count_cut_off,
    owned,
    spec_of,
    take_lease,
)
from analyst_server.store import Collaboration, Unit
from protocol.errors import RoundFailedError

log = logging.getLogger(__name__)


def are_waiting(analyst: Analyst, unit: Unit) -> bool:
    """Return whether there is a model to judge."""
    return _next(analyst, unit) is not None


def claim(analyst: Analyst, owner: str, lease_s: int) -> str | None:
    """Claim the round whose model has waited longest to be judged; return its id."""
    own_arrays.require_here(analyst)
    with analyst.records.begin(write=True) as unit:
        collaboration = _next(analyst, unit)
        if collaboration is None:
            return None
        count_cut_off(analyst, collaboration, owner)
        take_lease(analyst, collaboration, owner, lease_s)
        return collaboration.id


def _next(analyst: Analyst, unit: Unit) -> Collaboration | None:
    return next(filter(analyst.leases.is_over, newer.ours(analyst, unit.unjudged())), None)


def compute(analyst: Analyst, collaboration_id: str, owner: str, *, run: Run = here) -> None:
    """Judge the model of a claimed round, and write the judgement into its results.

    A model that cannot be judged, because a blob is damaged or missing, has a reason in its place.

    Raises
    ------
    RoundFailedError
        If another worker has taken the round, or it has ended or was started again meanwhile.
    """
    with analyst.records.begin() as unit:
        collaboration = _still_unjudged(analyst, unit, collaboration_id, owner)
        unjudged = Unjudged.from_json(collaboration.unjudged or {})
        is_hopeless = collaboration.cut_off >= MOST_CUT_OFF
    if is_hopeless:
        give_up(analyst, collaboration_id, owner, CUT_OFF_TOO_OFTEN)
        return
    spec = replace(spec_of(analyst, collaboration_id), folder=unjudged.folder)
    try:
        judgement: Mapping[str, Any] = run(judge_model, spec, analyst.blobs, unjudged)
    except (DamagedBlobError, FileNotFoundError) as error:
        # where the round has ended meanwhile its blobs are gone, and this says so
        log.warning("round %s: its model is not judged: %s", collaboration_id[:8], error)
        why = "a blob is damaged or missing, `odc-analyst verify` names it"  # members read this: no path
        give_up(analyst, collaboration_id, owner, why)
        return
    _settle(analyst, collaboration_id, owner, judgement)


def give_up(analyst: Analyst, collaboration_id: str, owner: str, reason: str) -> None:
    """Write down why the model of a claimed round has no judgement; raises as `compute` does."""
    _settle(analyst, collaboration_id, owner, _none(f"judging failed: {reason}"))


def drop(collaboration: Collaboration) -> None:
    """Judge the model no more, because the round has ended; do nothing if it is judged."""
    if collaboration.unjudged is not None:
        _write(collaboration, _none("the collaboration ended before the model was judged"))


def _none(why: str) -> dict[str, Any]:
    return {
        "within": None,
        "across": None,
        "headline": None,
        "why_none": why,
        "notes": [],
        "is_pending": False,
    }


def _write(collaboration: Collaboration, judgement: Mapping[str, Any]) -> None:
    collaboration.results = {**(collaboration.results or {}), **scores_as_json(judgement)}
    collaboration.unjudged = None


def _settle(analyst: Analyst, collaboration_id: str, owner: str, judgement: Mapping[str, Any]) -> None:
    with analyst.records.begin(write=True) as unit:
        collaboration = _still_unjudged(analyst, unit, collaboration_id, owner)
        folder = (collaboration.unjudged or {})["folder"]
        _write(collaboration, judgement)
        collaboration.lease_owner = collaboration.lease_until = None
    with suppress(OSError):  # what stays is erased when the collaboration ends
        analyst.blobs.erase(folder)


def _still_unjudged(analyst: Analyst, unit: Unit, collaboration_id: str, owner: str) -> Collaboration:
    collaboration = owned(analyst, unit, collaboration_id, owner)
    if collaboration.unjudged is None:
        raise RoundFailedError("the round has ended, or was started again, before its model was judged")
    return collaboration
