"""Terms of schema 2 that are valid, by what they show."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.columns import DATE_TERMS, LEVEL_TERMS
from tests.vectors.examples import (
    AUTO_TERMS,
    BOOSTED_TERMS,
    FOREST_TERMS,
    KNN_TERMS,
    LATE_TERMS,
    NUMBER_TERMS,
    PRIVATE_TERMS,
    SURVIVAL_TERMS,
    TERMS_2,
)

TERMS_OF_SCHEMA_2: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("terms of schema 2", TERMS_2),
    ("terms with dates", DATE_TERMS),
    ("terms with levels in an order, and one for all other texts", LEVEL_TERMS),
    ("terms for a number", NUMBER_TERMS),
    ("terms for survival", SURVIVAL_TERMS),
    ("terms with a model that is differentially private, and limits of exposure", PRIVATE_TERMS),
    ("terms with a late consumer", LATE_TERMS),
    ("terms with a random forest", FOREST_TERMS),
    ("terms with boosted trees", BOOSTED_TERMS),
    ("terms with nearest neighbours", KNN_TERMS),
    ("terms with a choice among models", AUTO_TERMS),
)
