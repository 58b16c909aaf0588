"""The attacks without a lattice, on small planted tables."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarks.data import Labels, Matrix
from benchmarks.uplink.membership import likelihood_ratios
from user_client.privacy.held import Uplink
from user_client.privacy.linking import find_duplicates, locate
from user_client.privacy.matching import match_population, reidentified
from user_client.privacy.noise import add_dither
from user_client.secret.expansion import gaussian, haar

FEATURES, LATENT, ROWS = 8, 6, 60


def population(count: int, rng: np.random.Generator) -> tuple[Matrix, Labels]:
    """Return skewed rows of two classes with well separated variances."""
    labels = rng.integers(0, 2, count)
    spreads = np.geomspace(2, 0.1, FEATURES)
    rows = (rng.exponential(size=(count, FEATURES)) - 0.5 * labels[:, None]) * spreads
    return rows, labels


def sent(
    rows: Matrix, labels: Labels, anchor: Matrix, rng: np.random.Generator, dither: float = 0.0
) -> Uplink:
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :LATENT]
    basis = axes @ haar(rng.bytes, LATENT)
    rep = add_dither(rows @ basis, dither, partial(gaussian, rng.bytes))
    return Uplink(rep, anchor @ basis, labels, dither)


@pytest.mark.parametrize(("strength", "least", "most"), [(0.0, 0.8, 1.0), (3.0, 0.0, 0.1)])
def test_a_population_reveals_the_rotation_unless_noise_drowns_it(
    strength: float, least: float, most: float
) -> None:
    rng = np.random.default_rng(0)
    anchor = haar(rng.bytes, FEATURES)
    rows, labels = population(2 * ROWS, rng)
    parts = np.array_split(np.arange(len(rows)), 2)
    uplinks = [sent(rows[part], labels[part], anchor, rng, strength) for part in parts]
    public, public_labels = population(400, rng)
    rotation = match_population(uplinks, public, public_labels, rng=rng)
    assert least <= reidentified(uplinks, [rows[part] for part in parts], public, rotation) <= most


def test_known_rows_are_found_in_any_order() -> None:
    rng = np.random.default_rng(0)
    rows, labels = population(ROWS, rng)
    uplink = sent(rows, labels, haar(rng.bytes, FEATURES), rng)
    chosen = rng.permutation(ROWS)[:6]
    assert locate(rows[chosen], labels[chosen], uplink).tolist() == chosen.tolist()


def test_one_patient_of_two_hospitals_is_found() -> None:
    rng = np.random.default_rng(0)
    anchor = haar(rng.bytes, FEATURES)
    rows, labels = population(2 * ROWS, rng)
    ours, theirs = rows[:ROWS], np.vstack([rows[ROWS:], rows[:20]])
    first = sent(ours, labels[:ROWS], anchor, rng)
    second = sent(theirs, np.concatenate([labels[ROWS:], labels[:20]]), anchor, rng)
    assert np.mean(find_duplicates(first, second)[:20] == ROWS + np.arange(20)) >= 0.9


def test_shadow_models_tell_rows_whose_confidence_depends_on_them() -> None:
    rng = np.random.default_rng(0)
    difficulty = rng.standard_normal(100)

    def confidence(chosen: Labels) -> Matrix:
        told = difficulty + 0.1 * rng.standard_normal(100)
        told[chosen] += 1
        return np.asarray(told)

    took_part = np.arange(100) < 50
    seen = confidence(np.flatnonzero(took_part))
    ratios = likelihood_ratios(seen, confidence, 50, 30, np.zeros(100, dtype=np.int64), rng)
    assert ((ratios > 0) == took_part).all()
