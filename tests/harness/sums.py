"""Terms of sums, and a consortium of three that holds a round under them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.in_process import COLUMNS, HOSPITAL, LEAD, PASSPHRASE, Consortium
from user_client.sdk import Session, approve_pending, join

OTHER: Final = "hospital-b"
PARTIES: Final = [LEAD, HOSPITAL, OTHER]
SUMS: Final[dict[str, Any]] = {
    "parties": PARTIES,
    "model": {"kind": "ridge"},
    "sums": {"min_rows": 5, "max_rows": 1000},
}
RANDOM: Final[dict[str, Any]] = {
    **SUMS,
    "latent_dim": 19,
    "sums": {"min_rows": 5, "max_rows": 1000, "random_features": 16, "kernel_width": 1.5},
}
"""With random features as well."""
NUMBERS: Final[dict[str, Any]] = {
    **SUMS,
    "table_schema": {
        "columns": [
            {"kind": "numeric", "name": name, "low": -4, "high": 4, "out_of_range": "clip"}
            for name in COLUMNS[:2]
        ],
        "label_column": {"kind": "number", "name": COLUMNS[2], "low": -4, "high": 4},
    },
    "latent_dim": 2,
    "anchor": {"kind": "haar", "rows": 2},
}
"""To predict the third column."""


class ThreeOfThem(Consortium):
    """A consortium with a second hospital."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(directory, monkeypatch)
        self.other = self.session(OTHER)

    def until_joined(self) -> Consortium:
        super().until_joined()
        join(self.other, self.invitation(OTHER))
        approve_pending(self.lead, PASSPHRASE)
        join(self.other, None)
        return self

    @property
    def sessions(self) -> list[Session]:
        return [self.lead, self.hospital, self.other]
