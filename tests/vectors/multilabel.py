"""Terms of several labels, what people read of them, and some that break a rule."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.examples import KNN_TERMS, TERMS, TERMS_2, WEIGHTED_TERMS, changed

_LABELS: Final = [
    {"name": "readmitted", "absent": "no", "present": "yes"},
    {"name": "fell", "absent": "0", "present": "1"},
]
_LABEL: Final = {"kind": "multilabel", "labels": _LABELS}
MULTILABEL_TERMS: Final[dict[str, Any]] = {
    **TERMS_2,
    "table_schema": {**TERMS_2["table_schema"], "label_column": _LABEL},
}


def multilabel_text(text: str) -> str:
    """Return what people read of `MULTILABEL_TERMS`, from the text of the same terms for classes."""
    return (
        text.replace(
            "The model predicts the column readmitted, which is one of: no, yes.",
            "The model predicts several labels of a row, the probability of each by itself: readmitted (yes,"
            " or else no); fell (1, or else 0).",
        )
        .replace("the label of each row, unchanged,", "which of the labels each row has, unchanged,")
        .replace(
            "Warning: no differential privacy",
            "Warning: several labels: all labels of a row together may be those of one person alone. An"
            " analyst that has them from elsewhere recognises the row.\nWarning: no differential privacy",
        )
    )


def _with(*where: str | int, to: Any) -> dict[str, Any]:
    found: dict[str, Any] = changed(MULTILABEL_TERMS, "table_schema", "label_column", "labels", *where, to=to)
    return found


BROKEN_MULTILABEL: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("one of several labels alone", _with(to=_LABELS[:1])),
    ("a label that is named twice", _with(1, "name", to="readmitted")),
    ("a label that is present where it is absent", _with(1, "absent", to="1")),
    ("a label that is a column as well", _with(1, "name", to=TERMS_2["table_schema"]["columns"][0]["name"])),
    ("a model of one label for several", {**MULTILABEL_TERMS, "model": KNN_TERMS["model"]}),
    ("class weights for several labels", {**MULTILABEL_TERMS, "model": WEIGHTED_TERMS["model"]}),
    (
        "terms of schema 1 for several labels",
        {**TERMS, "table_schema": {**TERMS["table_schema"], "label_column": _LABEL}},
    ),
)
