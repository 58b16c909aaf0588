"""A table that is read in parts gives what it gives as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from protocol.arrays import Layout, dequantise
from protocol.messages import UplinkManifest
from protocol.table_schema import Schema
from tests.harness.in_process import Consortium, csv, rows
from user_client.custody.round_directory import BASIS_FILE, MANIFEST_FILE, PAYLOAD_FILE
from user_client.custody.scratch import Scratch
from user_client.errors import EmptyFieldError
from user_client.rows import Matrix64, Rows
from user_client.sdk import PrivacyOptions, check_table, draft_terms, uplink
from user_client.sdk.privacy import Treated, treat
from user_client.tables import encode_labels, encode_rows, encode_table
from user_client.tables.encoded import LOOKED_AT_ROWS

NOISE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "clip": 0.5}


def large(count: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {f"x{k}": np.round(rng.standard_normal(count), 2) for k in range(6)}
    label = np.where(columns["x0"] + 0.5 * rng.standard_normal(count) > 0, "yes", "no")
    return pa.table({**columns, "y": label})


def schema_of(table: pa.Table) -> Schema:
    drafted = draft_terms(table.slice(0, 2000), label="y", parties=["a"], title="t")
    return Schema.model_validate(drafted.content["table_schema"], strict=False)


@pytest.mark.parametrize("kind", ["memory", "csv", "parquet"])
def test_the_parts_of_a_table_are_encoded_as_the_whole(kind: str, tmp_path: Path) -> None:
    table = large(120_000)
    schema, data = schema_of(table), table
    if kind == "csv":
        data = tmp_path / "rows.csv"
        pyarrow.csv.write_csv(table, data)
    elif kind == "parquet":
        data = tmp_path / "rows.parquet"
        pyarrow.parquet.write_table(table, data)
    found = encode_table(data, schema, Scratch(tmp_path, in_memory_bytes=2**20).keep)
    np.testing.assert_array_equal(np.asarray(found.rows), encode_rows(table, schema))
    np.testing.assert_array_equal(found.labels, encode_labels(table, schema))
    small = encode_table(table.slice(0, 50), schema, Scratch(tmp_path).keep)
    assert (len(small.rows), small.some.num_rows) == (50, 50)
    assert LOOKED_AT_ROWS <= found.some.num_rows <= 2 * LOOKED_AT_ROWS
    assert found.digest == encode_table(table, schema, Scratch(tmp_path).keep).digest != small.digest


def test_a_field_of_a_late_part_is_named_by_its_row_in_the_table(tmp_path: Path) -> None:
    table = large(200_000)
    labels = table["y"].to_pylist()
    labels[190_000] = ""
    broken = table.set_column(6, "y", pa.array(labels))
    with pytest.raises(EmptyFieldError, match="column 'y', data row 190001"):
        encode_table(broken, schema_of(table), Scratch(tmp_path).keep)


def test_the_rows_that_are_looked_at_are_kept_in_few_pieces(tmp_path: Path) -> None:
    """Many small pieces all over the heap would keep the memory around each of them from being given back."""
    table = large(120_000)
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather", chunksize=200)  # 600 pieces
    found = encode_table(tmp_path / "rows.feather", schema_of(table), Scratch(tmp_path).keep).some
    assert found["y"].num_chunks < 100


def in_blocks(matrix: Matrix64, directory: Path) -> tuple[Rows, Scratch]:
    scratch = Scratch(directory, in_memory_bytes=0)
    return scratch.keep(np.array_split(matrix, 13), matrix.shape[1]), scratch


@pytest.fixture
def matrix() -> Matrix64:
    return np.random.default_rng(3).uniform(-1, 1, (3000, 8)) * np.linspace(1, 0.1, 8)


@pytest.fixture
def labels(matrix: Matrix64) -> NDArray[np.uint8]:
    return (matrix[:, 6] > 0).astype(np.uint8)


@pytest.fixture
def numbered(matrix: Matrix64) -> NDArray[np.uint16]:
    return np.arange(len(matrix), dtype="<u2")


def by_itself(matrix: Matrix64, directory: Path) -> Iterator[tuple[Rows, Scratch]]:
    yield Rows.of(matrix), Scratch(directory)
    yield in_blocks(matrix, directory)


def test_the_basis_of_rows_on_disk_spans_what_that_of_rows_in_memory_does(
    matrix: Matrix64, labels: NDArray[np.uint8], tmp_path: Path
) -> None:
    one, other = (
        treat(rows, labels, 3, PrivacyOptions(), scratch) for rows, scratch in by_itself(matrix, tmp_path)
    )
    spans = [found.secret_basis @ found.secret_basis.T for found in (one, other)]
    np.testing.assert_allclose(spans[0], spans[1], atol=1e-9)
    np.testing.assert_allclose(one.singular_values, other.singular_values, rtol=1e-9)
    assert one.signal is not None
    assert other.signal is not None
    assert one.signal.kept == pytest.approx(other.signal.kept)
    assert one.signal.auc == pytest.approx(other.signal.auc)


@pytest.mark.parametrize(
    "options",
    [
        PrivacyOptions(),
        PrivacyOptions(permute_rows=True),
        PrivacyOptions(drop_below=0.3),
        PrivacyOptions(**NOISE),
        PrivacyOptions(**NOISE, drop_below=0.3, permute_rows=True, perturb_basis=0.05, dither=0.5),
    ],
    ids=["none", "permuted", "dropped", "noise", "all"],
)
def test_rows_on_disk_keep_their_labels_whatever_is_done_to_them(
    options: PrivacyOptions, matrix: Matrix64, numbered: NDArray[np.uint16], tmp_path: Path
) -> None:
    rows, scratch = in_blocks(matrix, tmp_path)
    treated = treat(rows, numbered, 3, options, scratch)
    np.testing.assert_array_equal(np.asarray(treated.original), matrix[treated.labels])
    np.testing.assert_array_equal(np.sort(treated.labels), np.flatnonzero(treated.leaves))
    assert len(treated.rows) == len(treated.rep) == len(treated.labels)
    if options.drop_below is None:
        np.testing.assert_array_equal(np.sort(treated.labels), numbered)
    if options.permute_rows:
        assert np.abs(np.corrcoef(treated.labels, np.arange(len(treated.labels)))[0, 1]) < 0.1
    projected = np.asarray(treated.rows) @ treated.secret_basis
    if options.dither is None:
        np.testing.assert_allclose(np.asarray(treated.rep), projected, atol=1e-12)
    else:
        noise = np.asarray(treated.rep) - projected
        moments = [part.T @ part / len(part) for part in (noise, projected)]
        np.testing.assert_allclose(moments[0], 0.25 * moments[1], atol=0.05 * np.trace(moments[1]))


def test_noise_is_not_the_same_in_two_blocks(matrix: Matrix64, tmp_path: Path) -> None:
    rows, scratch = in_blocks(np.repeat(matrix[:1], 260, axis=0), tmp_path)
    treated: Treated = treat(rows, np.zeros(260, np.uint8), 3, PrivacyOptions(**NOISE), scratch)
    assert len(np.unique(np.asarray(treated.rows)[:, 0])) == 260


def test_what_is_sent_of_a_large_table_is_its_projection(consortium: Consortium, tmp_path: Path) -> None:
    """More rows than one part has, as 8-bit integers, without dither so that every number can be checked."""
    consortium.until_anchored(rep_dtype="i1")
    count = 70_000
    path = csv(tmp_path / "large.csv", rows(5, count))
    prepared = consortium.hospital_round.prepare(path)
    assert (prepared.rows, prepared.table_rows) == (count, count)
    directory = consortium.directory_of(consortium.hospital)
    manifest, _ = consortium.hospital_round.directory.load_signed(UplinkManifest)
    assert (directory / MANIFEST_FILE).exists()
    layout, payload = Layout(manifest.arrays, 2**20), (directory / PAYLOAD_FILE).read_bytes()
    arrays = {
        spec.name: np.frombuffer(
            payload, np.dtype(spec.dtype), count=int(np.prod(spec.shape)), offset=layout.payload_start(place)
        ).reshape(spec.shape)
        for place, spec in enumerate(manifest.arrays)
    }
    table, terms = pa.csv.read_csv(path), consortium.hospital_round.terms
    encoded = encode_rows(table, terms.table_schema)
    rebuilt = dequantise(arrays["rep"], arrays["rep_scale"])
    expected = encoded @ np.load(directory / BASIS_FILE)
    np.testing.assert_allclose(rebuilt, expected, atol=1.01 * float(arrays["rep_scale"].max()))
    np.testing.assert_array_equal(arrays["labels"], encode_labels(table, terms.table_schema))
    receipt = consortium.hospital_round.contribute()  # the analyst finds every digest right
    assert receipt.party == consortium.hospital_round.terms.parties[1]


@pytest.mark.parametrize(("rep_dtype", "digits"), [("f8", 1e-14), ("f4", 2e-7)])
def test_what_is_sent_of_rows_on_the_disk_has_the_digits_of_the_terms(
    rep_dtype: str, digits: float, consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "Scratch", partial(Scratch, in_memory_bytes=0))
    consortium.until_anchored(rep_dtype=rep_dtype)
    path = csv(tmp_path / "rows.csv", rows(5, 3000))
    consortium.hospital_round.prepare(path)
    directory = consortium.directory_of(consortium.hospital)
    sent = np.fromfile(directory / PAYLOAD_FILE, rep_dtype)
    encoded = encode_rows(pa.csv.read_csv(path), consortium.hospital_round.terms.table_schema)
    expected = encoded @ np.load(directory / BASIS_FILE)
    found = sent[: expected.size].reshape(expected.shape)
    lengths = np.linalg.norm(encoded, axis=1, keepdims=True)
    assert (np.abs(found - expected) / lengths).max() < digits


def test_every_column_that_does_not_fit_is_named_wherever_it_first_fails(
    consortium: Consortium, tmp_path: Path
) -> None:
    consortium.until_anchored()
    terms, columns = consortium.hospital_round.terms, rows(5, 60_000)
    names = [column.name for column in terms.table_schema.columns]
    columns[names[0]][50_000] = ""
    columns[names[1]][3] = "x"
    found = check_table(terms, csv(tmp_path / "large.csv", columns), tmp_path)
    assert found.rows == 60_000
    assert [error.detail.split(":")[0] for error in found.misfits] == [
        f"column '{names[0]}', data row 50001",
        f"column '{names[1]}', data row 4",
    ]
