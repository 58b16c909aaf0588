from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tests.vectors
from protocol.anchor_terms import ANCHORS
from tests.harness.problems import stream
from user_client.custody.keystream import KeyStream
from user_client.secret.expansion import EXPANSIONS, expand_anchor, gaussian, haar, uniform

SEEDS = range(5)
VECTORS = json.loads((Path(tests.vectors.__file__).parent / "anchors.json").read_text())


# numbers


@pytest.mark.parametrize("seed", SEEDS)
def test_a_uniform_number_is_the_top_53_bits_of_a_little_endian_word(seed: int) -> None:
    words = struct.unpack("<100Q", stream(seed)(800))
    np.testing.assert_array_equal(uniform(stream(seed), 100), [(word >> 11) / 2**53 for word in words])


@pytest.mark.parametrize(("word", "expected"), [(0, 0.0), (2**64 - 1, 1 - 2.0**-53), (2**63, 0.5), (2047, 0)])
def test_the_ends_of_the_uniform_range(word: int, expected: float) -> None:
    assert uniform(lambda _count: word.to_bytes(8, "little"), 1)[0] == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_gaussian_number_is_half_of_a_box_muller_pair(seed: int, count: int) -> None:
    pairs = uniform(stream(seed), 2 * math.ceil(count / 2)).reshape(-1, 2)
    plain = []
    for first, second in pairs:
        radius = math.sqrt(-2 * math.log1p(-first))
        plain += [radius * math.cos(2 * math.pi * second), radius * math.sin(2 * math.pi * second)]
    # numpy and the C library may differ in the last digits of a cosine
    np.testing.assert_allclose(gaussian(stream(seed), count), plain[:count], rtol=0, atol=1e-14)


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_the_ends_of_the_stream_give_finite_gaussian_numbers(byte: bytes) -> None:
    assert np.isfinite(gaussian(lambda count: byte * count, 4)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_numbers_are_uniform(seed: int) -> None:
    """With five seeds a correct generator would fail once in twenty thousand runs; the seeds are fixed."""
    assert scipy.stats.kstest(uniform(stream(seed), 20_000), "uniform").pvalue > 1e-5


@pytest.mark.parametrize("seed", SEEDS)
def test_gaussian_numbers_are_standard_normal(seed: int) -> None:
    assert scipy.stats.kstest(gaussian(stream(seed), 20_000), "norm").pvalue > 1e-5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", [1, 2, 30, 100])
def test_a_haar_matrix_is_orthogonal(seed: int, order: int) -> None:
    drawn = haar(stream(seed), order)
    np.testing.assert_allclose(drawn.T @ drawn, np.eye(order), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_haar_matrix_is_the_q_of_a_gaussian_one_with_positive_r(seed: int) -> None:
    triangle = haar(stream(seed), 9).T @ gaussian(stream(seed), 81).reshape(9, 9)
    np.testing.assert_allclose(triangle, np.triu(triangle), rtol=0, atol=1e-12)
    assert (np.diagonal(triangle) > 0).all()


def test_haar_matrices_prefer_no_direction() -> None:
    source = stream(0)
    drawn = np.stack([haar(source, 4) for _ in range(4000)])
    assert np.abs(drawn.mean(axis=0)).max() < 5 * 0.5 / math.sqrt(4000)  # five standard errors
    np.testing.assert_allclose(drawn.var(axis=0), 0.25, rtol=0, atol=0.03)


def test_half_of_all_haar_matrices_reflect() -> None:
    source = stream(0)
    reflects = [np.linalg.det(haar(source, 3)) < 0 for _ in range(2000)]
    assert abs(np.mean(reflects) - 0.5) < 5 * 0.5 / math.sqrt(2000)


# anchors


def key_stream(vector: dict[str, Any]) -> KeyStream:
    return KeyStream(bytes.fromhex(vector["seed"]), f"odc/v1/anchor/{vector['kind']}")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda item: f"{item['kind']}-{item['rows']}")
def test_the_published_anchors_are_expanded(vector: dict[str, Any]) -> None:
    found = expand_anchor(
        vector["kind"], key_stream(vector).read, rows=vector["rows"], features=vector["features"]
    )
    np.testing.assert_allclose(found, vector["entries"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda item: f"{item['kind']}-{item['rows']}")
def test_the_published_key_streams_are_read(vector: dict[str, Any]) -> None:
    start = bytes.fromhex(vector["key_stream_start"])
    assert key_stream(vector).read(len(start)) == start


def test_every_kind_in_the_terms_is_expanded_unless_it_travels_as_a_matrix() -> None:
    assert list(EXPANSIONS) == [kind for kind, traits in ANCHORS.items() if not traits.travels_as_matrix]


@pytest.mark.parametrize("kind", EXPANSIONS)
def test_an_anchor_is_isotropic_where_the_terms_say_so(kind: str) -> None:
    anchor = expand_anchor(kind, stream(0), rows=20, features=20)
    distance = np.abs(anchor.T @ anchor - np.eye(20)).max()
    assert (distance < 1e-12) == ANCHORS[kind].is_isotropic


@pytest.mark.parametrize("kind", EXPANSIONS)
def test_an_anchor_has_to_be_square_where_the_terms_say_so(kind: str) -> None:
    if ANCHORS[kind].is_square:
        with pytest.raises(ValueError, match="square, got 5 x 4"):
            expand_anchor(kind, stream(0), rows=5, features=4)
    else:
        assert expand_anchor(kind, stream(0), rows=5, features=4).shape == (5, 4)


@pytest.mark.parametrize("kind", EXPANSIONS)
def test_the_published_anchors_have_every_kind(kind: str) -> None:
    assert kind in {vector["kind"] for vector in VECTORS}


@pytest.mark.parametrize("seed", range(5))
def test_a_haar_anchor_changes_no_length(seed: int) -> None:
    anchor = expand_anchor("haar", stream(seed), rows=20, features=20)
    np.testing.assert_allclose(anchor.T @ anchor, np.eye(20), rtol=0, atol=1e-12)


def test_a_uniform_anchor_has_its_shape_and_range() -> None:
    anchor = expand_anchor("uniform", stream(0), rows=300, features=4)
    assert anchor.shape == (300, 4)
    assert 0 <= anchor.min() < anchor.max() < 1


@pytest.mark.parametrize("seed", range(3))
def test_a_gaussian_anchor_has_its_shape_and_moments(seed: int) -> None:
    anchor = expand_anchor("gaussian", stream(seed), rows=4000, features=3)
    assert anchor.shape == (4000, 3)
    # five standard errors of a mean and of a variance over 4000 rows
    np.testing.assert_allclose(anchor.mean(axis=0), 0, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(anchor.T), np.eye(3), atol=5 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("kind", EXPANSIONS)
def test_the_same_seed_gives_the_same_anchor(kind: str) -> None:
    one, other = (expand_anchor(kind, stream(1), rows=6, features=6) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown anchor kind"):
        expand_anchor("public", stream(0), rows=4, features=4)
