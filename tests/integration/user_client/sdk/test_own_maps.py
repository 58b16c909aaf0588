"""An institution with a map of its own: what it prepares, keeps, predicts with and erases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analyst_server.services import latecomers
from protocol.errors import InputError
from tests.harness.in_process import COLUMNS, HOSPITAL, Consortium, csv, rows
from user_client.custody.round_directory import BASIS_FILE
from user_client.errors import PolicyError
from user_client.onnx_model.writing import Writer
from user_client.sdk import Policy, PrivacyOptions, Round, check_table
from user_client.sdk.own_map import unpacked
from user_client.words import checked_in_words, summary_in_words

MAPPED: dict[str, Any] = {
    "latent_dim": 3,
    "own_maps": ["kernel-pca", "onnx", "random-features"],
    "alignment": {"method": "kawakami"},
    "anchor": {"kind": "gaussian", "rows": 60},
    "table_schema": {
        "columns": [
            {"kind": "numeric", "name": name, "low": -2, "high": 2, "out_of_range": "clip"}
            for name in COLUMNS
        ],
        "label_column": {"name": "y", "classes": ["no", "yes"]},
    },
}
"""Rows that are about as long as the anchor's."""
RANDOM, KERNEL = PrivacyOptions(own_map="random-features"), PrivacyOptions(own_map="kernel-pca")


def encoder(path: Path, seed: int = 0) -> PrivacyOptions:
    """A network of one layer in a file, 3 features to 12 numbers."""
    rng, graph = np.random.default_rng(seed), Writer(3)
    wide = graph.node("Cast", graph.input, to=11)
    reached = graph.node("MatMul", wide, graph.constant(rng.standard_normal((3, 12))))
    path.write_bytes(graph.file(graph.node("Tanh", reached), 12))
    return PrivacyOptions(own_map=str(path))


def released(consortium: Consortium, options: PrivacyOptions, **changed: Any) -> Round:
    consortium.until_anchored(**{**MAPPED, **changed})
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()
    consortium.hospital_round.prepare(consortium.table(1), options)
    consortium.hospital_round.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    return consortium.hospital_round


def right_share(found: Round, seed: int = 9) -> float:
    fresh = rows(seed, 200)
    return float((np.array(found.predict(pa.table(fresh)).labels) == np.array(fresh["y"])).mean())


@pytest.mark.parametrize("kind", ["random-features", "kernel-pca", "onnx"])
def test_it_predicts_exports_and_explains_with_its_map(
    consortium: Consortium, tmp_path: Path, kind: str
) -> None:
    options = encoder(tmp_path / "own.onnx") if kind == "onnx" else PrivacyOptions(own_map=kind)
    found = released(consortium, options)
    (tmp_path / "own.onnx").unlink(missing_ok=True)  # what is needed of it is in the state directory
    assert right_share(found) > 0.9
    assert found.export().largest_difference < 1e-5
    assert {column.name for column in found.explain(pa.table(rows(3))).columns} == {"x0", "x1", "x2"}
    consortium.lead_round.receive()
    assert right_share(consortium.lead_round) > 0.9


def test_what_is_right_for_linear_maps_alone_is_refused(consortium: Consortium) -> None:
    found = released(consortium, RANDOM)
    with pytest.raises(InputError, match="coefficients are of linear maps of the columns"):
        found.coefficients(pa.table(rows(1)))
    with pytest.raises(InputError, match="a picture shows linear maps"):
        found.draw_picture(consortium.table(1), (1, 3))


def test_basis_and_map_are_one_secret_and_are_erased_as_one(consortium: Consortium) -> None:
    found = released(consortium, RANDOM)
    path = consortium.directory_of(consortium.hospital) / BASIS_FILE
    basis, file = unpacked(path.read_bytes())
    assert basis.shape == (256, 3)
    assert file is not None
    assert path in set(consortium.hospital.home.secrets())
    (path.parent / "my-copy").write_bytes(path.read_bytes())
    found.forget(confirmed=True)
    assert not path.exists()
    assert "my-copy" in found.examine().held


