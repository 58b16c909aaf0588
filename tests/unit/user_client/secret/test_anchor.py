from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import tests.vectors
from protocol.terms import AnchorTerms
from tests.harness.problems import stream
from user_client.custody.keystream import KeyStream
from user_client.secret.anchor import ANCHOR_KINDS, expand_anchor

VECTORS = json.loads((Path(tests.vectors.__file__).parent / "anchors.json").read_text())


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


def test_the_terms_offer_exactly_these_kinds_and_the_public_one() -> None:
    assert get_args(AnchorTerms.model_fields["kind"].annotation) == (*ANCHOR_KINDS, "public")


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


@pytest.mark.parametrize("kind", ANCHOR_KINDS)
def test_the_same_seed_gives_the_same_anchor(kind: str) -> None:
    one, other = (expand_anchor(kind, stream(1), rows=6, features=6) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_a_haar_anchor_is_square() -> None:
    with pytest.raises(ValueError, match="square, got 5 x 4"):
        expand_anchor("haar", stream(0), rows=5, features=4)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown anchor kind"):
        expand_anchor("public", stream(0), rows=4, features=4)
