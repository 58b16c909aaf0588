from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.anchor_terms import AnchorTerms
from protocol.arrays import Layout, StreamReader
from protocol.chunk_checks import (
    begun_row_bytes,
    check_chunk,
    require_short,
    row_begun_in,
)
from protocol.errors import MalformedMessageError, NotFiniteError
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.messages import PrivacyRecord
from protocol.row_bounds import ROUNDING, STRETCH, RowBounds, RowTooLongError, longest_row
from protocol.table_schema import Schema
from tests.harness.world import HOSPITAL, make_terms, make_uplink
from user_client.tables import encode_rows

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "encoded.json").read_text())
LABEL = {"name": "y", "classes": ["no", "yes"]}
PLAIN = PrivacyRecord()


def schema_of(*columns: dict[str, Any], missing: tuple[str, ...] = ("",)) -> Schema:
    content = {"columns": columns, "label_column": LABEL, "missing": missing}
    return Schema.model_validate(content, strict=False)


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_no_encoded_row_is_longer_than_its_schema_allows(case: dict[str, Any]) -> None:
    lengths = np.linalg.norm(np.asarray(case["features"], np.float64), axis=1)
    assert lengths.max() <= longest_row(schema_of(case["column"], missing=case["missing"])) * (1 + 1e-12)


def column(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "name": "x", **fields}


LONGEST: list[tuple[dict[str, Any], list[str | None]]] = [
    (column("numeric", low=0, high=4), ["0", "1"]),
    (column("categorical", levels=["a", "b"]), ["a", "b"]),
    (column("ranks", quantiles=[0, 1, 4], empty="centre", missing_share=0.25), ["4", None]),
    (column("ranks", quantiles=[0, 1, 4], empty="centre", missing_share=0.0), [None, "1", "4"]),
    (column("range", low=0, high=4, centre=0.5), ["0", "4"]),
    (column("range", low=0, high=4, centre=4), ["0", "4"]),
    (column("levels", levels=["a", "b", "c"], shares=[0.6, 0.3, 0.1], weight=0.5), ["a", "b", "c"]),
    (column("ordinal", levels=["a", "b", "c"], centre=-0.5), ["a", "c"]),
]


@pytest.mark.parametrize(("kind", "fields"), LONGEST, ids=[kind["kind"] for kind, _ in LONGEST])
def test_some_row_is_as_long_as_its_schema_allows(kind: dict[str, Any], fields: list[str | None]) -> None:
    schema = schema_of(kind)
    rows = encode_rows(pa.table({"x": pa.array(fields, pa.string())}), schema)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(longest_row(schema), rel=1e-12)


def test_columns_add_up_as_squares() -> None:
    numbers = [{**column("numeric", low=0, high=4), "name": f"x{index}"} for index in range(9)]
    assert longest_row(schema_of(*numbers)) == 3


def rep_bound(**stated: Any) -> float:
    return RowBounds.of(make_terms(), HOSPITAL, PrivacyRecord(**stated)).largest["rep"] / (1 + ROUNDING)


def test_declared_noise_lengthens_what_a_row_may_be() -> None:
    sigma = gaussian_sigma(1, 1e-5, sensitivity=2)
    noisy = 1 + sigma * (2 + STRETCH)
    assert rep_bound() == pytest.approx(2)
    assert rep_bound(dither=0.5) == pytest.approx(2 * (1 + 0.5 * (1 + STRETCH)))
    assert rep_bound(epsilon=1, delta=1e-5, clip=1) == pytest.approx(noisy)
    assert rep_bound(epsilon=1, delta=1e-5, clip=1, dither=1) == pytest.approx(noisy * (2 + STRETCH))
    assert rep_bound(epsilon=50, delta=0.5, clip=1e6) > 2


def test_noise_that_no_number_can_hold_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="noise"):
        rep_bound(epsilon=1, delta=0.5, clip=1e308)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-9, 1e308])
@pytest.mark.parametrize("delta", [5e-324, 1 - 2**-53])
@pytest.mark.parametrize("clip", [5e-324, 8e307])
def test_whatever_noise_is_stated_has_a_bound(epsilon: float, delta: float, clip: float) -> None:
    assert rep_bound(epsilon=epsilon, delta=delta, clip=clip) > 0


@pytest.mark.parametrize(
    ("kind", "longest"), [("haar", 1), ("uniform", 2), ("gaussian", 2 + STRETCH), ("public", 2)]
)
def test_the_rows_of_an_anchor_are_as_long_as_its_kind(kind: Any, longest: float) -> None:
    bounds = RowBounds.of(make_terms(anchor=AnchorTerms(kind=kind, rows=4)), HOSPITAL, PLAIN)
    assert bounds.largest["anchor_rep"] == pytest.approx((1 + ROUNDING) * longest)


def test_of_8_bit_integers_the_scales_are_bounded() -> None:
    bounds = RowBounds.of(make_terms(rep_dtype="i1"), HOSPITAL, PLAIN)
    assert set(bounds.largest) == {"rep_scale", "anchor_rep_scale"}
    assert bounds.largest["rep_scale"] == pytest.approx((1 + ROUNDING) * 2 / 127)


