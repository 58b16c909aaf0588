"""The cases of ledgers.json: chains of entries that hold, and chains that were tampered with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from tests.vectors.examples import COLLABORATION, HEADS, LEDGER, STEPS, Case, chained, changed
from tests.vectors.packing import pack
from tests.vectors.rounds import after_the_seal


def ledgers() -> Iterator[Case]:
    again = chained([*STEPS[:6], STEPS[5]])[0]
    for name, entries, verdict in [
        ("a round until its seal", LEDGER, "valid"),
        ("the beginning of the same", LEDGER[:3], "valid"),
        ("a time was changed", changed(LEDGER, 2, "at", to=1), "ledger-broken"),
        ("a subject was taken out", changed(LEDGER, 1, "subject", to=None), "ledger-broken"),
        ("an entry was left out", [*LEDGER[:2], *LEDGER[3:]], "ledger-broken"),
        ("two entries changed places", [LEDGER[0], LEDGER[2], LEDGER[1], *LEDGER[3:]], "ledger-broken"),
        ("the first entry of another collaboration", [changed(LEDGER[0], "previous", to=bytes(32))],
            "ledger-broken"),
        ("a step that does not follow", chained([STEPS[0], STEPS[5]])[0], "ledger-broken"),
        ("a state that the step does not lead to", chained([(*STEPS[0][:2], "anchored", None)])[0],
            "ledger-broken"),
        ("a second uplink of a party", again, "ledger-broken"),
    ]:  # fmt: skip
        case = {
            "name": name,
            "collaboration_id": COLLABORATION,
            "entries": [pack(entry).hex() for entry in entries],
            "verdict": verdict,
        }
        if verdict == "valid":
            case["heads"] = [head.hex() for head in HEADS[: len(entries) + 1]]
            case["roots"] = [merkle_root(entries[:size]).hex() for size in range(len(entries) + 1)]
        yield case
    yield {
        "name": "entries that are numbered from 1",
        "collaboration_id": COLLABORATION,
        "entries": [pack(entry).hex() for entry in chained(STEPS, first=1)[0]],
        "verdict": "ledger-broken",
    }
    for name, steps, verdict in after_the_seal():
        entries, heads = chained(steps)
        found = {
            "name": name,
            "collaboration_id": COLLABORATION,
            "entries": [pack(entry).hex() for entry in entries],
            "verdict": verdict,
        }
        roots = [merkle_root(entries[:size]).hex() for size in range(len(entries) + 1)]
        right = {"heads": [head.hex() for head in heads], "roots": roots}
        yield {**found, **right} if verdict == "valid" else found


def merkle_root(entries: Sequence[dict[str, Any]]) -> bytes:
    """Return the Merkle root of entries, by a stack of whole trees."""
    stack: list[tuple[int, bytes]] = []
    for entry in entries:
        height, found = 0, sha256(b"\x00" + pack(entry)).digest()
        while stack and stack[-1][0] == height:
            height, found = height + 1, sha256(b"\x01" + stack.pop()[1] + found).digest()
        stack.append((height, found))
    if not stack:
        return sha256(b"").digest()
    _, found = stack.pop()
    while stack:
        found = sha256(b"\x01" + stack.pop()[1] + found).digest()
    return found
