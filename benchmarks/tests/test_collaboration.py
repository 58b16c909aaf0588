"""What the benchmarks play is what the product computes: the same answers from the same uplinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from benchmarks.defaults import collaboration
from benchmarks.defaults.collaboration import Agreed, Encoded, Round
from orthonormal_data_collaboration import simulate
from orthonormal_data_collaboration.simulation import Simulation


@pytest.fixture(scope="module", params=["drafted terms", "no dither"])
def simulated(request: pytest.FixtureRequest) -> Simulation:
    rows, labels = load_breast_cancer(return_X_y=True)
    cuts = [100, 180, 300]
    parts = zip(np.split(rows[:420], cuts), np.split(labels[:420], cuts), strict=True)
    parties = {f"hospital-{number}": part for number, part in enumerate(parts)}
    changed: dict[str, Any] = {} if request.param == "drafted terms" else {"dither": 0.0, "rep_dtype": "f4"}
    return simulate(parties, random_state=0, **changed)


def _as_benchmarks_play_it(found: Simulation, monkeypatch: pytest.MonkeyPatch) -> Round:
    """Return the round of the same rows, bases and noise."""
    members = list(found.members.values())
    parties = []
    for member in members:
        kept = np.zeros(len(member.encoded_rows), bool)
        kept[member.held_out] = True
        own = member.encoded_rows
        labels = member.labels.astype(np.int64)
        parties.append(Encoded(own[~kept], labels, own[kept], np.zeros(kept.sum(), np.int64)))
    noisy = iter([member.rep for member in members])
    monkeypatch.setattr(collaboration, "add_dither", lambda *_: next(noisy))
    terms, anchor = found.terms, found.anchor
    assert anchor is not None
    agreed = Agreed(terms.model, terms.table_schema.label_column, terms.rep_dtype, terms.dither)
    return Round(parties, [member.secret_basis for member in members], anchor, agreed, 0)


@pytest.mark.parametrize("judged", [False, True])
def test_a_round_of_the_benchmarks_answers_as_the_products_does(
    simulated: Simulation, judged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = _as_benchmarks_play_it(simulated, monkeypatch)
    answer = played.play()[1] if judged else played.play_unjudged()
    assert (played.agreed.dither > 0) is (simulated.terms.dither > 0)
    for index, (name, member) in enumerate(simulated.members.items()):
        expected = simulated[name].answer_(member.encoded_rows)
        np.testing.assert_allclose(answer(index, member.encoded_rows), expected, atol=1e-5)
