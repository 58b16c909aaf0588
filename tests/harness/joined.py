"""Tables of which two institutions hold different columns, and terms that join their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

LEAD, LAB, ALONE = "lead-hospital", "lab-a", "hospital-b"
"""The first two hold different columns of the same rows; the third has all columns of its own rows."""
KEY = "patient_id"
OF_LEAD, OF_LAB = ("x0", "x1", "x2"), ("x3", "x4", "x5")
COLUMNS = (*OF_LEAD, *OF_LAB)


def patients(seed: int, count: int) -> pa.Table:
    """Whole rows with keys: four factors lie behind six columns, and the label needs both halves of them."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((count, 4))
    mixed = np.column_stack(
        [factors[:, :2], factors[:, :2].sum(axis=1), factors[:, 2:], factors[:, 2:].sum(axis=1)]
    )
    values = (2 * mixed + 0.1 * rng.standard_normal((count, 6))).clip(-9.9, 9.9)
    signal = factors @ [1.0, 0.5, 1.0, -0.5] + 0.5 * rng.standard_normal(count)
    return pa.table(
        {
            KEY: [f"patient-{seed:02d}-{number:06d}" for number in range(count)],
            **{name: values[:, index] for index, name in enumerate(COLUMNS)},
            "label": np.where(signal > 0, "yes", "no"),
        }
    )


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def held_by_lead(table: pa.Table) -> pa.Table:
    return table.select([KEY, *OF_LEAD, "label"])


def held_by_lab(table: pa.Table) -> pa.Table:
    return table.select([KEY, *OF_LAB])


def joining(**changes: Any) -> dict[str, Any]:
    """Fields of terms that join the rows of the first two."""
    return {
        "latent_dim": 4,
        "features": 6,
        "absent_columns": [
            {"party": LEAD, "columns": list(OF_LAB)},
            {"party": LAB, "columns": list(OF_LEAD)},
        ],
        "joined_rows": [{"row_key": KEY, "parties": [LEAD, LAB], "latent_dims": [2, 2], "labels": LEAD}],
        **changes,
    }
