"""The cases of ledgers.json: chains of entries that hold, and chains that were tampered with."""

from __future__ import annotations

from collections.abc import Iterator

from tests.vectors.examples import COLLABORATION, HEADS, LEDGER, STEPS, Case, chained, changed
from tests.vectors.packing import pack


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
        yield case
