"""The counts of work, beside what the numeric code multiplies when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import align
from analyst_server.alignment.isotropic import SWEEPS
from analyst_server.alignment.suspicion import MAX_REFERENCES, suspects
from analyst_server.compute.sequence import MOST_TRAINING_BYTES
from analyst_server.services import work
from analyst_server.services.planning import Scenario, plan
from analyst_server.services.work import Size
from protocol.model_terms import AveragedTerms
from user_client.custody.scratch import Scratch
from user_client.rows import Block, Rows
from user_client.sdk.privacy import MEASURED_BYTES, MEASURED_ROWS, PrivacyOptions, treat
from user_client.secret.local_model import FITTED_ROWS
from user_client.secret.network import loss_and_gradients


class Counted(np.ndarray[Any, Any]):
    """An array whose products count their flops."""

    flops = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(each) for each in inputs]
        if ufunc is np.matmul:
            (rows, inner), (_, columns) = (each.shape for each in plain)
            Counted.flops += 2 * rows * inner * columns
        out = options.pop("out", None)
        if out is not None:
            options["out"] = tuple(np.asarray(each) for each in out)
        found = getattr(ufunc, method)(*plain, **options)
        # what is subtracted, as for centring, still counts; what is multiplied is of order l from then on
        return found.view(Counted) if ufunc is np.subtract and found.ndim == 2 else found


class Passed(Counted):
    """The same of an array whose products are multiplied further."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        found = super().__array_ufunc__(ufunc, method, *inputs, **options)
        return found.view(Passed) if isinstance(found, np.ndarray) and found.ndim == 2 else found


def flops_of(act: Callable[[], object]) -> int:
    Counted.flops = 0
    act()
    return Counted.flops


def anchor_reps(size: Size) -> list[Any]:
    """Return A_i of parties whose spans differ."""
    rng = np.random.default_rng(1)
    m = size.features
    if size.anchor_is_isotropic:
        anchor = np.linalg.qr(rng.standard_normal((m, m)))[0]
    else:
        anchor = rng.standard_normal((size.anchor_rows, m))
    shared = rng.standard_normal((m, size.latent_dim))
    found = []
    for _ in range(size.parties):
        near = shared + 0.3 * rng.standard_normal(shared.shape)
        found.append((anchor @ np.linalg.qr(near)[0]).view(Counted))
    return found


SIZES = [
    Size(3, 100, 20, 4, 20),
    Size(12, 100, 30, 6, 30),
    Size(5, 100, 10, 8, 10),
    Size(4, 100, 12, 5, 90, anchor_is_isotropic=False),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_alignment_multiplies_what_is_counted(size: Size) -> None:
    reps = anchor_reps(size)
    isotropic = size.anchor_is_isotropic

    def act() -> None:
        suspects(reps, anchor_is_isotropic=isotropic, row_counts=[size.rows] * size.parties)
        rng = np.random.default_rng(0)
        align("isotropic", reps, anchor_is_isotropic=isotropic, rng=rng)

    assert flops_of(act) == work.align_products(size)


def as_rows(values: Any, kind: type[Counted]) -> Rows:
    counted = np.asarray(values).view(kind)
    return Rows([Block(lambda: counted, len(counted))], counted.shape[1])


def test_an_institution_multiplies_what_is_counted(tmp_path: Path) -> None:
    size = Size(2, 300, 20, 6, 20, classes=3)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((size.rows, size.features))
    labels = rng.integers(0, size.classes, size.rows).astype(np.uint8)

    def treated() -> None:
        rows, options = as_rows(table, Counted), PrivacyOptions(dither=0.3)
        treat(rows, labels, size.latent_dim, options, Scratch(tmp_path))

    # rows to measure are copied out, so that their products do not count here
    of_measured = 2 * size.rows * (size.features + size.latent_dim) ** 2
    assert flops_of(treated) == work.prepare_products(size) - of_measured
    assert work.prepare_products(replace(size, rows=0)) == 0


def test_a_network_multiplies_what_is_counted() -> None:
    model, rows, inputs, outputs = AveragedTerms(hidden_units=7, epochs=3), 40, 5, 4
    rng = np.random.default_rng(0)
    shapes = ((inputs, model.hidden_units), (model.hidden_units, outputs))
    layers = [(rng.standard_normal(shape), np.zeros(shape[1])) for shape in shapes]
    table = rng.standard_normal((rows, inputs)).view(Passed)
    targets = rng.standard_normal((rows, outputs))
    one_epoch = flops_of(lambda: loss_and_gradients(layers, table, targets, 1.0, of_numbers=True))
    assert work.network_products(rows, inputs, outputs, model) == model.epochs * one_epoch


GROWTH = [
    ("parties", work.align_products, 1),
    ("parties", work.align_factors, 1),
    ("latent_dim", work.align_products, 2),
    ("latent_dim", work.align_factors, 3),
    ("anchor_rows", work.align_products, 1),
]
LARGE = Size(100, 10**6, 4096, 512, 4096)


@pytest.mark.parametrize(("symbol", "law", "exponent"), GROWTH)
def test_an_alignment_grows_by_the_stated_exponents(
    symbol: str, law: Callable[[Size], float], exponent: int
) -> None:
    grown = replace(LARGE, **{symbol: 2 * getattr(LARGE, symbol)})
    assert law(grown) / law(LARGE) == 2**exponent


def test_preparing_grows_with_the_rows_and_with_the_square_of_the_features() -> None:
    for symbol, exponent in (("rows", 1), ("features", 2)):
        size = Size(2, 10**8, 2048, 1, 2048)
        grown = replace(size, **{symbol: 2 * getattr(size, symbol)})
        assert work.prepare_products(grown) / work.prepare_products(size) == pytest.approx(
            2**exponent, rel=0.01
        )


def test_training_grows_with_the_rows_until_memory_bounds_them() -> None:
    few = Size(5, 1000, 50, 12, 50)
    assert few.training_rows == 5000
    assert replace(few, rows=10**8).training_rows == MOST_TRAINING_BYTES // (4 * 12)


def test_the_bounds_are_those_of_the_code() -> None:
    assert work.TRAINING_BYTES == MOST_TRAINING_BYTES
    assert work.SWEEPS == SWEEPS
    assert work.REFERENCES == MAX_REFERENCES
    assert work.OWN_MODEL_ROWS == FITTED_ROWS
    assert (work.MEASURED_ROWS, work.MEASURED_BYTES) == (MEASURED_ROWS, MEASURED_BYTES)


@pytest.mark.parametrize("rep_dtype", ["f2", "f4", "f8", "i1"])
def test_an_uplink_has_the_bytes_of_the_plan(rep_dtype: Any) -> None:
    scenario = Scenario(3, 500, 30, 30, 6, 10, rep_dtype=rep_dtype)
    named = {row.what: row.ours_bytes for row in plan(scenario).terms}
    of_rows = named["rows X_i F_i"] + named["anchor A F_i"] + named["labels"]
    assert 3 * Size.of(scenario).uplink_bytes == of_rows