def test_what_leaves_has_the_same_shape_and_says_nothing_of_the_map(consortium: Consortium) -> None:
    consortium.until_anchored(**MAPPED)
    linear = consortium.hospital_round.prepare(consortium.table(1))
    mapped = consortium.hospital_round.prepare(consortium.table(1), RANDOM)
    assert linear.arrays == mapped.arrays
    assert linear.privacy == mapped.privacy
    text = summary_in_words(mapped)
    assert "a map of our own comes before the basis (random-features)" in text
    assert "they can learn from the anchor's rows to rebuild others" in text
    assert "a map of our own" not in summary_in_words(linear)


def test_the_same_map_is_prepared_once_and_another_anew(consortium: Consortium, tmp_path: Path) -> None:
    consortium.until_anchored(**MAPPED)
    table, options = consortium.table(1), encoder(tmp_path / "own.onnx")
    path = consortium.directory_of(consortium.hospital) / BASIS_FILE
    consortium.hospital_round.prepare(table, options)
    first = path.read_bytes()
    consortium.hospital_round.prepare(table, options)
    assert path.read_bytes() == first
    encoder(tmp_path / "own.onnx", seed=1)  # another map under the same name
    consortium.hospital_round.prepare(table, options)
    second = unpacked(path.read_bytes())[1]
    assert second != unpacked(first)[1]
    consortium.hospital_round.prepare(table)
    assert unpacked(path.read_bytes())[1] is None, "the last one is linear, and no map is left of others"


@pytest.mark.parametrize("limit", [{"max_exact_rows": 0.5}, {"min_hidden_bits": 0.5}])
def test_a_limit_that_nothing_measures_keeps_the_rows_here(
    consortium: Consortium, limit: dict[str, float]
) -> None:
    consortium.until_anchored(**MAPPED)
    Policy(**limit).store(consortium.hospital.home)
    consortium.hospital_round.prepare(consortium.table(1), RANDOM)
    with pytest.raises(PolicyError, match="is measured of linear maps alone: leave out --own-map"):
        consortium.hospital_round.contribute()


def test_terms_that_allow_maps_are_checked_for_a_linear_one_and_say_so(consortium: Consortium) -> None:
    consortium.until_anchored(**MAPPED)
    terms = consortium.hospital_round.fetch_terms(keep=False)
    found = check_table(terms, pa.table(rows(1)))
    assert "what is said here is of a linear one" in checked_in_words(terms, found)


def test_a_consumer_without_rows_has_a_linear_map(consortium: Consortium) -> None:
    consortium.until_anchored(**MAPPED)
    nothing = csv(consortium.directory / "none.csv", {name: [] for name in rows(0)})
    with pytest.raises(InputError, match="an own map needs rows"):
        consortium.hospital_round.prepare(nothing, KERNEL)
    assert consortium.hospital_round.prepare(nothing).rows == 0


def test_a_late_consumer_with_a_table_may_have_a_map(consortium: Consortium) -> None:
    consortium.until_anchored(late_consumers=[HOSPITAL], **MAPPED)
    consortium.lead_round.prepare(consortium.table(0), RANDOM)
    consortium.lead_round.contribute()
    consortium.compute()
    prepared = consortium.hospital_round.prepare(consortium.table(5), KERNEL)
    assert (prepared.rows, prepared.collusion_error) == (0, None)
    consortium.hospital_round.contribute()
    uplink = latecomers.claim(consortium.analyst, "worker", 10)
    assert uplink is not None
    latecomers.compute(consortium.analyst, uplink, "worker")
    consortium.hospital_round.receive()
    assert right_share(consortium.hospital_round) > 0.9


def test_the_report_says_what_its_figures_mean(consortium: Consortium) -> None:
    released(consortium, RANDOM)
    told: Any = consortium.hospital_round.report()
    assert told["own_maps"] == MAPPED["own_maps"]
