"""The formulas add up, term by term and against each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import metering

sizes = st.integers(1, 10**6)


@given(
    rows=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    anchor_rows=sizes,
    features=sizes,
    latent_dim=st.integers(1, 10**4),
    model_parameters=sizes,
    bits=st.sampled_from([16, 32, 64]),
)
def test_a_round_is_its_uplinks_its_downlinks_and_the_anchor_once(
    rows: list[int], anchor_rows: int, features: int, latent_dim: int, model_parameters: int, bits: int
) -> None:
    whole = metering.whole_round(
        rows=rows,
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        bits=bits,
    )
    numbers = (
        sum((n + anchor_rows) * latent_dim for n in rows)
        + len(rows) * (latent_dim**2 + model_parameters)
        + anchor_rows * features
    )
    assert whole.total_bytes == pytest.approx(numbers * bits / 8, rel=1e-12)
    assert len(whole.uplinks) == len(whole.downlinks) == len(rows)


@given(
    rows=st.lists(st.integers(0, 10**5), min_size=1, max_size=8),
    anchor_rows=sizes,
    features=sizes,
    latent_dim=st.integers(1, 10**4),
    model_parameters=sizes,
    participation=st.floats(0.01, 1),
)
def test_at_break_even_both_ways_cost_the_same(
    rows: list[int],
    anchor_rows: int,
    features: int,
    latent_dim: int,
    model_parameters: int,
    participation: float,
) -> None:
    even = metering.break_even_rounds(
        mean_rows=sum(rows) / len(rows),
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        participation=participation,
        parties=len(rows),
    )
    ours = metering.whole_round(
        rows=rows,
        anchor_rows=anchor_rows,
        features=features,
        latent_dim=latent_dim,
        model_parameters=model_parameters,
        bits=32,
    ).total_bytes
    theirs = metering.federated_averaging(
        rounds=even.total_rounds,
        participation=participation,
        parties=len(rows),
        model_parameters=model_parameters,
        bits=32,
    )
    assert math.isclose(ours, theirs, rel_tol=1e-9)
