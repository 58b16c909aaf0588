"""Terms of sums, and a consortium of three that holds a round under them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.harness.in_process import COLUMNS, HOSPITAL, LEAD, PASSPHRASE, Consortium, csv
from user_client.sdk import Round, Session, approve_pending, join

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
BY_CLASS: Final[dict[str, Any]] = {**SUMS, "model": {"kind": "quadratic-discriminant"}}
"""For a distribution of each class."""
NOISE: Final[dict[str, Any]] = {"epsilon": 10.0, "delta": 1e-5, "clip": 2.0, "colluding": 1}
NOISY: Final[dict[str, Any]] = {**SUMS, "sums": {"min_rows": 5, "max_rows": 1000, "noise": NOISE}}
"""With noise in the total."""
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
COHORT: Final[dict[str, Any]] = {
    **SUMS,
    "sums": {**SUMS["sums"], "cohort": True},
    "table_schema": {
        "columns": [
            {"kind": "numeric", "name": "x0", "low": -4, "high": 4, "out_of_range": "clip"},
            {
                "kind": "range",
                "name": "x1",
                "low": -2,
                "high": 6,
                "centre": 0.5,
                "empty": "centre",
                "missing_share": 0.1,
            },
            {"kind": "categorical", "name": "sex", "levels": ["f", "m"]},
            {
                "kind": "levels",
                "name": "ward",
                "levels": ["a", "b", "c", "nowhere"],
                "shares": [0.3, 0.3, 0.4, 0.0],
                "weight": 0.5,
            },
            {"kind": "ordinal", "name": "grade", "levels": ["low", "mid", "high"], "centre": 0.25},
        ],
        "label_column": {"kind": "number", "name": "days", "low": 0, "high": 100},
    },
    "latent_dim": 10,
    "anchor": {"kind": "haar", "rows": 10},
}
"""A number to predict from columns of each kind, one of whose levels no row has; each institution gets the
total."""


def stays(seed: int, count: int = 60) -> dict[str, list[Any]]:
    """A table for `COHORT`: by unit of x0 a stay is 5 days longer, and 10 in ward c."""
    rng = np.random.default_rng(seed)
    x0, x1 = np.clip(rng.standard_normal((2, count)), -2, 4)
    ward = rng.choice(["a", "b", "c"], count)
    days = 50 + 5 * x0 + 10 * (ward == "c") + 2 * rng.standard_normal(count)
    return {
        "x0": x0.tolist(),
        "x1": np.where(rng.random(count) < 0.1, "", x1.astype(str)).tolist(),
        "sex": rng.choice(["f", "m"], count).tolist(),
        "ward": ward.tolist(),
        "grade": rng.choice(["low", "mid", "high"], count).tolist(),
        "days": days.tolist(),
    }


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

    def until_stays_are_received(self, **changed: Any) -> list[Round]:
        """Play a round of `stays` under `COHORT`, changed; return what the institutions have of it."""
        self.until_anchored(**{**COHORT, **changed})
        found = [session.round(self.id) for session in self.sessions]
        for seed, each in enumerate(found):
            each.prepare(csv(self.directory / f"rows-{seed}.csv", stays(seed)))
            each.contribute()
        self.compute()
        for each in found:
            each.receive()
        return found
