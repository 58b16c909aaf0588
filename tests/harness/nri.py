"""Rounds under NRI-DC: their terms, and the files that lead to a basis."""

from __future__ import annotations

from typing import Any

from tests.harness.in_process import Consortium
from user_client.custody.round_directory import ANCHOR_FILE, ANCHOR_FILES, BASIS_FILES, SEALING_KEY_FILE

ANCHOR_ROWS = 120
NRI: dict[str, Any] = {
    "downlink": "anchor-predictions",
    "anchor": {"kind": "gaussian", "rows": ANCHOR_ROWS},
    "latent_dim": 2,
}
FROM_A_SEED = {ANCHOR_FILE, SEALING_KEY_FILE}
LEADS_TO_THE_BASIS = {*BASIS_FILES, *ANCHOR_FILES}


def names(consortium: Consortium) -> set[str]:
    """Return the names of the files that the hospital has of the round."""
    return {path.name for path in consortium.directory_of(consortium.hospital).iterdir()}
