"""Columns of dates, of levels in an order and with a level for all other texts, and terms with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.examples import LEVELS, NUMERIC, RANGE, RANKS, SURVIVAL_TERMS, TERMS, TERMS_2, changed

DATES: dict[str, Any] = {
    **RANKS,
    "name": "admitted",
    "quantiles": [18261.0, 18262.5, 18321.0],
    "dates": "iso",
}
_WAYS = ("dd.mm.yyyy", "dd/mm/yyyy", "mm/dd/yyyy", "yyyy/mm/dd", "yyyymmdd", "ddmmyyyy", "mmddyyyy")
DURATION: dict[str, Any] = {
    **RANGE, "name": "left", "high": 30.0, "centre": 4.5, "dates": "iso", "since": "admitted",
}  # fmt: skip
DATE_TERMS: dict[str, Any] = {
    **TERMS_2,
    "table_schema": {**TERMS_2["table_schema"], "columns": [DATES, DURATION]},
    "latent_dim": 2,
    "anchor": {"kind": "haar", "rows": 2},
}
OTHERS: dict[str, Any] = {**LEVELS, "other": "south"}
ORDINAL: dict[str, Any] = {
    "kind": "ordinal",
    "name": "grade",
    "levels": ["low", "mid", "high"],
    "centre": 0.25,
    "empty": "centre",
    "missing_share": None,
}
LEVEL_TERMS: dict[str, Any] = {
    **TERMS_2,
    "table_schema": {**TERMS_2["table_schema"], "columns": [ORDINAL, OTHERS]},
    "latent_dim": 4,
    "anchor": {"kind": "haar", "rows": 4},
}
CODED_RANGE: dict[str, Any] = {**RANGE, "missing": ["1", "-9"]}
CODED_LEVELS: dict[str, Any] = {**LEVELS, "missing": ["9", "north"]}
CODED_TERMS: dict[str, Any] = {
    **TERMS_2,
    "table_schema": {**TERMS_2["table_schema"], "columns": [RANKS, CODED_RANGE, CODED_LEVELS]},
}
LOGARITHM: dict[str, Any] = {**RANGE, "low": 0.25, "high": 16.0, "centre": 2.0, "scale": "logarithm"}
IMPUTED_RANKS: dict[str, Any] = {**RANKS, "empty": "impute", "impute": 0.75}
IMPUTED_RANGE: dict[str, Any] = {**LOGARITHM, "empty": "impute", "impute": 0.25}
IMPUTED_LEVELS: dict[str, Any] = {**LEVELS, "empty": "impute", "impute": "south"}
IMPUTED_ORDINAL: dict[str, Any] = {**ORDINAL, "empty": "impute", "impute": "low"}
IMPUTED_TERMS: dict[str, Any] = {
    **TERMS_2,
    "table_schema": {**TERMS_2["table_schema"], "columns": [IMPUTED_RANKS, IMPUTED_RANGE, IMPUTED_LEVELS]},
}
LOGARITHM_OF_DAYS: dict[str, Any] = {**DURATION, "low": 0.5, "scale": "logarithm"}
IMPUTED_DURATION: dict[str, Any] = {**DURATION, "empty": "impute", "impute": 3.0}
IMPUTED_DATE_TERMS = changed(
    DATE_TERMS, "table_schema", "columns", 0, to={**DATES, "empty": "impute", "impute": 18262.0}
)


def edges_of_columns() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield terms whose columns or label lie just within the rules."""
    first, second = (("table_schema", "columns", index) for index in range(2))
    label = ("table_schema", "label_column")
    for name, terms in [
        ("two quantiles that are the same", changed(TERMS_2, *first, "quantiles", to=[0.0, 0.0, 4.0])),
        ("a range with its centre at an end", changed(TERMS_2, *second, "centre", to=4.0)),
        *((f"dates as {each}", changed(DATE_TERMS, *first, "dates", to=each)) for each in _WAYS),
        ("a range of logarithms", changed(TERMS_2, *second, to=LOGARITHM)),
        ("a duration as its logarithm", changed(DATE_TERMS, *second, to=LOGARITHM_OF_DAYS)),
        ("empty fields that count as a value", IMPUTED_TERMS),
        ("empty dates that count as a day", IMPUTED_DATE_TERMS),
        ("an empty place in an order that counts as one",
            changed(LEVEL_TERMS, *first, to=IMPUTED_ORDINAL)),
        ("empty fields that count as the first quantile", changed(IMPUTED_TERMS, *first, "impute", to=0.0)),
        ("a time at the horizon", changed(SURVIVAL_TERMS, *label, "times", to=[182.5, 730.0])),
        ("the shortest time", changed(SURVIVAL_TERMS, *label, "times", to=[730.0 / 2**20])),
    ]:  # fmt: skip
        yield name, "Terms", terms


