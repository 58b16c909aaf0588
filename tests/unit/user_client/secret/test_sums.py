"""Sums, their fixed point and their masks: against the vectors, and against colluders."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.vectors
from protocol.codec import decode
from protocol.errors import SealBrokenError
from protocol.fixed_point import by_class_from_fixed_point, from_fixed_point, to_fixed_point
from protocol.sums import exponent_of, order_of, sums_commitment
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.masks import MaskKey
from user_client.sdk.sums import masked, pair_context
from user_client.secret.feature_map import FeatureMap
from user_client.secret.sums import BLOCK_ROWS, extended_sums, sums_by_class

(CASE,) = json.loads((Path(tests.vectors.__file__).parent / "sums.json").read_text())
TERMS = decode(Terms, bytes.fromhex(CASE["terms"]))
SEED = bytes.fromhex(CASE["seed"])
KEYS = [MaskKey.from_bytes(bytes.fromhex(key)) for key in CASE["private_keys"]]
PUBLIC_KEYS = [bytes.fromhex(key) for key in CASE["mask_keys"]]
Words = NDArray[np.uint64]
COUNT = 36


def words(text: str) -> Words:
    return np.frombuffer(bytes.fromhex(text), "<u8")


@pytest.mark.parametrize("place", range(3))
def test_masks_are_those_of_the_vectors(place: int) -> None:
    expected = words(CASE["masks"][place])
    nothing = np.zeros(len(expected), np.uint64)
    found = masked(nothing, KEYS[place], TERMS, TERMS.parties[place], SEED, PUBLIC_KEYS)
    np.testing.assert_array_equal(found, expected)


def test_commitment_exponent_numbers_and_stream_are_those_of_the_vectors() -> None:
    assert [key.public_bytes() for key in KEYS] == PUBLIC_KEYS
    assert sums_commitment(SEED, PUBLIC_KEYS).hex() == CASE["commitment"]
    assert TERMS.sums is not None
    assert exponent_of(TERMS.sums, TERMS.table_schema, len(TERMS.parties)) == CASE["exponent"]
    z = np.array(CASE["z"])
    assert len(z) == order_of(TERMS.latent_dim, TERMS.table_schema.label_column)
    numbers = to_fixed_point(np.outer(z, z), CASE["exponent"])
    np.testing.assert_array_equal(numbers, words(CASE["numbers"]))
    np.testing.assert_array_equal(from_fixed_point(numbers, len(z), CASE["exponent"]), np.outer(z, z))
    assert KeyStream(SEED, "odc/v1/sums/features").read(64).hex() == CASE["feature_stream"]


def test_masks_of_all_institutions_cancel_and_of_fewer_do_not() -> None:
    masks = [words(mask) for mask in CASE["masks"]]
    assert not np.any(masks[0] + masks[1] + masks[2])
    for count in (1, 2):
        for some in itertools.combinations(masks, count):
            assert np.all(np.sum(some, axis=0, dtype=np.uint64))


def test_a_key_that_agrees_with_everybody_alike_is_refused_by_the_name_of_who_signed_it() -> None:
    keys = [PUBLIC_KEYS[0], PUBLIC_KEYS[1], bytes(32)]
    with pytest.raises(SealBrokenError, match="hospital-c has signed is no key"):
        masked(np.zeros(3, np.uint64), KEYS[0], TERMS, TERMS.parties[0], SEED, keys)


def test_a_table_is_summed_in_blocks_as_at_once() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-1, 1, (BLOCK_ROWS + 7, 3)), rng.integers(0, 3, BLOCK_ROWS + 7)
    features = FeatureMap.draw(rng.bytes, 3, 4, 1.5)
    z = np.hstack([np.ones((len(rows), 1)), features(rows), np.eye(3)[labels]])
    np.testing.assert_allclose(extended_sums(rows, labels, features, 3), z.T @ z, atol=1e-8)


def test_a_table_is_summed_by_class_in_blocks_as_at_once() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-1, 1, (BLOCK_ROWS + 7, 3)), rng.integers(0, 2, BLOCK_ROWS + 7)
    features = FeatureMap.draw(rng.bytes, 3, 4, 1.5)
    z = np.hstack([np.ones((len(rows), 1)), features(rows)])
    found = sums_by_class(rows, labels, features, 3)
    for number, expected in enumerate((z[labels == 0], z[labels == 1], z[:0])):
        np.testing.assert_allclose(found[number], expected.T @ expected, atol=1e-8)


def test_a_stack_of_matrices_is_one_triangle_after_the_other() -> None:
    sums = np.random.default_rng(0).integers(-9, 9, (3, 4, 4)).astype(np.float64)
    sums += sums.transpose(0, 2, 1)
    numbers = to_fixed_point(sums, 20)
    np.testing.assert_array_equal(numbers[10:20], to_fixed_point(sums[1], 20))
    np.testing.assert_array_equal(by_class_from_fixed_point(numbers, 3, 4, 20), sums)


def test_random_features_stand_for_their_kernel() -> None:
    rng = np.random.default_rng(0)
    rows, width = rng.uniform(-1, 1, (30, 3)), 1.5
    phi = FeatureMap.draw(rng.bytes, 3, 1024, width)(rows)
    squares = np.square(rows[:, None] - rows[None]).sum(axis=2)
    np.testing.assert_allclose(phi @ phi.T - rows @ rows.T, np.exp(-squares / (2 * width**2)), atol=0.2)


# the analyst with all institutions but two


@pytest.mark.parametrize("colluders", [1, 4])
def test_two_tables_with_the_same_sum_give_everybody_else_the_same_view(colluders: int) -> None:
    """Bit for bit, for another draw of the stream that the two honest institutions share.

    The analyst and all other institutions, with their keys and the seed, take off every mask that they know.
    For every pair of tables with the same total there is a stream that makes what is left the same, and all
    streams are equally likely, so that nothing they see tells the two pairs apart.
    """
    rng = np.random.default_rng(colluders)
    keys = [MaskKey.generate() for _ in range(2 + colluders)]
    public = [key.public_bytes() for key in keys]
    terms = TERMS.model_copy(update={"parties": tuple(f"hospital-{i}" for i in range(len(keys)))})

    def stream(holder: int, other: int) -> Words:
        """Return what two institutions share, as the first of them computes it."""
        context = pair_context(terms, holder, other)
        return np.frombuffer(keys[holder].stream(public[other], SEED, context)(8 * COUNT), "<u8")

    def view(sums: Sequence[Words]) -> list[Words]:
        """Return what both honest institutions send, without the masks that a colluder can take off."""
        seen = []
        for place in (0, 1):
            sent = masked(sums[place], keys[place], terms, terms.parties[place], SEED, public)
            for colluder in range(2, len(keys)):
                sent = sent - stream(colluder, place)
            seen.append(sent)
        return seen

    mine = [rng.integers(0, 2**64, COUNT, dtype=np.uint64) for _ in range(2)]
    moved = rng.integers(0, 2**64, COUNT, dtype=np.uint64)
    others = [mine[0] + moved, mine[1] - moved]
    shared, seen = stream(0, 1), view(mine)
    np.testing.assert_array_equal(seen, [mine[0] + shared, mine[1] - shared])
    redrawn = shared - moved
    np.testing.assert_array_equal(seen, [others[0] + redrawn, others[1] - redrawn])
    assert np.all(view(others)[0] != seen[0]), "the draw is what makes them alike"
