"""The cases of numbers.json (numbers at the edges of what a type holds, and tables) and of bases.json."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.vectors.columns import ORDINAL
from tests.vectors.examples import CATEGORICAL, LEVELS, NUMERIC, RANGE, RANKS, SEED, TERMS, Case
from tests.vectors.keys import gaussian_anchor, haar_anchor

HALVES = [0.0, -0.0, 1.0, -2.0, 65504.0, 65519.99, 2**-14, 2**-24, 2**-25, 2**-25 * 1.0001, 2**-14 * 0.9999,
          1 + 2**-11, 1 + 3 * 2**-11, 0.1, 1 / 3, -1e-3, 2049.0, 2051.0, 1.5 * 2**-24]  # fmt: skip
SINGLES = [0.1, 1 / 3, 1 + 2**-24, 1 + 3 * 2**-24, 2**-149, 2**-150, 3.4028234663852886e38, -0.0]


def rounded() -> Iterator[Case]:
    """Numbers and their bytes: to the nearest, ties to even."""
    for dtype, form, values in (("f2", "<e", HALVES), ("f4", "<f", SINGLES), ("f8", "<d", [0.1, -0.0])):
        data = b"".join(struct.pack(form, value) for value in values)
        yield {"dtype": dtype, "values": values, "hex": data.hex()}


def tables() -> Iterator[Case]:
    """Tables as texts of CSV files with a header, the matrix and the labels of each, or what refuses it."""
    schema = TERMS["table_schema"]
    matrix = [[-0.5, 0.0, 1.0], [1.0, 1.0, 0.0], [-1 / 3, 0.0, 1.0]]
    lines = ["age,site,readmitted", "30,south,no", "150,north,yes", ",south,yes"]

    def case(name: str, text: str, verdict: str, **made: Any) -> Case:
        return {"name": name, "schema": schema, "text": text, "verdict": verdict, **made}

    good: dict[str, Any] = {"matrix": matrix, "labels": [0, 1, 1], "dtype": "u1"}
    text = "\n".join(lines) + "\n"
    yield case("the table of the example", text, "valid", **good)
    yield case("lines that end in CR LF", text.replace("\n", "\r\n"), "valid", **good)
    yield case("no line feed at the end", text[:-1], "valid", **good)
    yield case("a byte order mark", "\ufeff" + text, "valid", **good)
    yield case("fields in quotes", text.replace("south", '"south"'), "valid", **good)
    turned = "\n".join(",".join(reversed(line.split(","))) for line in lines) + "\n"
    yield case("columns in another order", turned, "valid", **good)
    wider = "\n".join(f"{line},{extra}" for line, extra in zip(lines, "zabc", strict=True)) + "\n"
    yield case("a column that nobody asked for", wider, "valid", **good)
    for name, header in (("a blank before", " site"), ("a blank behind", "site "), ("capitals in", "Site")):
        yield case(f"{name} the name of a column", text.replace("site", header), "input-error")
    blank = {**schema, "columns": [NUMERIC, {**CATEGORICAL, "name": "the site"}]}
    yield {**case("a blank inside the name of a column", text.replace("site", "the site"), "valid", **good),
           "schema": blank}  # fmt: skip
    yield case("a missing text", text.replace("\n,", "\nNA,"), "valid", **good)
    yield case("a column is missing", text.replace("site", "place"), "input-error")
    yield case("the label is missing", text.replace("readmitted", "back"), "input-error")
    yield case("a level that there is not", text.replace("north", "west"), "input-error")
    yield case("a class that there is not", text.replace("yes", "maybe"), "input-error")
    yield case("an empty label", text.replace("yes", ""), "input-error")
    yield case("an empty field that is refused", text.replace("north", ""), "input-error")
    yield case("a text where a number belongs", text.replace("30", "thirty"), "input-error")
    strict = {**schema, "columns": [{**NUMERIC, "out_of_range": "refuse"}, CATEGORICAL]}
    yield {**case("a number out of a range that refuses", text, "input-error"), "schema": strict}
    columns = [NUMERIC, CATEGORICAL, RANKS, RANGE, LEVELS, ORDINAL]
    yield {
        "name": "the sums of squares of rows",
        "columns": columns,
        "longest": math.sqrt(1 + 1 + 1 + 1.25**2 + _levels() + 1.25**2),
    }


def _levels() -> float:
    """The largest sum of squares of the levels of the example, with its share of empty fields."""
    shares, weight, empty = LEVELS["shares"], LEVELS["weight"], LEVELS["missing_share"]
    largest = max(weight**2 * (1 - 2 * share + sum(each**2 for each in shares)) for share in shares)
    return float(max(largest + empty**2, (1 - empty) ** 2))


def bases() -> Iterator[Case]:
    """Rows and their leading right singular vectors: F F^T, which no sign and no rotation changes."""
    for rows, features, latent in ((40, 4, 2), (6, 5, 3), (3, 3, 3)):
        matrix = gaussian_anchor(SEED, rows, features) * np.arange(1, features + 1)
        _, values, turned = np.linalg.svd(matrix, full_matrices=False)
        leading = turned[:latent].T
        turn = haar_anchor(SEED, latent)
        basis = leading @ turn
        yield {
            "rows": matrix.round(12).tolist(),
            "latent_dim": latent,
            "singular_values": values.tolist(),
            "projector": (leading @ leading.T).tolist(),
            "seed": SEED.hex(),
            "basis": basis.tolist(),
            "rep": (matrix @ basis).tolist(),
            "anchor_rep": (haar_anchor(SEED, features) @ basis).tolist(),
        }


def numbers() -> dict[str, Any]:
    """The content of numbers.json."""
    return {"rounded": [*rounded()], "tables": [*tables()]}
