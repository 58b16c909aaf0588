"""The worked example of arXiv 2403.02780, section II-C, and each formula by hand."""

from __future__ import annotations

import pytest

from metering import explanation, formulas

GB = 1e9


def test_formula_3_counts_rows_and_anchor_rows() -> None:
    one = formulas.uplink(rows=1000, anchor_rows=500, latent_dim=10, bits=32)
    assert (one.rep_bytes, one.anchor_rep_bytes, one.total_bytes) == (40_000, 20_000, 60_000)


def test_formula_4_counts_the_change_of_basis_and_the_model() -> None:
    one = formulas.downlink(latent_dim=10, model_parameters=500, bits=64)
    assert (one.change_of_basis_bytes, one.model_bytes, one.total_bytes) == (800, 4000, 4800)


def test_formula_5_counts_the_anchor() -> None:
    assert formulas.anchor(anchor_rows=1000, features=784, bits=32) == 3_136_000


def test_formula_6_is_10_1_gigabytes_in_the_worked_example() -> None:
    whole = formulas.whole_round(
        rows=[1000] * 100,
        anchor_rows=1000,
        features=784,
        latent_dim=100,
        model_parameters=2.5e7,
        bits=32,
    )
    assert whole.total_bytes / GB == pytest.approx(10.1, abs=0.05)
    assert sum(part.total_bytes for part in whole.uplinks) == 100 * 800_000
    assert sum(part.total_bytes for part in whole.downlinks) == 100 * 100_040_000
    assert whole.total_bytes == 80_000_000 + 10_004_000_000 + 3_136_000


def test_formulas_3_and_4_count_what_each_party_has_chosen_to_send() -> None:
    whole = formulas.whole_round(
        rows=[10, 20], anchor_rows=5, features=8, latent_dim=6, model_parameters=100, bits=32, own_dims=[6, 2]
    )
    assert [part.total_bytes for part in whole.uplinks] == [4 * 15 * 6, 4 * 25 * 2]
    assert [part.change_of_basis_bytes for part in whole.downlinks] == [4 * 6 * 6, 4 * 2 * 6]


def test_formula_7_is_20_gigabytes_a_round_in_the_worked_example() -> None:
    once = formulas.federated_averaging(
        rounds=1, participation=1.0, parties=100, model_parameters=2.5e7, bits=32
    )
    assert once / GB == 20
    tenth = formulas.federated_averaging(
        rounds=10, participation=0.1, parties=100, model_parameters=2.5e7, bits=32
    )
    assert tenth == once


def test_formula_8_breaks_even_at_about_five_rounds_in_the_worked_example() -> None:
    even = formulas.break_even_rounds(
        mean_rows=1000,
        anchor_rows=1000,
        features=784,
        latent_dim=100,
        model_parameters=2.5e7,
        participation=0.1,
        parties=100,
    )
    assert even.total_rounds == pytest.approx(5, abs=0.1)
    assert even.uplink_rounds == pytest.approx(0.04)
    assert even.downlink_rounds == pytest.approx(5.002)
    assert even.anchor_rounds == pytest.approx(784_000 / 5e8)


def test_a_member_without_rows_still_sends_its_anchor_representation() -> None:
    one = formulas.uplink(rows=0, anchor_rows=500, latent_dim=10, bits=32)
    assert (one.rep_bytes, one.total_bytes) == (0, 20_000)


def test_an_explanation_is_said_in_words_without_the_terms_that_are_nothing() -> None:
    found = explanation.Explanation(1_030, formula_bytes=1_000, tls_bytes=30)
    words = explanation.in_words(found)
    assert [line.split()[-1] for line in words] == ["1,000", "30", "1,030"]
    assert words[-1].startswith("measured")
