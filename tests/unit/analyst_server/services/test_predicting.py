"""Predicted seconds and memory: what they are made of, and what there is no law for."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from analyst_server.services import probing, work
from analyst_server.services.planning import Scenario
from analyst_server.services.predicting import (
    BENCHMARKED,
    CONSTANTS,
    MEMORY_OF,
    Prediction,
    compute_memory,
    predict,
    slower,
    total,
)
from analyst_server.services.work import Size, Term
from protocol.model_terms import AveragedTerms, LogisticTerms

SCENARIO = Scenario(5, 10_000, 30, 30, 12, 1500, rep_dtype="i1")
SIZE = Size.of(SCENARIO)
LAWS = {
    "prepare": work.prepare_terms(SIZE, AveragedTerms()),
    "send": work.send_terms(SIZE),
    "take": work.take_terms(SIZE),
    "align": work.align_terms(SIZE),
    "train": work.train_terms(SIZE, AveragedTerms()),
    MEMORY_OF["prepare"]: work.prepare_memory(SIZE),
    MEMORY_OF["align"]: work.align_memory(SIZE),
    MEMORY_OF["train"]: work.train_memory(SIZE, AveragedTerms()),
}


def predicted(**changed: Any) -> Prediction:
    return predict(SCENARIO, **{"model": AveragedTerms(), **changed})


def seconds(found: Prediction) -> dict[str, float | None]:
    return {phase.name: phase.seconds for phase in found.phases}


def test_every_term_has_a_constant_and_every_constant_a_term() -> None:
    assert {law: set(found) for law, found in CONSTANTS.items()} == {
        law: {term.name for term in terms} for law, terms in LAWS.items()
    }
    assert min(value for found in CONSTANTS.values() for value in found.values()) >= 0


def test_seconds_are_counts_by_constants_and_by_how_slow_the_machine_is() -> None:
    terms = [Term("rows", "copy", 100), Term("products", "product", 10)]
    constants = {"rows": 0.5, "products": 2.0}
    ratios = {"copy": 1.0, "product": 3.0}
    assert total(constants, terms, None) == 70
    assert total(constants, terms, ratios) == 110


def test_a_machine_that_is_twice_as_slow_takes_twice_as_long_and_no_more_memory() -> None:
    here = predicted()
    halved = type(BENCHMARKED)(**{name: rate / 2 for name, rate in asdict(BENCHMARKED).items()})
    there = predicted(probes=halved)
    assert seconds(there) == pytest.approx(
        {name: 2 * found for name, found in seconds(here).items() if found}
    )
    assert there.peaks == here.peaks
    assert "this machine" in there.rests_on
    assert "this machine" not in here.rests_on


def test_slower_at_one_kind_of_work_lengthens_what_is_of_that_kind() -> None:
    slow = replace(BENCHMARKED, hash=BENCHMARKED.hash / 4)
    assert slower(slow) == {"product": 1, "copy": 1, "interpreter": 1, "hash": 4}


def test_a_model_without_a_law_is_not_predicted_and_what_does_not_depend_on_it_is() -> None:
    found = predicted(model=None)
    assert {name for name, took in seconds(found).items() if took is None} == {"prepare", "train"}
    assert [peak.mebibytes is None for peak in found.peaks] == [False, True]


def test_another_alignment_has_no_law() -> None:
    found = seconds(predicted(is_isotropic=False))
    assert {name for name, took in found.items() if took is None} == {"align"}


def test_the_default_model_takes_longer_than_a_linear_one() -> None:
    long, short = seconds(predicted())["train"], seconds(predicted(model=LogisticTerms()))["train"]
    assert long is not None
    assert short is not None
    assert long > short


def test_a_line_carries_the_bytes_of_an_uplink() -> None:
    assert predicted().line_seconds == 8 * (10_000 * 13 + 30 * 12) / 10**8


def test_memory_is_that_of_the_step_which_has_most() -> None:
    model = LogisticTerms()
    of_anchor, of_rows = Size(2000, 1, 500, 250, 500), Size(2, 10**6, 500, 9, 500)
    assert compute_memory(of_anchor, model) == total(
        CONSTANTS[MEMORY_OF["align"]], work.align_memory(of_anchor), None
    )
    assert compute_memory(of_rows, model) == total(
        CONSTANTS[MEMORY_OF["train"]], work.train_memory(of_rows, model), None
    )


def test_a_machine_is_measured_at_each_kind_of_work() -> None:
    assert min(asdict(probing.measure()).values()) > 0