def broken_columns() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield terms with a column that is none."""
    first, second, third = (("table_schema", "columns", index) for index in range(3))
    label = ("table_schema", "label_column")
    yield from [
        ("dates written in no known way", changed(DATE_TERMS, *first, "dates", to="yyyy")),
        ("dates that are nil", changed(TERMS_2, *first, to={**RANKS, "dates": None})),
        ("a duration of no dates", changed(TERMS_2, *first, to={**RANKS, "since": "admitted"})),
        ("a duration since itself", changed(DATE_TERMS, *second, "since", to="left")),
        ("a duration since the label", changed(DATE_TERMS, *second, "since", to="readmitted")),
        ("a level for other texts that is none", changed(LEVEL_TERMS, *second, "other", to="west")),
        ("a level for other texts that is nil", changed(LEVEL_TERMS, *second, "other", to=None)),
        ("an order of one level", changed(LEVEL_TERMS, *first, "levels", to=["low"])),
        ("a level twice in an order", changed(LEVEL_TERMS, *first, "levels", to=["low", "low"])),
        ("a centre beyond the places", changed(LEVEL_TERMS, *first, "centre", to=1.5)),
        ("terms of schema 1 with levels in an order",
            {**TERMS, "table_schema": {**TERMS["table_schema"], "columns": [ORDINAL]},
             "latent_dim": 1, "anchor": {"kind": "haar", "rows": 1}}),
        ("a column without texts for an empty field",
            changed(CODED_TERMS, *second, "missing", to=[])),
        ("texts for an empty field that are nil", changed(TERMS_2, *second, to={**RANGE, "missing": None})),
        ("a text for an empty field that is too long",
            changed(CODED_TERMS, *second, "missing", to=["9" * 201])),
        ("a column of schema 1 with texts of its own for an empty field",
            changed(TERMS, *first, to={**NUMERIC, "missing": ["-9"]})),
        ("a share for one level alone", changed(TERMS_2, *third, "shares", to=[0.25])),
        ("three shares of two levels", changed(TERMS_2, *third, "shares", to=[0.25, 0.5, 0.25])),
        ("a share of empty fields that are refused", changed(TERMS_2, *third, "empty", to="refuse")),
        ("no value for empty fields that count as one", changed(TERMS_2, *second, "empty", to="impute")),
        ("a value for empty fields that count as the centre",
            changed(IMPUTED_TERMS, *first, "empty", to="centre")),
        ("a value for empty fields that is nil", changed(TERMS_2, *second, to={**RANGE, "impute": None})),
        ("a value for empty fields beyond the quantiles", changed(IMPUTED_TERMS, *first, "impute", to=4.5)),
        ("a value for empty fields beyond the range", changed(IMPUTED_TERMS, *second, "impute", to=16.5)),
        ("a level for empty fields that is none", changed(IMPUTED_TERMS, *third, "impute", to="west")),
        ("a number for empty fields of levels", changed(IMPUTED_TERMS, *third, "impute", to=1.0)),
        ("logarithms of a range that begins at 0", changed(TERMS_2, *second, to={**LOGARITHM, "low": 0.0})),
        ("logarithms of dates", changed(DATE_TERMS, *first, to={**LOGARITHM, "dates": "iso"})),
        ("logarithms of a narrow range", changed(
            TERMS_2, *second, to={**LOGARITHM, "low": 1000.0, "centre": 1000.0, "high": 1000.5})),
        ("a scale that is none", changed(TERMS_2, *second, to={**RANGE, "scale": "root"})),
        ("a scale that is nil", changed(TERMS_2, *second, to={**RANGE, "scale": None})),
        ("logarithms of ranks", changed(TERMS_2, *first, to={**RANKS, "scale": "logarithm"})),
        ("the event in the column of times", changed(SURVIVAL_TERMS, *label, "event", to="days")),
        ("one text for seen and censored", changed(SURVIVAL_TERMS, *label, "censored", to="yes")),
        ("a time that is too short", changed(SURVIVAL_TERMS, *label, "times", to=[730.0 / 2**21])),
        ("levels that are dates", changed(TERMS_2, *third, to={**LEVELS, "dates": "iso"})),
    ]  # fmt: skip