def checked(
    rep: np.ndarray[Any, Any], *, rep_dtype: Any, latent_dim: int, bound: float, piece: int = 10_000
) -> None:
    """Read the stream of some rows, and check every chunk with what earlier ones had of its first row."""
    terms = make_terms(
        latent_dim=latent_dim,
        rep_dtype=rep_dtype,
        table_schema=schema_of(
            *({**column("numeric", low=0, high=1), "name": f"x{i}"} for i in range(latent_dim))
        ),
        anchor=AnchorTerms(kind="haar", rows=latent_dim),
    )
    uplink = make_uplink(terms, HOSPITAL, rows=len(rep), arrays={"rep": rep.astype("<" + rep_dtype)})
    layout = Layout(uplink.manifest.arrays, uplink.manifest.chunk_bytes)
    reader, stored, stream = StreamReader(layout), b"", uplink.stream
    begun_row, array = b"", 0
    for start in range(0, len(stream), piece):
        for chunk in reader.feed(stream[start : start + piece]):
            begun = begun_row_bytes(layout, chunk)
            head = stored[chunk.slot.payload_offset - begun : chunk.slot.payload_offset] if begun else b""
            assert begun_row == head or chunk.slot.array != array
            begun_row, array = row_begun_in(layout, chunk, head), chunk.slot.array
            check_chunk(layout, chunk, None, RowBounds(HOSPITAL, {"rep": bound}), head)
            stored += bytes(chunk.data)


@pytest.mark.parametrize("rep_dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("row", [0, 1, 400, 1638, 1639, 1999])
def test_a_long_row_is_found_wherever_chunks_end(rep_dtype: str, row: int) -> None:
    """Chunks of 65536 bytes end inside rows of 100, 200 or 400 bytes."""
    rep = np.zeros((2000, 50))
    rep[:, 0] = 1
    rep[row] = 0.2
    checked(rep, rep_dtype=rep_dtype, latent_dim=50, bound=1.5)
    with pytest.raises(RowTooLongError) as caught:
        checked(rep, rep_dtype=rep_dtype, latent_dim=50, bound=1.2)
    assert caught.value.context == {"party": HOSPITAL, "array": "rep", "row": row}
    assert "0.2" not in caught.value.detail


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 30, 49])
@pytest.mark.parametrize("row", [0, 327, 1999])
def test_what_is_not_finite_is_found_in_every_part_of_a_row(row: int, column: int, value: float) -> None:
    """The first chunk of 65536 bytes ends after 34 numbers of row 327."""
    rep = np.zeros((2000, 50))
    rep[row, column] = value
    with pytest.raises(NotFiniteError) as caught:
        checked(rep, rep_dtype="f4", latent_dim=50, bound=1.0)
    assert caught.value.context == {"array": "rep", "row": row}


@pytest.mark.parametrize("value", [3e38, 1e4])
def test_a_wild_row_is_found_without_a_warning(value: float) -> None:
    rep = np.zeros((4, 2))
    rep[2] = value
    with pytest.raises(RowTooLongError, match="row 2"):
        checked(rep, rep_dtype="f4", latent_dim=2, bound=math.sqrt(2))


def test_a_row_longer_than_doubles_is_too_long() -> None:
    rep = np.full((1, 2), 1e308)
    with pytest.raises(RowTooLongError):
        checked(rep, rep_dtype="f8", latent_dim=2, bound=1e300)


@pytest.mark.parametrize("latent_dim", [1, 7, 50])
@pytest.mark.parametrize("ulps", [-1, 0, 1])
def test_single_precision_decides_nothing_that_it_could_get_wrong(latent_dim: int, ulps: int) -> None:
    """The bound lies one step of double precision beside the exact length."""
    rows = np.random.default_rng(latent_dim).uniform(0.1, 1, (100, latent_dim)).astype("<f4")
    exact = float(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)).max())
    bound = exact if ulps == 0 else float(np.nextafter(exact, exact + ulps))
    if ulps < 0:
        with pytest.raises(RowTooLongError):
            require_short(rows, bound, HOSPITAL, "rep")
    else:
        require_short(rows, bound, HOSPITAL, "rep")


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_single_precision_cannot_square_is_too_long(value: float) -> None:
    rows = np.array([[0, 1], [value, value]], "<f4")
    with pytest.raises(RowTooLongError, match="row 1"):
        require_short(rows, 1e20 if value == 3e38 else 1e200, HOSPITAL, "rep")


def test_rows_too_small_for_squares_in_single_precision_are_compared() -> None:
    rows = np.full((1, 4), 1e-24, "<f4")
    with pytest.raises(RowTooLongError):
        require_short(rows, 1e-24, HOSPITAL, "rep")
    require_short(rows, 2.1e-24, HOSPITAL, "rep")
    require_short(rows[:0], 1.0, HOSPITAL, "rep")
