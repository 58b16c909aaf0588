"""The cases of encoded.json: one column of a table, and its features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tests.vectors.columns import (
    CODED_LEVELS,
    CODED_RANGE,
    DATES,
    DURATION,
    IMPUTED_DURATION,
    IMPUTED_LEVELS,
    IMPUTED_ORDINAL,
    IMPUTED_RANGE,
    IMPUTED_RANKS,
    LOGARITHM,
    LOGARITHM_OF_DAYS,
    ORDINAL,
    OTHERS,
)
from tests.vectors.examples import (
    CATEGORICAL,
    LEVELS,
    NUMERIC,
    RANGE,
    RANKS,
    Case,
)

MISSING = ["", "NA"]
TIED = {**RANKS, "quantiles": [0.0, 0.0, 0.0, 1.0, 1.0, 10.0], "empty": "centre", "missing_share": 0.25}


def encoded_columns() -> Iterator[Case]:
    for name, column, fields in [
        ("a numeric column", NUMERIC, ["30", "150", "", "-1", "120"]),
        ("a categorical column", CATEGORICAL, ["south", " north ", "south"]),
        ("ranks: on, between and outside quantiles", RANKS, ["0", "0.75", "1.5", "2.75", "4", "-7", "1e9"]),
        ("ranks: ties have the middle of their ranks", TIED, ["0", "0.5", "1", "5.5", "10", "", "NA", "11"]),
        ("ranks: an empty field counts as a value", IMPUTED_RANKS, ["1.5", "", "NA", "4"]),
        ("a range of logarithms", LOGARITHM, ["2", "0.25", "16", "5", "0", "-1", "20", ""]),
        ("logarithms: an empty field counts as a value", IMPUTED_RANGE, ["2", "", "NA", "0.25"]),
        ("a flag beside a value for an empty field", {**IMPUTED_RANGE, "missing_share": 0.5}, ["", "0.25"]),
        ("levels: an empty field counts as one", IMPUTED_LEVELS, ["north", "south", "", "NA"]),
        ("ordinal levels: an empty field counts as one", IMPUTED_ORDINAL, ["low", "high", "", "NA"]),
        ("a centred range", RANGE, ["0", "1.5", "4", "5", "-1", ""]),
        ("centred levels", LEVELS, ["north", "south", "", "NA"]),
        ("levels: any other text is one of them", OTHERS, ["north", "south", "west", " East ", "", "NA"]),
        ("ordinal levels", ORDINAL, ["low", "mid", " high", "", "NA"]),
        ("a range with texts of its own for an empty field", CODED_RANGE, ["1", " -9 ", "NA", "4", "0.5"]),
        ("levels with texts of their own for an empty field", CODED_LEVELS, ["9", "north", "NA", "south"]),
        ("levels: a text that is a level is never empty", {**LEVELS, "levels": ["NA", "south"]}, ["NA", ""]),
    ]:
        features = [_features(column, field.strip()) for field in fields]
        yield {"name": name, "column": column, "missing": MISSING, "fields": fields, "features": features}
    yield from _dates()


def _dates() -> Iterator[Case]:
    """Dates and durations; the days that each field says are written out, not computed."""
    for name, dates, fields in [
        (
            "dates: iso, with times of the day",
            "iso",
            {
                "2019-12-31": 18261.0,
                "2020-01-01T06:00": 18262.25,
                " 2020-02-28 12:00:00.5 ": 18320 + 43200.5 / 86400,
                "2020-02-28T23:30:00+01:00": 18320 + 22.5 / 24,
                "2020-02-28 23:30-01:00": 18321 + 0.5 / 24,
                "2020-02-28T00:00:00.0000019Z": 18320 + 1e-6 / 86400,
                "1969-12-31": -1.0,
            },
        ),
        ("dates: dd.mm.yyyy", "dd.mm.yyyy", {"31.12.2019": 18261.0, "1.1.2020 06:00": 18262.25}),
        ("dates: dd/mm/yyyy", "dd/mm/yyyy", {"02/01/2020": 18263.0, "31/12/2019": 18261.0}),
        ("dates: mm/dd/yyyy", "mm/dd/yyyy", {"01/02/2020": 18263.0, "12/31/2019": 18261.0}),
        ("dates: yyyy/mm/dd", "yyyy/mm/dd", {"2020/1/2": 18263.0}),
        ("dates: yyyymmdd", "yyyymmdd", {"20200102": 18263.0}),
        (
            "dates: ddmmyyyy",
            "ddmmyyyy",
            {"02012020": 18263.0, "2012020": 18263.0, "31122019 06:00": 18261.25},
        ),
        (
            "dates: mmddyyyy",
            "mmddyyyy",
            {"01022020": 18263.0, "1022020": 18263.0, "12312019 06:00": 18261.25},
        ),
    ]:
        column = {**DATES, "dates": dates}
        features = [_features(column, str(days)) for days in fields.values()]
        yield {"name": name, "column": column, "missing": MISSING, "fields": [*fields], "features": features}
    pairs = [
        ("2020-03-01", "2020-02-28", 2.0),
        ("2020-01-01 06:00", "2020-01-01", 0.25),
        ("2020-01-01", "2020-01-05", -4.0),
    ]
    found = [*(_features(DURATION, str(days)) for _, _, days in pairs), [0.0], [0.0]]
    yield {
        "name": "dates: an empty field counts as a day",
        "column": {**DATES, "empty": "impute", "impute": 18262.0},
        "missing": MISSING,
        "fields": ["2020-01-01", "", "NA"],
        "features": [_features(DATES, "18262.0")] * 3,
    }
    yield {
        "name": "a duration, empty if one of the two dates is",
        "column": DURATION,
        "missing": MISSING,
        "fields": [*(end for end, _, _ in pairs), "", "2020-01-01"],
        "since": [*(begin for _, begin, _ in pairs), "2020-01-01", "NA"],
        "features": found,
    }
    yield {
        "name": "a duration as its logarithm",
        "column": LOGARITHM_OF_DAYS,
        "missing": MISSING,
        "fields": ["2020-03-01", "2020-01-01 06:00", "2020-01-01"],
        "since": ["2020-02-28", "2020-01-01", "2020-01-05"],
        "features": [_features(LOGARITHM_OF_DAYS, days) for days in ("2.0", "0.25", "-4.0")],
    }
    yield {
        "name": "a duration that counts as a value if one of the two dates is empty",
        "column": IMPUTED_DURATION,
        "missing": MISSING,
        "fields": ["2020-03-01", "", "2020-01-01"],
        "since": ["2020-02-28", "2020-01-01", "NA"],
        "features": [_features(DURATION, days) for days in ("2.0", "3.0", "3.0")],
    }
    yield {
        "name": "a duration, empty if one of the two dates is one of its own texts for an empty field",
        "column": {**DURATION, "missing": ["1900-01-01"]},
        "missing": MISSING,
        "fields": ["1900-01-01", "2020-01-01", "2020-03-01"],
        "since": ["2020-01-01", "1900-01-01", "2020-02-28"],
        "features": [[0.0], [0.0], _features(DURATION, "2.0")],
    }


def _features(column: dict[str, Any], field: str) -> list[float]:
    """Return the features of one field, as docs/protocol.md says."""
    kind = column["kind"]
    if kind == "numeric":
        x = column["impute"] if field in MISSING else float(field)
        low, high = column["low"], column["high"]
        return [(min(max(x, low), high) - low) / (high - low) * 2 - 1]
    if kind == "categorical":
        return [float(level == field) for level in column["levels"]]
    missing = [*MISSING, *column.get("missing", ())]
    is_empty = field in missing and field not in column.get("levels", ())
    width = len(column["levels"]) if kind == "levels" else 1
    if is_empty and "impute" in column:
        features = _value_features(column, str(column["impute"]))
    else:
        features = [0.0] * width if is_empty else _value_features(column, field)
    share = column["missing_share"]
    return features if share is None else [*features, is_empty - share]


def _value_features(column: dict[str, Any], field: str) -> list[float]:
    if column["kind"] == "ordinal":
        return [2 * column["levels"].index(field) / (len(column["levels"]) - 1) - 1 - column["centre"]]
    if column["kind"] == "levels":
        if field not in column["levels"]:
            field = column["other"]
        pairs = zip(column["levels"], column["shares"], strict=True)
        return [column["weight"] * ((level == field) - share) for level, share in pairs]
    x = float(field)
    if column["kind"] == "range":
        numbers = min(max(x, column["low"]), column["high"]), column["centre"], column["low"], column["high"]
        inside, centre, low, high = map(math.log, numbers) if "scale" in column else numbers
        return [2 * (inside - centre) / (high - low)]
    return [_rank(column["quantiles"], x)]


def _rank(q: Sequence[float], x: float) -> float:
    x = min(max(x, q[0]), q[-1])
    below, up_to = sum(one < x for one in q), sum(one <= x for one in q)
    if up_to > below:
        position = (below + up_to - 1) / 2
    else:
        position = below - 1 + (x - q[below - 1]) / (q[below] - q[below - 1])
    return 2 * position / (len(q) - 1) - 1
