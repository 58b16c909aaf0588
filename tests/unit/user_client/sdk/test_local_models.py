"""A network keeps no numbers that a processor is slow with."""

from __future__ import annotations

import platform
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from protocol.model_terms import AveragedTerms
from user_client.sdk import local_models

SMALLEST = np.finfo(np.float32).tiny


def denormal_weights() -> int:
    """Fit a network of which rows with three factors need little, and count its denormal weights."""
    rng = np.random.default_rng(0)
    rows = 0.1 * rng.standard_normal((6000, 3)) @ rng.standard_normal((3, 30))
    model = AveragedTerms(hidden_units=32, epochs=150)
    fitted = local_models.fit_by(model, rows, (rows[:, 0] > 0).astype(np.int64), 2)
    assert fitted is not None
    weights = np.concatenate([part.ravel() for part, _ in fitted.networks[1]])
    return int(np.count_nonzero((np.abs(weights) < SMALLEST) & (weights != 0)))


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="what it changes is a register of x86-64",
)
def test_what_no_row_needs_is_zero_and_not_nearly_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    assert denormal_weights() == 0
    monkeypatch.setattr(local_models, "tiny_as_zero", nullcontext)
    assert denormal_weights() > 0
