"""The messages of a round whose terms name the analyst's key."""

from __future__ import annotations

from typing import Any

from tests.vectors.examples import ACCEPTANCE, COLLABORATION, HEADS, LEDGER, TERMS, TERMS_2, UPLINK

KEY = "00c122d344e566f78899aabbccddeeff" * 2
PINNED_TERMS: dict[str, Any] = {**TERMS_2, "analyst_key": KEY}
PINNED_LINE = "The analyst is the one with the key " + " ".join(KEY[i : i + 4] for i in range(0, 64, 4))
SEEN = {"length": len(LEDGER), "digest": HEADS[-1]}
SEEN_LEDGER = {"collaboration_id": COLLABORATION, "party": "hospital-b", "seen": SEEN, "at": 1790000600}


def valid() -> list[tuple[str, str, dict[str, Any]]]:
    """Return the messages that such a round has and others have not."""
    return [
        ("terms with the analyst's key", "Terms", PINNED_TERMS),
        ("acceptance after a ledger was seen", "Acceptance", {**ACCEPTANCE, "seen": SEEN}),
        ("uplink manifest after a ledger was seen", "UplinkManifest", {**UPLINK, "seen": SEEN}),
        ("ledger seen with the downlink", "SeenLedger", SEEN_LEDGER),
    ]


def broken() -> list[tuple[str, str, dict[str, Any]]]:
    """Return messages that break a rule of such a round."""
    return [
        ("terms of schema 1 with the analyst's key", "Terms", {**TERMS, "analyst_key": KEY}),
        ("the analyst's key of nil", "Terms", {**PINNED_TERMS, "analyst_key": None}),
        ("the analyst's key as bytes", "Terms", {**PINNED_TERMS, "analyst_key": bytes.fromhex(KEY)}),
        ("the analyst's key in groups", "Terms", {**PINNED_TERMS, "analyst_key": KEY[:4] + " " + KEY[4:]}),
        ("a seen ledger of nil", "Acceptance", {**ACCEPTANCE, "seen": None}),
        ("a seen ledger without its head", "UplinkManifest", {**UPLINK, "seen": {"length": 1}}),
        ("nothing seen with the downlink", "SeenLedger", {**SEEN_LEDGER, "seen": None}),
        ("a ledger seen by nobody", "SeenLedger", {**SEEN_LEDGER, "party": None}),
    ]
