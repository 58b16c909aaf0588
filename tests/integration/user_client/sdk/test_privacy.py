from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.envelope import decode_stored
from protocol.errors import DifferentUplinkError, InputError
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.messages import PrivacyRecord, UplinkManifest
from tests.harness.in_process import Consortium, csv, rows
from user_client.custody.keystream import KeyStream
from user_client.custody.round_directory import BASIS_FILE, MANIFEST_FILE, PAYLOAD_FILE
from user_client.custody.scratch import Scratch
from user_client.errors import NotPreparedError
from user_client.privacy.noise import clip_rows
from user_client.privacy.reduction import hidden_share
from user_client.rows import Rows
from user_client.sdk import PrivacyOptions
from user_client.sdk import privacy as desk
from user_client.sdk.privacy import Treated, dithered, non_readily_identifiable

NOISE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "clip": 0.5}
ALL = PrivacyOptions(**NOISE, drop_below=0.01, permute_rows=True, perturb_basis=0.05)


def data(seed: int, count: int = 60, features: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Rows that all differ, and labels that number them."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (count, features)) * np.linspace(1, 0.1, features)
    return matrix, np.arange(count).astype("<u1")


def treat(matrix: np.ndarray, labels: np.ndarray, latent_dim: int, options: PrivacyOptions) -> Treated:
    return desk.treat(Rows.of(matrix), labels, latent_dim, options, Scratch(Path()))


# the options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 1.0}, "epsilon, delta and clip go together"),
        ({"epsilon": 1.0, "clip": 1.0}, "epsilon, delta and clip go together"),
        ({**NOISE, "epsilon": 0.0}, "epsilon: input should be greater than 0"),
        ({**NOISE, "epsilon": float("nan")}, "epsilon"),
        ({**NOISE, "clip": float("inf")}, "clip"),
        ({**NOISE, "delta": 1.0}, "delta: input should be less than 1"),
        ({"drop_below": 30.0}, "drop_below: input should be less than or equal to 1"),
        ({"perturb_basis": -0.1}, "perturb_basis: input should be greater than 0"),
    ],
)
def test_options_out_of_range_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PrivacyOptions(**given)


def test_the_noise_is_for_rows_two_clipping_lengths_apart() -> None:
    assert PrivacyOptions(**NOISE).sigma == gaussian_sigma(2.0, 1e-5, sensitivity=1.0)
    assert PrivacyOptions(drop_below=0.3).sigma is None


def test_non_readily_identifiable_rows_are_permuted_and_their_basis_is_perturbed() -> None:
    found = non_readily_identifiable(PrivacyOptions(**NOISE))
    assert found == PrivacyOptions(**NOISE, permute_rows=True, perturb_basis=0.05)
    assert non_readily_identifiable(PrivacyOptions(perturb_basis=0.2)).perturb_basis == 0.2


# what is done to the rows


def test_without_options_the_rows_are_as_they_are() -> None:
    matrix, labels = data(0)
    treated = treat(matrix, labels, 3, PrivacyOptions())
    np.testing.assert_array_equal(treated.rows, matrix)
    np.testing.assert_array_equal(treated.labels, labels)


def test_what_was_done_shows_no_row_in_its_repr() -> None:
    assert "array" not in repr(treat(*data(0), 3, ALL))


def test_the_noise_is_on_clipped_rows() -> None:
    matrix, labels = data(0, count=250)
    matrix *= 100  # so that rows that were not clipped would be seen
    sigma = gaussian_sigma(2.0, 1e-5, sensitivity=2 * 0.5)
    treated = treat(matrix, labels, 6, PrivacyOptions(**NOISE))
    drawn = (np.asarray(treated.rows) - clip_rows(matrix, 0.5)) / sigma
    spread = np.sqrt(2 / drawn.size)
    assert np.square(drawn).mean() == pytest.approx(1, abs=5 * spread)
    assert drawn.mean() == pytest.approx(0, abs=5 / np.sqrt(drawn.size))


class Repeatable:
    """Key streams that come again, one for each purpose."""

    @staticmethod
    def fresh(purpose: str) -> KeyStream:
        return KeyStream(bytes(32), purpose)


