"""The model of our own rows alone is trained as the terms say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protocol.model_terms import AutoTerms, KnnTerms, LogisticTerms
from tests.harness.problems import TERMS
from tests.harness.world import make_terms
from user_client.sdk.hold_out import fit_alone
from user_client.sdk.local_models import fit_by, fit_each, packed, unpacked


def probability_of_the_rare(model: Any) -> float:
    """Return the mean probability of a class of one row in ten, over rows of both that overlap."""
    rng = np.random.default_rng(0)
    labels = (np.arange(200) < 20).astype(np.int64)
    rows = rng.standard_normal((200, 3)) + labels[:, None]
    fitted = fit_alone(make_terms(model=model), rows, labels)
    assert fitted is not None
    return float(fitted.predictions(rows)[:, 1].mean())


@pytest.mark.parametrize("kind", ["logistic", "averaged", "random-forest"])
def test_the_class_weights_of_the_terms_are_those_of_our_own_model(kind: str) -> None:
    """Also where another kind is fitted here in the place of theirs."""
    plain = probability_of_the_rare(TERMS[kind]())
    assert plain == pytest.approx(0.1, abs=0.04)
    assert probability_of_the_rare(TERMS[kind](class_weight="balanced")) > plain + 0.1


@pytest.mark.parametrize("model", [KnnTerms(), AutoTerms(candidates=(KnnTerms(), LogisticTerms()))])
def test_terms_without_class_weights_have_a_model_without_them(model: Any) -> None:
    assert probability_of_the_rare(model) == pytest.approx(0.1, abs=0.04)


def test_a_model_of_several_labels_is_kept_whole() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4))
    labels = ((rows[:, :3] > [0, 1, 9]) * [1, 2, 4]).sum(axis=1).astype(np.uint8) | 8
    model = fit_each(LogisticTerms(), rows, labels, 4)
    assert model is not None
    found = model.predictions(rows)
    assert found.shape == (300, 4)
    for number in range(2):
        alone = fit_by(LogisticTerms(), rows, (labels >> number & 1).astype(np.uint8), 2)
        assert alone is not None
        np.testing.assert_array_equal(found[:, number], alone.predictions(rows)[:, 1])
    assert (found[:, 2] == 0).all(), "no row has the third label, and all have the fourth"
    assert (found[:, 3] == 1).all()
    np.testing.assert_array_equal(unpacked(packed(model)).predictions(rows), found)
    assert fit_each(LogisticTerms(), rows, np.full(300, 5, np.uint8), 4) is None
