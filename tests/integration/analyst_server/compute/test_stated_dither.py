"""What trains under dither: the rows of who states it as they are expected without it, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.compute.sequence import align_parties, compute_round
from analyst_server.compute.training_rows import training_rows
from analyst_server.services import rounds
from analyst_server.training.dithered_rows import allow_for_dither
from protocol.messages import PrivacyRecord
from protocol.model_terms import LogisticTerms, ModelPrivacyTerms
from protocol.terms import Terms
from tests.harness.world import HOSPITAL, LEAD, World, make_terms, make_uplink

STRENGTH = 0.5


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.records.dispose()


def sent(world: World, terms: Terms) -> World:
    """Have the lead send rows without dither, and the hospital rows with it."""
    world.until_anchored(terms)
    world.send(make_uplink(terms, LEAD, rows=60, seed=0))
    stated = PrivacyRecord(dither=STRENGTH)
    world.send(make_uplink(terms, HOSPITAL, rows=60, seed=1, privacy=stated))
    return world


def trained_on(world: World) -> dict[str, NDArray[Any]]:
    """Return the rows of each party that train."""
    spec, blobs = rounds.spec_of(world.analyst, world.id), world.analyst.blobs
    aligned = align_parties(spec, blobs)
    rows = training_rows(spec, blobs, aligned.changes_of_basis.open(blobs), aligned.left_out)
    return {party: rows.of([place]) for place, party in enumerate(rows.parties)}


def aligned(world: World) -> dict[str, NDArray[Any]]:
    """Return the rows of each party as they were sent, in the common representation."""
    spec, blobs = rounds.spec_of(world.analyst, world.id), world.analyst.blobs
    changes = align_parties(spec, blobs).changes_of_basis.open(blobs)
    return {
        one.party: one.rep.open(blobs) @ change.astype(np.float32)
        for one, change in zip(spec.parties, changes, strict=True)
    }


def test_the_rows_of_who_states_dither_are_brought_to_what_is_expected(world: World) -> None:
    sent(world, make_terms(model=LogisticTerms()))
    found, before = trained_on(world), aligned(world)
    np.testing.assert_allclose(found[LEAD], before[LEAD], atol=1e-5)
    expected = before[HOSPITAL].copy()
    allow_for_dither(expected, STRENGTH)
    np.testing.assert_allclose(found[HOSPITAL], expected, atol=1e-4)
    assert np.abs(found[HOSPITAL] - before[HOSPITAL]).max() > 0.01


def test_a_model_with_privacy_is_trained_on_rows_as_they_came(world: World) -> None:
    """What is allowed for depends on all rows of a party, and such a model may depend on none by so much."""
    privacy = ModelPrivacyTerms(epsilon=3.0, delta=1e-5)
    sent(world, make_terms(model=LogisticTerms(), model_privacy=privacy))
    found, before = trained_on(world), aligned(world)
    np.testing.assert_allclose(found[HOSPITAL], before[HOSPITAL], atol=1e-5)


def test_a_round_with_it_is_computed_and_judged_as_one_of_rows_with_noise(world: World) -> None:
    sent(world, make_terms(model=LogisticTerms()))
    found = compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs)
    assert found.model.converged
