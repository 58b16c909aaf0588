"""What the noise of sums is worth: by a library of its own, and by what terms may ask for."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from pydantic import ValidationError

from protocol.labels import Label, NumberLabel
from protocol.sums_noise import SumsNoise, bits_of, sensitivity
from protocol.terms import Terms
from tests.vectors.sums import NOISE, NOISE_TERMS

CLASSES = Label(name="y", classes=("a", "b", "c"))
NUMBER = NumberLabel(name="y", low=0, high=1)
RELATION = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize("label", [CLASSES, NUMBER])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
@pytest.mark.parametrize(("parties", "colluding"), [(3, 0), (10, 4), (5, 4)])
def test_what_colluders_leave_of_the_noise_is_worth_the_stated_epsilon(
    label: Label | NumberLabel, epsilon: float, parties: int, colluding: int
) -> None:
    noise = SumsNoise(epsilon=epsilon, delta=1e-5, clip=1.0, colluding=colluding)
    left = noise.share(label, parties) * math.sqrt(parties - colluding)
    event = dp_accounting.GaussianDpEvent(left / sensitivity(label))
    found = PLDAccountant(RELATION, 1e-4).compose(event).get_epsilon(1e-5)
    assert 0.99 * epsilon < found <= epsilon * 1.001
    assert noise.in_total(label, parties) == pytest.approx(left * math.sqrt(parties / (parties - colluding)))


def test_more_institutions_have_smaller_shares() -> None:
    noise = SumsNoise(epsilon=1.0, delta=1e-5, clip=1.0, colluding=2)
    assert noise.share(CLASSES, 102) == pytest.approx(noise.share(CLASSES, 3) / 10)


@pytest.mark.parametrize(("rows", "bits"), [(1, 20), (2**22, 20), (2**22 + 1, 19), (2**39, 11)])
def test_as_many_bits_are_summed_as_there_is_room_for(rows: int, bits: int) -> None:
    assert bits_of(rows) == bits
    assert rows * 2 ** (2 * bits) <= 2**62


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"noise": {**NOISE, "colluding": 3}}, "fewer institutions collude than there are"),
        ({"max_rows": 2**31 - 1, "noise": {**NOISE, "epsilon": 20.0, "delta": 1e-9}}, "few digits"),
        ({"noise": {**NOISE, "clip": 0.0}}, "greater than 0"),
        ({"noise": {**NOISE, "delta": 0.0}}, "greater than or equal"),
    ],
)
def test_terms_of_noise_that_would_not_be_what_they_say_are_refused(
    changed: dict[str, Any], complaint: str
) -> None:
    content = {**NOISE_TERMS, "sums": {**NOISE_TERMS["sums"], **changed}}
    with pytest.raises(ValidationError, match=complaint):
        Terms.model_validate(content, strict=False)
