"""More cases of ledgers.json, and those of checks.json: whole rounds, and what a member looks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from tests.vectors.examples import (
    COLLABORATION,
    LEDGER_HEAD,
    RECEIPT,
    STEPS,
    UPLINK_DIGEST,
    Case,
    chained,
)
from tests.vectors.packing import pack

Step = tuple[str, str | None, str, bytes | None]
MODEL, MANIFEST, OTHER = bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32
TRAINED: list[Step] = [
    *STEPS,
    ("begin alignment", None, "aligning", None),
    ("begin training", None, "training", None),
]
RELEASED: list[Step] = [*TRAINED, ("release", None, "released", MODEL)]
FETCHED: list[Step] = [*RELEASED, ("fetch downlink", "hospital-b", "released", MANIFEST)]
FAILED: list[Step] = [*TRAINED, ("fail", None, "failed", None)]
LATE: list[Step] = [
    ("accept terms", "hospital-c", "released", OTHER),
    ("share anchor", "hospital-a", "released", OTHER),
    ("begin uplink", "hospital-c", "released", OTHER),
    ("accept uplink", "hospital-c", "released", OTHER),
    ("align consumer", "hospital-c", "released", OTHER),
]


def after_the_seal() -> Iterator[tuple[str, Sequence[Step], str]]:
    """Steps from the seal on, whether each follows from the one before."""
    yield "a round to its end", [*FETCHED, ("close", None, "closed", None)], "valid"
    again: list[Step] = [("resume", None, "sealed", None), *TRAINED[-2:], RELEASED[-1]]
    yield "a round that failed and went on", [*FAILED, *again], "valid"
    yield "an alignment that is begun again", [*TRAINED[:-1], ("resume", None, "sealed", None)], "valid"
    yield (
        "a party excluded after a failure",
        [*FAILED, ("exclude party", "hospital-b", "failed", OTHER)],
        "valid",
    )
    yield (
        "a party excluded before the training",
        [*STEPS, ("exclude party", "hospital-b", "sealed", UPLINK_DIGEST)],
        "valid",
    )
    yield "a model that is discarded", [*TRAINED, ("exclude party", "hospital-b", "failed", OTHER)], "valid"
    yield "a late consumer", [*RELEASED, *LATE], "valid"
    refused: Step = ("refuse consumer", "hospital-c", "released", OTHER)
    yield "a late consumer that could not be aligned", [*RELEASED, *LATE[:-1], refused], "valid"
    yield "a round that is cancelled", [*STEPS, ("cancel", None, "cancelled", None)], "valid"
    broken: list[tuple[str, Sequence[Step]]] = [
        ("an uplink after the seal", [*STEPS, ("begin uplink", "hospital-a", "sealed", OTHER)]),
        ("an uplink accepted after the seal", [*STEPS, ("accept uplink", "hospital-a", "sealed", OTHER)]),
        ("a release without a training", [*STEPS, ("release", None, "released", MODEL)]),
        ("a fetch before the release", [*TRAINED, ("fetch downlink", "hospital-b", "training", MANIFEST)]),
        ("a second release", [*RELEASED, ("release", None, "released", MODEL)]),
        ("a resume of what was released", [*RELEASED, ("resume", None, "sealed", None)]),
        ("a released round that is cancelled", [*RELEASED, ("cancel", None, "cancelled", None)]),
        (
            "a party excluded after the release",
            [*RELEASED, ("exclude party", "hospital-b", "released", None)],
        ),
        ("a step after the end", [*RELEASED, ("close", None, "closed", None), FETCHED[-1]]),
        ("a failure before the alignment", [*STEPS, ("fail", None, "failed", None)]),
        (
            "the same party's uplink again, released",
            [*RELEASED, ("accept uplink", "hospital-b", "released", OTHER)],
        ),
        ("an acceptance before the terms", [STEPS[1]]),
    ]
    for name, steps in broken:
        yield name, steps, "ledger-broken"


def checks() -> Iterator[Case]:
    """Ledgers that hold, with a head, a receipt or a downlink that do or do not belong to them."""
    entries, heads = chained(FETCHED)
    head = {**LEDGER_HEAD, "length": len(entries), "digest": heads[-1]}
    mine = {"party": "hospital-b", "manifest": MANIFEST.hex(), "model": MODEL.hex()}

    def case(name: str, verdict: str, **parts: Any) -> Case:
        found = {"head": head, "seen": None, "receipt": None, "downlink": None, **parts}
        for key in ("head", "receipt"):
            found[key] = found[key] and pack(found[key]).hex()
        ledger = parts.pop("entries", entries)
        found.pop("entries", None)
        return {
            "name": name,
            "collaboration_id": COLLABORATION,
            "entries": [pack(entry).hex() for entry in ledger],
            **found,
            "verdict": verdict,
        }

    def seen(length: int, digest: bytes) -> dict[str, Any]:
        return {"length": length, "digest": digest.hex()}

    bad = "ledger-broken"
    yield case("a ledger under its head", "valid")
    yield case("a head of fewer entries", bad, head={**head, "length": len(entries) - 1, "digest": heads[-2]})
    yield case("a head of more entries", bad, head={**head, "length": len(entries) + 1})
    yield case("another head", bad, head={**head, "digest": OTHER})
    yield case("a head of another collaboration", bad, head={**head, "collaboration_id": "f" * 32})
    yield case("it begins with what was seen", "valid", seen=seen(5, heads[5]))
    yield case("all of it was seen", "valid", seen=seen(len(entries), heads[-1]))
    yield case("it begins otherwise than what was seen", bad, seen=seen(5, heads[4]))
    yield case("it is shorter than what was seen", bad, seen=seen(len(entries) + 1, heads[-1]))
    yield case("the receipt is in it", "valid", receipt=RECEIPT)
    yield case("the receipt names another entry", bad, receipt={**RECEIPT, "ledger_index": 4})
    yield case("the receipt names an entry that there is not", bad, receipt={**RECEIPT, "ledger_index": 99})
    yield case("the receipt names another digest", bad, receipt={**RECEIPT, "ledger_digest": OTHER})
    yield case("the receipt is for another uplink", bad, receipt={**RECEIPT, "uplink_digest": OTHER})
    yield case("the receipt is for another party", bad, receipt={**RECEIPT, "party": "hospital-a"})
    yield case("the downlink is in it", "valid", downlink=mine)
    early = {**LEDGER_HEAD, "length": len(TRAINED), "digest": heads[len(TRAINED)]}
    yield case("nothing was released", bad, entries=entries[: len(TRAINED)], head=early, downlink=mine)
    yield case("another model was released", bad, downlink={**mine, "model": OTHER.hex()})
    yield case("another manifest was fetched", bad, downlink={**mine, "manifest": OTHER.hex()})
    yield case("nobody has fetched in this name", bad, downlink={**mine, "party": "hospital-a"})
    models = sorted([MODEL, bytes(32)])
    of_all = sha256(b"odc/v1/models\x00" + b"".join(models)).digest()
    grouped, grouped_heads = chained([*TRAINED, ("release", None, "released", of_all), FETCHED[-1]])
    ledger = {"entries": grouped, "head": {**head, "digest": grouped_heads[-1]}}
    named = {**mine, "models": [each.hex() for each in models]}
    yield case("the models of groups were released", "valid", **ledger, downlink=named)
    yield case("one model was released, and models came", bad, downlink=named)
    yield case("models were released, and one came", bad, **ledger, downlink=mine)
    twice, twice_heads = chained([*FAILED, ("resume", None, "sealed", None), *TRAINED[-2:],
                                  ("release", None, "released", OTHER), FETCHED[-1]])  # fmt: skip
    last = {**LEDGER_HEAD, "length": len(twice), "digest": twice_heads[-1]}
    yield case(
        "the last release counts", "valid", entries=twice, head=last, downlink={**mine, "model": OTHER.hex()}
    )
