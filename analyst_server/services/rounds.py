"""A round from its seal to its release: who computes it, which step comes next, and what is kept of it.

A worker claims a sealed round under a lease, so that others can tell that it lives. The numeric work is
`compute.sequence`, in a compute process; this module decides, and writes the records. A round that is cut off
anywhere starts again from what was sealed (docs/adr/0004).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from analyst_server.blobs import DamagedBlobError, StoredArray
from analyst_server.compute.judging import Unjudged
from analyst_server.compute.sequence import (
    PartyArrays,
    RoundResult,
    RoundSpec,
    Run,
    compute_round,
    here,
)
from analyst_server.compute.sums import SumsResult, SumsSpec, compute_sums
from analyst_server.services import damage, downlinks, newer, own_arrays
from analyst_server.services.analyst import Analyst, find, move, stored_terms
from analyst_server.services.joined import require_whole_groups, with_their_groups
from analyst_server.services.stored import stored_arrays, stored_manifest
from analyst_server.store import Collaboration, Unit, Uplink
from protocol.answers import Computing
from protocol.errors import OutOfOrderError, RoundFailedError
from protocol.states import Event, State

log = logging.getLogger(__name__)

MOST_CUT_OFF: Final = 5
"""After so many workers that ended without a word, a computation is not begun again: it may be the cause."""
CUT_OFF_TOO_OFTEN: Final = (
    f"{MOST_CUT_OFF} times the server, its container or its machine ended while it computed this, perhaps for"
    " lack of memory: the operator can look for the reason, lower ODC_ANALYST_COMPUTE_MEMORY_MB so that the"
    " computation fails alone, or give the machine more, and resume the round"
)


def seal(analyst: Analyst, collaboration_id: str) -> None:
    """Seal a round by hand. The parties whose uplink is missing get no downlink."""
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        received = {uplink.party for uplink in unit.uplinks_taking_part(collaboration_id)}
        if not received:
            raise OutOfOrderError(collaboration.state, Event.SEAL, "no uplink is complete")
        terms = stored_terms(collaboration)
        if terms.sums is not None and (missing := sorted(set(terms.parties) - received)):
            raise OutOfOrderError(
                collaboration.state,
                Event.SEAL,
                f"masks cancel in the sums of all institutions only, and those of {', '.join(missing)} are"
                " missing: wait for them, or cancel this collaboration and start another without them",
            )
        require_whole_groups(terms, received, collaboration.state)
        move(unit, collaboration, Event.SEAL, at=analyst.clock())
    analyst.call_worker(collaboration_id)


def resume(analyst: Analyst, collaboration_id: str) -> None:
    """Start a failed or held round again from what was sealed, or one whose worker has ended.

    Raises `OutOfOrderError` for a round that a worker is computing.
    """
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if not is_held(collaboration) and not analyst.leases.is_over(collaboration):
            why = "a worker is computing it; if that ends without a result, a running server starts it again"
            raise OutOfOrderError(collaboration.state, Event.RESUME, why)
        unjudged = collaboration.unjudged
        start_again(unit, collaboration, analyst.clock())
        collaboration.cut_off = 0
        uplinks = unit.received_uplinks(collaboration_id)
    damage.unmark(uplinks, analyst.blobs)  # somebody may have restored them; they are checked again
    if unjudged is not None:
        analyst.erase_work(unjudged["folder"])


def are_waiting(analyst: Analyst, unit: Unit) -> bool:
    """Return whether there is a round to claim."""
    return bool(newer.ours(analyst, unit.in_states([State.SEALED])) or _abandoned(analyst, unit))


def claim(analyst: Analyst, owner: str, lease_s: int) -> str | None:
    """Claim the round that has been sealed for longest, or whose worker is gone; return its id."""
    now = analyst.clock()
    own_arrays.require_here(analyst)
    with analyst.records.begin(write=True) as unit:
        for collaboration in _abandoned(analyst, unit):
            count_cut_off(analyst, collaboration, owner)
            if collaboration.cut_off < MOST_CUT_OFF:
                start_again(unit, collaboration, now)
            else:
                _fail(unit, collaboration, CUT_OFF_TOO_OFTEN, now)
        for collaboration in newer.ours(analyst, unit.in_states([State.SEALED])):
            move(unit, collaboration, Event.BEGIN_ALIGNMENT, at=now)
            take_lease(analyst, collaboration, owner, lease_s)
            return collaboration.id
    return None


def _abandoned(analyst: Analyst, unit: Unit) -> list[Collaboration]:
    """Return the rounds whose worker has ended, or was silent for too long."""
    return [
        collaboration
        for collaboration in newer.ours(analyst, unit.in_states([State.ALIGNING, State.TRAINING]))
        if not is_held(collaboration) and analyst.leases.is_over(collaboration)
    ]


def count_cut_off(analyst: Analyst, collaboration: Collaboration, owner: str) -> None:
    """Count that a worker ended while it held a round, and had no time to hand it back.

    One of this process, such as ``owner`` itself, lives: it let go because its disk or database was away.
    """
    holder = collaboration.lease_owner
    if holder is None or holder == owner or analyst.leases.lives_here(holder):
        return
    collaboration.cut_off += 1
    log.warning(
        "round %s: its worker ended without a word (%d of %d times)",
        collaboration.id[:8],
        collaboration.cut_off,
        MOST_CUT_OFF,
    )


def is_held(collaboration: Collaboration) -> bool:
    """Return whether a round is computed and waits for the operator to release it."""
    return collaboration.now_in is State.TRAINING and collaboration.results is not None


def take_lease(analyst: Analyst, collaboration: Collaboration, owner: str, lease_s: int) -> None:
    """Write down that a worker holds a round: from now on no earlier holder writes anything of it."""
    if collaboration.lease_owner != owner:
        collaboration.computing = None  # what another worker has said of it
    analyst.leases.claimed(collaboration, owner)
    _prolong(analyst, collaboration, owner, lease_s)


def _prolong(analyst: Analyst, collaboration: Collaboration, owner: str, lease_s: int) -> None:
    grown = (collaboration.lease_until or 0) + 1  # also when the clock is set back: others see it grow
    collaboration.lease_owner = owner
    collaboration.lease_until = max(analyst.clock() + lease_s, grown)
    analyst.leases.note(collaboration)


def forget_ended_workers(analyst: Analyst) -> None:
    """Remove the locks of workers that have ended and hold no round."""
    with analyst.records.begin() as unit:
        named = unit.lease_owners()
    analyst.leases.tidy(named)


def are_expected(analyst: Analyst) -> bool:
    """Return whether a round is under way that will have to be computed."""
    with analyst.records.begin() as unit:
        return bool(unit.in_states([State.ENROLLING, State.ANCHORED, State.COLLECTING]))


def renew(analyst: Analyst, collaboration_id: str, owner: str, lease_s: int) -> None:
    """Prolong the lease of a claimed round.

    Raises `RoundFailedError` if another worker has taken it, or its collaboration has ended.
    """
    with analyst.records.begin(write=True) as unit:
        _prolong(analyst, owned(analyst, unit, collaboration_id, owner), owner, lease_s)


def note_progress(analyst: Analyst, collaboration_id: str, owner: str, told: Computing | None) -> None:
    """Write down how far a claimed round is; raises `RoundFailedError` if another worker has taken it."""
    with analyst.records.begin(write=True) as unit:
        owned(analyst, unit, collaboration_id, owner).computing = dict(told) if told else None


def progress_of(collaboration: Collaboration) -> Computing | None:
    """Return how far the computation of a round is, None if nobody computes it or has said."""
    if collaboration.lease_owner is None or collaboration.computing is None:
        return None
    return cast("Computing", collaboration.computing)


def hand_back(analyst: Analyst, collaboration_id: str, owner: str) -> None:
    """Give up a claimed round, so that the next worker need not wait for the lease to end."""
    with analyst.records.begin(write=True) as unit:
        start_again(unit, owned(analyst, unit, collaboration_id, owner), analyst.clock())


def end_lease(analyst: Analyst, collaboration_id: str, owner: str) -> None:
    """Give up what was claimed of a computed round, so that the next worker need not wait."""
    with analyst.records.begin(write=True) as unit:
        collaboration = owned(analyst, unit, collaboration_id, owner)
        collaboration.lease_owner = collaboration.lease_until = None


def compute(
    analyst: Analyst,
    collaboration_id: str,
    owner: str,
    *,
    run: Run = here,
    check: Run | None = None,
    hold_release: bool = False,
    train_on_suspected_rows: bool = False,
) -> None:
    """Compute a claimed round and release it, or hold it for the operator to look at.

    Parameters
    ----------
    run : callable
        Runs a step of the computation while the lease is renewed.
    check : callable, optional
        Runs a look at the arrays where the records are, if ``run`` computes elsewhere: nobody is asked to
        send again for what a worker does not see.
    hold_release : bool
        Whether to hold every round; one with a suspected party is held in any case.
    train_on_suspected_rows : bool
        Whether the rows of a suspected party train the model.

    Raises
    ------
    ValueError
        If the data cannot be aligned or trained on.
    RoundFailedError
        If another worker has taken the round; or if a stored uplink is damaged: the round has then failed,
        and the institution is asked to send the same bytes again.
    """
    try:
        _compute(
            analyst,
            collaboration_id,
            owner,
            run=run,
            hold_release=hold_release,
            train_on_suspected_rows=train_on_suspected_rows,
        )
    except DamagedBlobError as error:
        _fail_if_damaged(analyst, collaboration_id, owner, check or run)
        raise ValueError(damage.was_whole(error)) from error


def _compute(
    analyst: Analyst,
    collaboration_id: str,
    owner: str,
    *,
    run: Run,
    hold_release: bool,
    train_on_suspected_rows: bool,
) -> None:
    on_aligned = partial(begin_training, analyst, collaboration_id, owner)
    if (sums := sums_spec_of(analyst, collaboration_id)) is not None:
        total = compute_sums(sums, analyst.blobs, run=run, on_added=on_aligned)
        finish(analyst, collaboration_id, owner, sums, total, hold=hold_release)
        return
    spec = spec_of(analyst, collaboration_id, train_on_suspected_rows=train_on_suspected_rows)
    with analyst.erasing_if_it_fails(spec.folder):
        result = compute_round(spec, analyst.blobs, run=run, on_aligned=on_aligned)
    if result.suspected:
        log.warning("round %s: held, %s suspected", collaboration_id[:8], ", ".join(result.suspected))
    hold = hold_release or bool(result.suspected)
    finish(analyst, collaboration_id, owner, spec, result, hold=hold)


def _fail_if_damaged(analyst: Analyst, collaboration_id: str, owner: str, run: Run) -> None:
    """Let the round fail and ask again for every uplink that is not what was signed, if there is one.

    Raises `RoundFailedError` in that case.
    """
    own_arrays.require_here(analyst)
    with analyst.records.begin() as unit:
        uplinks = unit.uplinks_taking_part(collaboration_id)
    damaged = damage.find(uplinks, analyst.blobs, run)
    if damaged:
        reason = damage.in_words(damaged)
        fail(analyst, collaboration_id, owner, reason)
        damage.mark((uplink for uplink in uplinks if uplink.party in damaged), analyst.blobs)
        raise RoundFailedError(reason)


def sums_spec_of(analyst: Analyst, collaboration_id: str) -> SumsSpec | None:
    """Return what a sealed round of sums is computed from; None for a round of rows."""
    with analyst.records.begin() as unit:
        terms = stored_terms(find(unit, collaboration_id))
        uplinks = unit.received_uplinks(collaboration_id)
    if terms.sums is None:
        return None
    return SumsSpec.of(terms, [sums_of(uplink) for uplink in uplinks], _new_folder(collaboration_id))


def spec_of(analyst: Analyst, collaboration_id: str, *, train_on_suspected_rows: bool = False) -> RoundSpec:
    """Return what a sealed round of rows is computed from, with a new folder for what comes of it."""
    with analyst.records.begin() as unit:
        collaboration = find(unit, collaboration_id)
        terms, uplinks = stored_terms(collaboration), in_order(unit, collaboration)
    return RoundSpec.of(
        terms,
        [arrays_of(uplink) for uplink in uplinks],
        _new_folder(collaboration_id),
        rows_have_noise=any(map(_has_noise, uplinks)),
        train_on_suspected_rows=train_on_suspected_rows,
    )


def _new_folder(collaboration_id: str) -> str:
    return f"{collaboration_id}/work-{uuid.uuid4().hex[:12]}"


def _has_noise(uplink: Uplink) -> bool:
    stated = stored_manifest(uplink).privacy
    return stated.dither is not None or stated.epsilon is not None


def begin_training(analyst: Analyst, collaboration_id: str, owner: str) -> None:
    """Note that the alignment is done."""
    with analyst.records.begin(write=True) as unit:
        move(unit, owned(analyst, unit, collaboration_id, owner), Event.BEGIN_TRAINING, at=analyst.clock())


def finish(
    analyst: Analyst,
    collaboration_id: str,
    owner: str,
    spec: RoundSpec | SumsSpec,
    result: RoundResult | SumsResult,
    *,
    hold: bool,
) -> None:
    """Write the downlinks and the results, and release the round unless it is to be held.

    What the model is judged with stays, until it is.
    """
    unjudged = (
        Unjudged.of(spec.folder, result)
        if isinstance(result, RoundResult) and result.model.is_to_be_judged
        else None
    )
    with analyst.records.begin() as unit:
        collaboration = owned(analyst, unit, collaboration_id, owner)
        uplinks = in_order(unit, collaboration)
    # blobs before the records that name them, and outside their transaction: others write meanwhile
    written = downlinks.write(analyst, collaboration, uplinks, result)
    kept = downlinks.keep(analyst, collaboration, result)
    with analyst.records.begin(write=True) as unit:
        collaboration = owned(analyst, unit, collaboration_id, owner)
        if isinstance(result, RoundResult):
            _enter_suspicions(unit, collaboration, uplinks, result, analyst.clock())
        for downlink in written:
            unit.put_downlink(downlink)
        collaboration.results, collaboration.kept = result.as_json(), kept
        collaboration.unjudged = unjudged.as_json() if unjudged else None
        collaboration.cut_off = 0
        collaboration.lease_owner = collaboration.lease_until = None
        if not hold:
            _release(unit, collaboration, analyst.clock())
    if unjudged is None:
        analyst.erase_work(spec.folder)


def _enter_suspicions(
    unit: Unit, collaboration: Collaboration, uplinks: Sequence[Uplink], result: RoundResult, at: int
) -> None:
    """Let every member see whom the alignment suspects and whose rows the model is made without."""
    manifests, terms = {one.party: one.manifest_digest for one in uplinks}, stored_terms(collaboration)
    for event, parties in ((Event.SUSPECT, result.suspected), (Event.LEAVE_OUT, result.alignment.left_out)):
        for party in with_their_groups(terms, parties):
            move(unit, collaboration, event, at=at, party=party, subject=manifests[party])


def release(analyst: Analyst, collaboration_id: str) -> None:
    """Let the institutions fetch a round that was held."""
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if collaboration.now_in is State.TRAINING and not is_held(collaboration):
            raise OutOfOrderError(collaboration.state, Event.RELEASE)
        _release(unit, collaboration, analyst.clock())


def fail(analyst: Analyst, collaboration_id: str, owner: str, reason: str) -> None:
    """End a claimed round with a reason; it can be resumed."""
    with analyst.records.begin(write=True) as unit:
        _fail(unit, owned(analyst, unit, collaboration_id, owner), reason, analyst.clock())


def _fail(unit: Unit, collaboration: Collaboration, reason: str, now: int) -> None:
    move(unit, collaboration, Event.FAIL, at=now)
    collaboration.failure = reason
    collaboration.lease_owner = collaboration.lease_until = None


def in_order(unit: Unit, collaboration: Collaboration) -> list[Uplink]:
    """Return the uplinks of a round in the order of its arrays: the party with most rows first.

    Alignment takes the first party's anchor representation as its target, and the basis of a party
    without rows is random. Those of late consumers come after the release, and are none of the round's, nor
    are those of excluded parties.
    """
    late = stored_terms(collaboration).late_consumers
    own = [uplink for uplink in unit.uplinks_taking_part(collaboration.id) if uplink.party not in late]
    return sorted(own, key=lambda uplink: (-uplink.rows, uplink.party))


def arrays_of(uplink: Uplink) -> PartyArrays:
    stated = stored_manifest(uplink).privacy.dither or 0.0
    return PartyArrays(uplink.party, **stored_arrays(uplink), dither=stated)


def sums_of(uplink: Uplink) -> StoredArray:
    (sums,) = stored_arrays(uplink).values()
    return sums


def owned(analyst: Analyst, unit: Unit, collaboration_id: str, owner: str) -> Collaboration:
    """Return a round that a worker of this process holds.

    Raises `RoundFailedError` if it was claimed again since, has ended, or is held by nobody.
    """
    collaboration = find(unit, collaboration_id)
    if not analyst.leases.is_held_by(collaboration, owner):
        raise RoundFailedError("another worker has taken this round up, or it has ended")
    return collaboration


def _release(unit: Unit, collaboration: Collaboration, now: int) -> None:
    """Enter the digest of the model, or of all models, so that all members see the same."""
    for party in unit.excluded(collaboration.id):  # an earlier version may have left one of a discarded run
        unit.forget_downlinks(collaboration.id, party)
    subject = downlinks.released(unit, collaboration.id)
    move(unit, collaboration, Event.RELEASE, at=now, subject=subject)


def start_again(unit: Unit, collaboration: Collaboration, now: int) -> None:
    """Put a round back to what was sealed."""
    move(unit, collaboration, Event.RESUME, at=now)
    collaboration.failure = None
    discard_result(unit, collaboration)


def discard_result(unit: Unit, collaboration: Collaboration) -> None:
    """Forget what was computed of a round, and by whom."""
    unit.forget_downlinks(collaboration.id)
    collaboration.results = collaboration.kept = collaboration.unjudged = None
    collaboration.lease_owner = collaboration.lease_until = None
