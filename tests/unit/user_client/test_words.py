"""Sentences that the commands and the pages share."""

from __future__ import annotations

import pytest

from user_client.sdk import LocalFit
from user_client.secret.signal import Signal
from user_client.words import local_fit_in_words, signal_in_words


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
