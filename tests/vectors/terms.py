"""Terms of schema 2 that are valid, by what they show, and some that break a rule."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.absent import ABSENT_TERMS, BROKEN_ABSENT
from tests.vectors.alignments import ALIGNED_TERMS, broken_alignments
from tests.vectors.columns import CODED_TERMS, DATE_TERMS, LEVEL_TERMS, broken_columns
from tests.vectors.examples import (
    AUTO_TERMS,
    BOOSTED_TERMS,
    FOREST_TERMS,
    KNN_TERMS,
    LATE_TERMS,
    NUMBER_TERMS,
    PRIVATE_TERMS,
    RETAINED_TERMS,
    SURVIVAL_TERMS,
    TERMS,
    TERMS_2,
    WEIGHTED_TERMS,
    changed,
)
from tests.vectors.fewer import broken_fewer, valid_fewer
from tests.vectors.joined import broken_joined, valid_joined
from tests.vectors.multilabel import BROKEN_MULTILABEL, MULTILABEL_TERMS
from tests.vectors.own_maps import broken_own_maps, valid_own_maps

CORRECTED_TERMS: Final = {**TERMS_2, "collaboration_id": "01" * 16, "replaces": TERMS["collaboration_id"]}
TERMS_OF_SCHEMA_2: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("terms of schema 2", TERMS_2),
    ("terms with dates", DATE_TERMS),
    ("terms with levels in an order, and one for all other texts", LEVEL_TERMS),
    ("terms with texts for an empty field in some columns", CODED_TERMS),
    ("terms for a number", NUMBER_TERMS),
    ("terms for survival", SURVIVAL_TERMS),
    ("terms for several labels", MULTILABEL_TERMS),
    ("terms with a model that is differentially private, and limits of exposure", PRIVATE_TERMS),
    ("terms with a late consumer", LATE_TERMS),
    ("terms that say how long", RETAINED_TERMS),
    ("terms that replace others", CORRECTED_TERMS),
    ("terms with class weights", WEIGHTED_TERMS),
    ("terms with a random forest", FOREST_TERMS),
    ("terms with boosted trees", BOOSTED_TERMS),
    ("terms with nearest neighbours", KNN_TERMS),
    ("terms with a choice among models", AUTO_TERMS),
    ("terms with a choice among alignments", ALIGNED_TERMS),
    ("terms with absent columns", ABSENT_TERMS),
    *valid_fewer(),
    *valid_own_maps(),
    *valid_joined(),
)
BROKEN_MODELS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("terms that replace themselves", {**TERMS_2, "replaces": TERMS_2["collaboration_id"]}),
    ("terms of schema 1 that replace others", {**TERMS, "replaces": "01" * 16}),
    ("no day", {**RETAINED_TERMS, "retention_days": 0}),
    ("terms of schema 1 that say how long", {**TERMS, "retention_days": 90}),
    ("class weights of none", changed(WEIGHTED_TERMS, "model", "class_weight", to="none")),
    ("class weights of an unknown kind", changed(WEIGHTED_TERMS, "model", "class_weight", to="inverse")),
    ("terms of schema 1 with class weights", {**TERMS, "model": WEIGHTED_TERMS["model"]}),
    (
        "class weights for a number",
        {**NUMBER_TERMS, "model": TERMS_2["model"] | {"class_weight": "balanced"}},
    ),
    (
        "class weights of a model that has none",
        {**KNN_TERMS, "model": KNN_TERMS["model"] | {"class_weight": "balanced"}},
    ),
    (
        "class weights of a private model",
        {**WEIGHTED_TERMS, "model_privacy": PRIVATE_TERMS["model_privacy"]},
    ),
    ("a forest whose leaves tell of one row", changed(FOREST_TERMS, "model", "rows_per_leaf", to=1)),
    ("trees of one leaf", changed(BOOSTED_TERMS, "model", "leaves", to=1)),
)


def broken_terms() -> list[tuple[str, dict[str, Any]]]:
    """Return terms of schema 2 that MUST be refused: for columns, labels, alignment, or what is absent."""
    return [
        *broken_columns(),
        *broken_alignments(),
        *BROKEN_ABSENT,
        *broken_fewer(),
        *broken_own_maps(),
        *broken_joined(),
        *BROKEN_MULTILABEL,
    ]
