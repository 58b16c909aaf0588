"""Noise in the total of sums, beside noise on each row that is worth the same epsilon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data import Matrix
from benchmarks.defaults.collaboration import Encoded, drafted_round, encoded
from benchmarks.defaults.tables import bundled, for_all_members, real
from benchmarks.parallel import run_all
from benchmarks.sums_round import drafted_by, of_sums, terms_of_sums
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.sdk.privacy import PrivacyOptions, with_noise

EPSILONS: Final = (1.0, 3.0, 10.0)
DELTA: Final = 1e-5
SEEDS: Final = range(5)
RANDOM_FEATURES: Final = 256
SIZES: Final = {"breast_cancer": (10, 40), "digits": (10, 100)}
REAL_SIZES: Final = {"stroke_hospitals": (100, 150), "mnist": (10, 1000)}
"""Institutions, and rows of each; all other rows are for testing."""
CLAIMED: Final = "digits"


@dataclass(frozen=True)
class Outcome:
    """The accuracy of each arm, in percent, for one epsilon (None: without noise)."""

    table: str
    seed: int
    epsilon: float | None
    accuracy: dict[str, float]


def run(job: tuple[str, int], *, folder: Path | None) -> list[Outcome]:
    """Hold the rounds of one table and one seed, without noise and with each epsilon."""
    name, seed = job
    source = {**bundled(), **(real(folder) if folder else {})}[name]()
    count, rows = {**SIZES, **REAL_SIZES}[name]
    order = np.random.default_rng([seed, 17]).permutation(len(source.labels))
    parts = [source.table.take(pa.array(order[rows * place : rows * (place + 1)])) for place in range(count)]
    test = source.table.take(pa.array(order[rows * count :]))
    drafted = drafted_by(parts[0], source.table, count)
    schema = for_all_members(Schema.model_validate(drafted.content["table_schema"], strict=False), source)
    parties = [encoded(part, test, schema) for part in parts]
    scored = partial(_accuracy, parties[0])

    def by_sums(epsilon: float | None, random_features: int, *, alone: bool = False) -> float:
        terms = terms_of_sums(drafted, parts[0], schema, random_features=random_features, epsilon=epsilon)
        return scored(of_sums(parties, _noised_alone(terms) if alone else terms))

    def by_rows(sent: Sequence[Encoded]) -> float:
        predict = drafted_round(sent, drafted.content, schema, seed).play_unjudged()
        return float(np.mean([scored(partial(predict, place)) for place in range(min(count, 10))]))

    curved = partial(by_sums, random_features=RANDOM_FEATURES)
    found = [Outcome(name, seed, None, {"sums": by_sums(None, 0), "rows": by_rows(parties)})]
    found[0].accuracy["sums, random features"] = curved(None)
    for epsilon in EPSILONS:
        arms = {
            "sums": by_sums(epsilon, 0),
            "sums, random features": curved(epsilon),
            "sums, each with all the noise": by_sums(epsilon, 0, alone=True),
            "rows": by_rows([_noised(party, epsilon, parties[0]) for party in parties]),
        }
        found.append(Outcome(name, seed, epsilon, arms))
    return found


def outcomes_with_noise(folder: Path | None) -> list[Outcome]:
    """Hold every round for every seed."""
    jobs = [(table, seed) for table in {**SIZES, **(REAL_SIZES if folder else {})} for seed in SEEDS]
    return [outcome for found in run_all(partial(run, folder=folder), jobs) for outcome in found]


def rows_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the mean and the standard deviation over the seeds of each table and epsilon."""
    grouped = defaultdict(list)
    for outcome in outcomes:
        grouped[outcome.table, outcome.epsilon].append(outcome.accuracy)
    return [
        {"table": table, "epsilon": epsilon}
        | {arm: float(np.mean([one[arm] for one in found])) for arm in found[0]}
        | {f"{arm}, spread": float(np.std([one[arm] for one in found])) for arm in found[0]}
        for (table, epsilon), found in grouped.items()
    ]


def gain(outcomes: Sequence[Outcome], epsilon: float) -> float:
    """Return by how many points of accuracy noise in the sum is ahead of noise on each row."""
    of_both = [
        outcome.accuracy["sums"] - outcome.accuracy["rows"]
        for outcome in outcomes
        if (outcome.table, outcome.epsilon) == (CLAIMED, epsilon)
    ]
    return float(np.mean(of_both))


def _noised_alone(terms: Terms) -> Terms:
    """Return terms under which the noise of one institution is enough, whatever all others do."""
    if terms.sums is None or terms.sums.noise is None:
        raise ValueError("these terms have no noise in sums")
    noise = terms.sums.noise.model_copy(update={"colluding": len(terms.parties) - 1})
    return terms.model_copy(update={"sums": terms.sums.model_copy(update={"noise": noise})})


def _noised(party: Encoded, epsilon: float, lead: Encoded) -> Encoded:
    """Return a party's rows with noise on each, as `odc prepare` adds it, clipped as the lead would."""
    clip = float(np.quantile(np.linalg.norm(lead.rows, axis=1), 0.9))
    options = PrivacyOptions(epsilon=epsilon, delta=DELTA, clip=clip)
    return replace(party, rows=with_noise(party.rows, options))


def _accuracy(tested: Encoded, predict: Callable[[Matrix], NDArray[Any]]) -> float:
    return 100 * float((predict(tested.test).argmax(axis=1) == tested.test_labels).mean())
