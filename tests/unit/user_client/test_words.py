"""Sentences that the commands and the pages share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol.messages import PrivacyRecord
from user_client.privacy.information import Information
from user_client.sdk import LocalFit, PrivacyOptions
from user_client.sdk.desk import Attack
from user_client.sdk.prepared import Prepared
from user_client.sdk.releases import Overlap, Release
from user_client.secret.signal import Signal
from user_client.words import (
    IF_TOO_MUCH,
    NOTHING_FOUND,
    alignment_in_words,
    dangers,
    local_fit_in_words,
    signal_in_words,
    summary_in_words,
)


@pytest.mark.parametrize(
    ("kind", "terms_kind", "says", "never"),
    [
        ("averaged", "averaged", "kind averaged, fitted on 1,200 of our own rows", "the terms"),
        ("averaged", "knn", "one of the kind knn, which is not fitted here", "sums"),
        ("averaged", "ridge", "one of the kind ridge, of sums", "not fitted here"),
    ],
)
def test_a_model_of_our_own_rows_says_why_it_is_of_another_kind(
    kind: str, terms_kind: str, says: str, never: str
) -> None:
    """Of a kind that is fitted here, terms of sums alone make another model."""
    words = local_fit_in_words(LocalFit(kind, terms_kind, 1200))
    assert says in words
    assert never not in words


@pytest.mark.parametrize(
    ("curves", "says"),
    [(0, "alone has a"), (1, "curves along 1 direction, has a"), (2, "curves along 2 directions, has a")],
)
def test_a_score_that_curves_says_so(curves: int, says: str) -> None:
    assert says in signal_in_words(Signal(0.9, 0.8, 0.7, curves=curves), None)


BLIND = Attack(
    "independent components",
    "the analyst",
    "columns",
    ran=True,
    columns=("chol",),
    is_complete=False,
    seconds=1.5,
)
FOUND = {
    "the analyst, without our secret basis, could tell in nearly all rows one value of column 'chol'": BLIND,
    "of columns 'chol', 'sex' from the others, and knows that it is column 'sex'": replace(
        BLIND, columns=("chol", "sex"), named=("sex",)
    ),
    "could rebuild 12.0% of our rows in every column (by guessing 3.0%)": Attack(
        "closest vector", "the analyst with any member", "rows", ran=True, exact_rows=0.12, guessed_rows=0.03
    ),
    "could find relations between our rows (8)": Attack(
        "orthogonal lattice", "the analyst", "relations", ran=True, relations=8
    ),
    "could recognise 80.0% of the rows it looks for": Attack(
        "known rows", "the analyst with 5 rows that it knows", "links", ran=True, linked_rows=0.8
    ),
}
NOTHING = (
    replace(BLIND, columns=()),
    Attack(
        "closest vector", "the analyst with any member", "rows", ran=True, exact_rows=0.9, guessed_rows=0.9
    ),
    Attack("orthogonal lattice", "the analyst", "relations", ran=True, relations=0),
    Attack("known rows", "the analyst", "links", ran=True, linked_rows=0.0),
)


def prepared(**changes: Any) -> Prepared:
    return Prepared(
        **{
            "rows": 40,
            "table_rows": 40,
            "features": 3,
            "latent_dim": 2,
            "payload_bytes": 320,
            "formula_bytes": 320,
            "arrays": (),
            "hidden_share": None,
            "collusion_error": None,
            "threshold": None,
            "signal": None,
            "singular_values": [],
            "noise_sigma": None,
            "privacy": PrivacyRecord(),
            "options": PrivacyOptions(),
            "source": "",
            "information": Information(row_bits=40, sent_bits=16),
            "attacks": NOTHING,
            **changes,
        }
    )


@pytest.mark.parametrize("words", FOUND)
def test_what_an_attack_found_is_a_danger_and_is_said_last(words: str) -> None:
    found = prepared(attacks=(*NOTHING, FOUND[words]))
    (danger,) = dangers(found)
    assert words in danger
    assert summary_in_words(found).splitlines()[-2:] == [f"warning: {danger}", IF_TOO_MUCH]


def test_attacks_that_found_no_more_than_a_guess_are_no_danger() -> None:
    assert dangers(prepared()) == []
    assert summary_in_words(prepared()).splitlines()[-1] == NOTHING_FOUND
    assert "stopped after 1.5 s, more time may find more" in summary_in_words(prepared())


def test_who_is_asked_reads_the_warnings_without_the_figures_behind_them() -> None:
    found = prepared(attacks=(*NOTHING, BLIND), singular_values=[2.0, 1.0])
    asked = summary_in_words(found, is_short=True).splitlines()
    assert asked[-3] == "`odc prepare TABLE` shows all that was measured of it"
    assert asked[-2:] == [f"warning: {dangers(found)[0]}", IF_TOO_MUCH]
    assert not any("could try" in line or "directions" in line for line in asked)


def test_rows_that_nothing_was_tried_on_are_a_danger() -> None:
    for attacks in ((), tuple(replace(one, ran=False) for one in NOTHING)):
        (danger,) = dangers(prepared(attacks=attacks))
        assert danger.startswith("no attack was tried")


def test_what_could_be_rebuilt_and_what_was_sent_before_are_dangers() -> None:
    before = Release(
        "0123456789abcdef" * 2, "Readmission", 1_780_000_000, 30, 2, {}, "https://analyst.example", "", {}
    )
    found = dangers(
        prepared(information=Information(row_bits=40, sent_bits=64), overlaps=(Overlap(before, 7),))
    )
    assert "a row holds 40 bits, and what leaves of it can carry 64" in found[0]
    assert found[1].startswith("7 of these rows were sent before, 2026-")
    assert "in Readmission (01234567): two uplinks tell more than one" in found[1]


def test_rows_that_are_there_twice_are_counted_in_what_would_leave() -> None:
    assert "earlier row" not in summary_in_words(prepared())
    assert "1 of 40 rows equals an earlier row in every column" in summary_in_words(prepared(repeated_rows=1))
    assert "7 of 40 rows equal an earlier row in every column" in summary_in_words(prepared(repeated_rows=7))


def test_without_rows_there_is_the_danger_to_be_a_consumer_alone() -> None:
    (danger,) = dangers(prepared(rows=0, table_rows=0, information=None, attacks=()))
    assert "is a consumer in this round for good" in danger


def test_what_the_alignment_has_found_is_said_without_jargon() -> None:
    gaps = {"hospital-a": 0.25, "hospital-b": 0.5}
    suspicion = {"party": "hospital-b", "assumption": "orthonormal", "evidence": "is stretched", "rows": 3}
    found = {"concordance_gap": 0.5, "party_gaps": gaps, "spectrum_spread": gaps, "suspicions": [suspicion]}
    agreed, unlike, *suspected = alignment_in_words(found)
    assert "predicted somewhat differently at another institution" in unlike
    assert alignment_in_words({"concordance_gap": 1e-7, "party_gaps": gaps})[1:] == []
    assert agreed == "aligned, the institutions' anchors differ by 5.0e-01 of their size, most at hospital-b"
    assert suspected[0].startswith(
        "suspected by the analyst: hospital-b: its basis does not have orthonormal"
    )
    assert suspected[1:] == ["  its anchor representation is stretched"]
    *_, last = alignment_in_words({**found, "left_out": ["hospital-b"]})
    assert last == "  the model is trained without its rows"
    assert alignment_in_words({}) == []