@pytest.fixture
def same_noisy_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rows are, with their noise they come out the same."""
    fixed = np.random.default_rng(7).standard_normal((60, 6))
    monkeypatch.setattr(desk, "KeyStream", Repeatable)
    monkeypatch.setattr(desk, "add_noise", lambda *_: fixed)


@pytest.mark.usefixtures("same_noisy_rows")
@pytest.mark.parametrize("perturb_basis", [None, 0.05])
def test_what_leaves_depends_on_the_noisy_rows_alone(perturb_basis: float | None) -> None:
    """Else the stated epsilon would not be true: the basis, and which rows are left out, tell as well."""
    options = replace(ALL, drop_below=0.5, perturb_basis=perturb_basis)
    one, other = (treat(data(seed)[0], data(0)[1], 3, options) for seed in (1, 2))
    assert 0 < len(one.rows) < 60
    assert not np.array_equal(one.original, other.original)
    for name in ("rows", "labels", "secret_basis"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_dither_is_on_what_leaves_and_comes_anew_every_time() -> None:
    matrix, labels = data(0, count=2000)
    one, other = (treat(matrix, labels, 3, PrivacyOptions(dither=0.5)) for _ in range(2))
    np.testing.assert_array_equal(one.rows, matrix)
    clean = matrix @ one.secret_basis
    noise = np.asarray(one.rep) - clean
    np.testing.assert_allclose(noise.T @ noise, 0.25 * clean.T @ clean, atol=0.1 * np.trace(clean.T @ clean))
    rebuilt = [np.asarray(treated.rep) @ treated.secret_basis.T for treated in (one, other)]
    assert np.abs(rebuilt[0] - rebuilt[1]).max() > 0.1


def test_the_dither_of_the_terms_is_the_least() -> None:
    assert dithered(PrivacyOptions(), 0.5).dither == 0.5
    assert dithered(PrivacyOptions(), 0.0).dither is None
    assert dithered(PrivacyOptions(dither=0.75), 0.5).dither == 0.75
    with pytest.raises(InputError, match=r"a dither of at least 0\.5, got 0\.25") as caught:
        dithered(PrivacyOptions(dither=0.25), 0.5)
    assert "--dither" in caught.value.hint


def test_an_uplink_under_terms_with_dither_says_so_and_has_it(consortium: Consortium) -> None:
    consortium.until_anchored(dither=0.5)
    prepared = ready(consortium, PrivacyOptions())
    assert manifest_of(consortium).privacy == PrivacyRecord(dither=0.5)
    assert prepared.collusion_error is not None
    assert prepared.hidden_share is not None
    assert prepared.collusion_error.median > prepared.hidden_share.median
    consortium.hospital_round.contribute()


def test_rows_that_keep_too_little_hidden_stay_with_their_labels() -> None:
    matrix, labels = data(0)
    treated = treat(matrix, labels, 3, PrivacyOptions(drop_below=0.2))
    shares = hidden_share(matrix, treated.secret_basis)
    assert 0 < (shares < 0.2).sum() < 60
    np.testing.assert_array_equal(treated.labels, labels[shares >= 0.2])
    np.testing.assert_array_equal(treated.rows, matrix[treated.labels])
    assert hidden_share(np.asarray(treated.rows), treated.secret_basis).min() >= 0.2


def test_options_that_leave_no_row_are_refused() -> None:
    with pytest.raises(InputError, match=r"of no row the projection drops 99\.0%") as caught:
        treat(*data(0), 5, PrivacyOptions(drop_below=0.99))
    assert "--drop-below" in caught.value.hint


def test_permuted_rows_keep_their_labels_in_another_order_each_time() -> None:
    matrix, labels = data(0)
    one, other = (treat(matrix, labels, 3, PrivacyOptions(permute_rows=True)) for _ in range(2))
    for treated in (one, other):
        np.testing.assert_array_equal(treated.rows, matrix[treated.labels])
        np.testing.assert_array_equal(np.sort(treated.labels), labels)
    assert not np.array_equal(one.labels, other.labels)
    assert not np.array_equal(one.labels, labels)


def test_a_perturbed_basis_cannot_be_drawn_again_from_the_rows() -> None:
    matrix, labels = data(0)
    options = PrivacyOptions(perturb_basis=0.3)
    one, other, plain = (
        treat(matrix, labels, 3, given).secret_basis for given in (options, options, PrivacyOptions())
    )
    spans = [basis @ basis.T for basis in (one, other, plain)]
    assert min(np.abs(a - b).max() for a, b in [(spans[0], spans[1]), (spans[0], spans[2])]) > 1e-3
    np.testing.assert_array_equal(treat(matrix, labels, 3, options).rows, matrix)  # the rows are not


@pytest.mark.parametrize("options", [PrivacyOptions(), ALL], ids=["none", "all"])
def test_a_table_without_rows_needs_no_treatment(options: PrivacyOptions) -> None:
    treated = treat(np.empty((0, 6)), np.empty(0, "<u1"), 3, options)
    assert treated.rows.shape == (0, 6)
    np.testing.assert_allclose(treated.secret_basis.T @ treated.secret_basis, np.eye(3), atol=1e-12)


# what is prepared


def manifest_of(consortium: Consortium) -> UplinkManifest:
    stored = consortium.directory_of(consortium.hospital) / MANIFEST_FILE
    return decode_stored(UplinkManifest, stored.read_bytes())


def ready(consortium: Consortium, options: PrivacyOptions, **more: Any) -> Any:
    return consortium.hospital_round.prepare(consortium.table(1), options, **more)


def test_the_signed_manifest_says_what_was_done_and_not_how_many_rows_stayed(consortium: Consortium) -> None:
    consortium.until_anchored(latent_dim=2)
    found = ready(consortium, ALL)
    manifest = manifest_of(consortium)
    assert manifest.privacy == PrivacyRecord(**NOISE, drop_below=0.01, permute_rows=True, perturb_basis=0.05)
    assert manifest.rep.shape[0] == manifest.labels.shape[0] == found.rows
    assert found.table_rows == 40
    assert found.privacy == manifest.privacy
    assert "40" not in repr(manifest.privacy)


def test_without_options_the_manifest_says_nothing_was_done(consortium: Consortium) -> None:
    consortium.until_anchored()
    assert ready(consortium, PrivacyOptions()).table_rows == 40
    assert manifest_of(consortium).privacy == PrivacyRecord()


def test_what_leaves_with_noise_is_the_noisy_row_projected(consortium: Consortium) -> None:
    """With a full basis nothing else is lost, so the noise can be read off what would leave."""
    consortium.until_anchored(rep_dtype="f8")
    options = PrivacyOptions(**NOISE)
    table = csv(consortium.directory / "many.csv", rows(1, 1000))
    found = consortium.hospital_round.prepare(table, options)
    directory = consortium.directory_of(consortium.hospital)
    rep = np.frombuffer((directory / PAYLOAD_FILE).read_bytes(), "<f8", 3000).reshape(1000, 3)
    plain = np.stack([rows(1, 1000)[name] for name in ("x0", "x1", "x2")], axis=1) / 4
    drawn = rep @ np.load(directory / BASIS_FILE).T - clip_rows(plain, 0.5)
    assert found.noise_sigma == options.sigma
    assert drawn.std() == pytest.approx(options.sigma, rel=0.1)  # six standard errors


def test_the_same_options_keep_what_is_prepared(consortium: Consortium) -> None:
    consortium.until_anchored(latent_dim=2)
    first = ready(consortium, ALL, threshold=0.3)
    before = (consortium.directory_of(consortium.hospital) / PAYLOAD_FILE).read_bytes()
    for again in (ready(consortium, ALL, threshold=0.3), ready(consortium, ALL)):
        assert again == first
    assert (consortium.directory_of(consortium.hospital) / PAYLOAD_FILE).read_bytes() == before
    assert consortium.hospital_round.prepared == first


@pytest.mark.parametrize("changed", ["options", "threshold"])
def test_other_options_draw_anew(consortium: Consortium, changed: str) -> None:
    consortium.until_anchored(latent_dim=2)
    ready(consortium, PrivacyOptions())
    before = (consortium.directory_of(consortium.hospital) / BASIS_FILE).read_bytes()
    if changed == "options":
        ready(consortium, PrivacyOptions(permute_rows=True))
    else:
        assert ready(consortium, PrivacyOptions(), threshold=0.2).threshold.threshold == 0.2
    assert (consortium.directory_of(consortium.hospital) / BASIS_FILE).read_bytes() != before


def test_other_options_after_the_uplink_was_accepted_are_refused(consortium: Consortium) -> None:
    consortium.until_anchored()
    ready(consortium, ALL_BUT_DROPPING)
    consortium.hospital_round.contribute()
    basis = consortium.directory_of(consortium.hospital) / BASIS_FILE
    before = basis.read_bytes()
    with pytest.raises(DifferentUplinkError):
        ready(consortium, PrivacyOptions())
    ready(consortium, ALL_BUT_DROPPING, threshold=0.5)  # another question changes nothing that left
    assert basis.read_bytes() == before


ALL_BUT_DROPPING = PrivacyOptions(**NOISE, permute_rows=True, perturb_basis=0.05)


def test_the_risk_is_measured_on_what_leaves(consortium: Consortium) -> None:
    consortium.until_anchored(latent_dim=2, rep_dtype="f8")
    found = ready(consortium, PrivacyOptions(drop_below=0.1), threshold=0.1)
    assert 0 < found.rows < found.table_rows == 40
    assert found.hidden_share.minimum >= 0.1
    assert found.threshold.rows_below == 0
    assert found.collusion_error is None
    plain = np.stack([rows(1)[name] for name in ("x0", "x1", "x2")], axis=1) / 4
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(plain, compute_uv=False), rtol=1e-6)


def test_with_noise_the_error_of_what_could_be_rebuilt_is_told(consortium: Consortium) -> None:
    consortium.until_anchored()
    found = ready(consortium, PrivacyOptions(**NOISE))
    # the basis is full: without the noise the two would have every row whole
    assert found.hidden_share.median < 1e-6
    assert found.collusion_error.median > 1


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, 30])
def test_a_threshold_is_a_share(consortium: Consortium, threshold: float) -> None:
    consortium.until_anchored()
    with pytest.raises(InputError, match="share above 0 and at most 1"):
        ready(consortium, PrivacyOptions(), threshold=threshold)


def test_a_consumer_may_name_options_too(consortium: Consortium) -> None:
    consortium.until_anchored()
    empty = pa.table({name: pa.array([], pa.string()) for name in rows(0)})
    found = consortium.hospital_round.prepare(empty, ALL, threshold=0.5)
    assert (found.rows, found.table_rows, found.threshold) == (0, 0, None)


# the picture


def test_a_picture_shows_one_row_of_each_class_first_and_what_collusion_brings_back(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored(latent_dim=2)
    table = consortium.table(1, y=["no"] * 30 + ["yes"] * 10)
    consortium.hospital_round.prepare(table)
    drawn: list[Any] = []
    monkeypatch.setattr("user_client.sdk.pictures.side_by_side", lambda *given: drawn.extend(given))
    monkeypatch.setattr("user_client.sdk.pictures.png", lambda _pixels: b"")
    consortium.hospital_round.draw_picture(table, (1, 3))
    original, rep, rebuilt, shape = drawn
    chosen = [0, 30, 1, 2, 3, 4]
    plain = np.stack([rows(1)[name] for name in ("x0", "x1", "x2")], axis=1)[chosen] / 4
    basis = np.load(consortium.directory_of(consortium.hospital) / BASIS_FILE)
    np.testing.assert_allclose(original, plain, atol=1e-12)
    np.testing.assert_allclose(rep, plain @ basis, atol=1e-12)
    np.testing.assert_allclose(rebuilt, plain @ basis @ np.linalg.pinv(basis), atol=1e-12)
    assert shape == (1, 3)


def test_a_picture_leaves_out_rows_that_stay_and_adds_the_noise(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_anchored(latent_dim=2)
    options = PrivacyOptions(**NOISE, drop_below=0.3)
    ready(consortium, options)
    drawn: list[Any] = []
    monkeypatch.setattr("user_client.sdk.pictures.side_by_side", lambda *given: drawn.extend(given))
    monkeypatch.setattr("user_client.sdk.pictures.png", lambda _pixels: b"")
    consortium.hospital_round.draw_picture(consortium.table(1), (3, 1), count=40)
    original, rep, *_ = drawn
    assert 0 < len(original) < 40
    basis = np.load(consortium.directory_of(consortium.hospital) / BASIS_FILE)
    assert np.std(rep - original @ basis) == pytest.approx(options.sigma, rel=0.5)


def test_there_is_no_picture_before_something_is_prepared(consortium: Consortium) -> None:
    consortium.until_anchored()
    with pytest.raises(NotPreparedError, match="needs a prepared table and its secret basis"):
        consortium.hospital_round.draw_picture(consortium.table(1), (1, 3))


def test_there_is_no_picture_of_no_rows(consortium: Consortium) -> None:
    consortium.until_anchored()
    empty = pa.table({name: pa.array([], pa.string()) for name in rows(0)})
    consortium.hospital_round.prepare(empty)
    with pytest.raises(InputError, match="no row to draw"):
        consortium.hospital_round.draw_picture(empty, (1, 3))
