"""Uplinks that the analyst has signed for and whose stored bytes are damaged: found, marked, asked for again.

The receipt stands, so only the very bytes that it is for can take their place. A mark beside the blob says
that they are awaited; it is no state of the round, and goes when they have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analyst_server.blobs import Blobs, DamagedBlobError
from analyst_server.compute.checking import damaged_arrays
from analyst_server.compute.sequence import Run
from analyst_server.compute.sight import worker_of
from analyst_server.services.stored import blob_key, damaged_key, stored_arrays
from analyst_server.store import Collaboration, Uplink, UplinkState
from protocol.states import State


def find(uplinks: Sequence[Uplink], blobs: Blobs, run: Run) -> dict[str, list[str]]:
    """Return the names of the damaged arrays, by party, of those parties that have one."""
    found = run(damaged_arrays, [stored_arrays(uplink) for uplink in uplinks], blobs)
    return {uplink.party: names for uplink, names in zip(uplinks, found, strict=True) if names}


def in_words(damaged: Mapping[str, Sequence[str]]) -> str:
    """Return what happened and who has to do what, as the reason of a failed round."""
    listed = ", ".join(f"{party} ({', '.join(names)})" for party, names in sorted(damaged.items()))
    who = " and ".join(sorted(damaged))
    return (
        f"on the analyst's disk the uplink of {listed} is damaged and has other digests than the signed ones;"
        f" {who} must run `odc contribute` again, which sends the same bytes, and then the round goes on"
    )


def was_whole(error: DamagedBlobError) -> str:
    """Return why a round failed by an array that was found whole when it was looked at again."""
    if (worker := worker_of(error)) is not None:
        return (
            f"the compute worker {worker} does not see the arrays of this installation as the analyst's"
            " machine does, which finds them whole: the operator has to look whether the directory of"
            " ODC_ANALYST_BLOB_URL is mounted there, then at its disk and memory, and resume the round"
        )
    return (
        f"the blob {error.key} was not what was signed when it was read, and was when it was read again:"
        " check the disk and the memory of the analyst's machine before the round is resumed"
    )


def mark(uplinks: Iterable[Uplink], blobs: Blobs) -> None:
    """Note that the bytes of these uplinks are awaited again."""
    for uplink in uplinks:
        blobs.append(_mark_key(uplink), 0, b"")
        blobs.sync(_mark_key(uplink))


def unmark(uplinks: Iterable[Uplink], blobs: Blobs) -> None:
    """Note that nothing of these uplinks is awaited any more."""
    for uplink in uplinks:
        blobs.discard(_mark_key(uplink))


def is_marked(uplink: Uplink | UplinkState, blobs: Blobs) -> bool:
    """Return whether the bytes of an uplink are awaited again."""
    return blobs.partial_size(_mark_key(uplink)) is not None


def asked_again(
    collaboration: Collaboration, uplinks: Mapping[str, Sequence[UplinkState]], blobs: Blobs
) -> set[str]:
    """Return the parties whose stored uplink is damaged: they are to send the same bytes again."""
    if collaboration.now_in not in (State.FAILED, State.RELEASED):
        return set()
    marked = blobs.partial_keys(f"{collaboration.id}/uplinks")
    return {
        party
        for party, sent in uplinks.items()
        if any(uplink.is_received and _mark_key(uplink) in marked for uplink in sent)
    }


def _mark_key(uplink: Uplink | UplinkState) -> str:
    return damaged_key(blob_key(uplink))
