"""A late consumer: it sends no rows, and comes after the release. What the status says of us as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.answers import MemberStatus, Status
from protocol.errors import InputError
from protocol.states import ENDED, State
from protocol.terms import Terms
from user_client.errors import ConfirmationNeededError
from user_client.sdk.answers import own_entry

if TYPE_CHECKING:
    from user_client.sdk.prepared import Prepared


def our_entry(status: Status) -> MemberStatus | None:
    """Return what the analyst says of us if we are a late consumer of the round, else None."""
    ours = own_entry(status)
    return ours if ours is not None and ours["late_consumer"] else None


def is_being_aligned(status: Status) -> bool:
    """Return whether the analyst has our uplink as a late consumer and has still to compute our downlink."""
    ours = our_entry(status)
    return (
        ours is not None
        and status["state"] == State.RELEASED
        and (ours["uplink"], ours["downlink"], ours["refused"]) == ("received", "none", None)
    )


def next_step(status: Status) -> str | None:
    """Return what we do next as a late consumer; None if we are none, or the round has ended."""
    ours, state = our_entry(status), status["state"]
    if ours is None or state in ENDED:
        return None
    if not ours["accepted"] and state in (State.ENROLLING, State.RELEASED):
        return "odc terms accept"
    if state != State.RELEASED:
        return "wait for the release: we are a late consumer, and send no rows"
    if not ours["anchor_ready"]:
        return "wait until the lead has sealed the anchor for us: odc anchor share"
    if ours["refused"]:
        return f"ask the lead institution, because the analyst could not align us: {ours['refused']}"
    if ours["uplink"] != "received":
        return "odc contribute TABLE, which sends none of its rows, then odc receive --wait 600"
    return "odc receive --wait 600" if ours["downlink"] == "none" else None


def check_consumer(terms: Terms, party: str, prepared: Prepared, *, is_meant: bool) -> None:
    """Check that whoever sends no row of a table means to.

    Raises
    ------
    ConfirmationNeededError
        If no row would leave of a party that the terms expect rows of, and that is not meant.
    InputError
        If it is meant, and the table has rows.
    """
    if party in terms.late_consumers:
        return
    if not prepared.table_rows and not is_meant:
        error = ConfirmationNeededError(
            "the table has no rows: we would receive the model without contributing, and that is for good"
        )
        error.hint = "nothing was sent; if that is what you want, run the command again with --consumer"
        raise error
    if is_meant and prepared.table_rows:
        raise InputError(f"--consumer sends no row, and the table has {prepared.table_rows:,}: omit one")
