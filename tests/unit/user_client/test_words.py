"""Sentences that the commands and the pages share."""

from __future__ import annotations

import pytest

from user_client.sdk import LocalFit
from user_client.words import local_fit_in_words


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
