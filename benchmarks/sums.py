"""Masked sums beside rows, and beside what else the same institutions could do.

`python -m benchmarks.sums --data DIR`; without ``--data`` on the tables that need no download. Every arm gets
the same encoded rows, and all are scored on the same rows that nobody has trained on.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from analyst_server.training.from_sums import SumsRidge, fit_total
from analyst_server.training.tasks import Classes
from benchmarks.data import Labels, Matrix
from benchmarks.defaults import rivals
from benchmarks.defaults.collaboration import Encoded, drafted_round, encoded
from benchmarks.defaults.experiment import Setup, divide
from benchmarks.defaults.tables import Source, bundled, for_all_members, real
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.sums_noise import DELTA, gain, outcomes_with_noise, rows_of
from benchmarks.sums_noise import SEEDS as NOISE_SEEDS
from benchmarks.sums_noise import Outcome as Noised
from benchmarks.sums_round import SEED, drafted_by, in_one_place, of_sums, terms_of_sums
from benchmarks.sums_wire import uplinks_of_rounds
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.sdk.sums import feature_map
from user_client.secret.sums import extended_sums

PARTIES: Final = 5
RANDOM_FEATURES: Final = 256
SEEDS: Final = range(3)
TESTED: Final = 0.25
"""Share of the rows that nobody trains on."""


@dataclass(frozen=True)
class Outcome:
    """Scores of all arms, in percent of ROC-AUC, and two largest differences of a probability."""

    table: str
    split: str
    seed: int
    scores: dict[str, float]
    from_central: float
    """Between the model of masked sums and the same model of all rows in one place."""
    from_other_split: float
    """Between the models of masked sums of the same rows, dealt evenly and by class."""


def run(job: tuple[str, str, int], *, folder: Path | None) -> Outcome:
    """Hold a round of sums of one table, and let every rival have the same rows."""
    name, split, seed = job
    source = {**bundled(), **(real(folder) if folder else {})}[name]()
    rng = np.random.default_rng([seed, 15])
    order = rng.permutation(len(source.labels))
    test, train = np.split(order, [round(TESTED * len(order))])
    rows = replace(source, table=source.table.take(pa.array(train)))
    lead = rows.table.slice(0, rows.table.num_rows // PARTIES)  # before the rows are dealt by class
    drafted = drafted_by(lead, source.table, PARTIES)
    schema = for_all_members(Schema.model_validate(drafted.content["table_schema"], strict=False), source)
    parties = _dealt(rows, split, seed, schema, source.table.take(pa.array(test)))
    whole = in_one_place(parties)
    classes = schema.label_column.outputs

    def scored(predict: Callable[[Matrix], NDArray[Any]]) -> float:
        return _score(whole.test_labels, predict(whole.test), classes)

    scores, gaps = {}, []
    for arm, random_features in (("sums", 0), ("sums, random features", RANDOM_FEATURES)):
        terms = terms_of_sums(drafted, lead, schema, random_features=random_features)
        model = of_sums(parties, terms)
        scores[arm] = scored(model)
        gaps.append(np.abs(model(whole.test) - _central(whole, terms)(whole.test)).max())
        other = _dealt(rows, "iid" if split != "iid" else "one class", seed, schema, None)
        gaps.append(np.abs(model(whole.test) - of_sums(other, terms)(whole.test)).max())
    by_class = replace(drafted, content={**drafted.content, "model": {"kind": "quadratic-discriminant"}})
    scores["sums by class"] = scored(of_sums(parties, terms_of_sums(by_class, lead, schema)))
    parts = [(party.rows, party.labels) for party in parties]
    for arm, content in (
        ("rows, the default", drafted.content),
        ("rows, random-feature-svm", {**drafted.content, "model": {"kind": "random-feature-svm"}}),
    ):
        together = drafted_round(parties, content, schema, seed).play_unjudged()
        scores[arm] = float(np.mean([scored(partial(together, index)) for index in range(len(parties))]))
    scores["federated averaging"] = scored(lambda x: rivals.federated_averaging(parts, classes, x, seed=seed))
    scores["central boosting"] = scored(lambda x: rivals.central_boosting(parts, classes, x, seed=seed))
    scores["alone, tuned logistic"] = _alone(parts, whole, classes, seed)
    return Outcome(name, split, seed, scores, max(gaps[::2]), max(gaps[1::2]))


def measure(options: Options) -> Report:
    """Hold every round for every seed and return the rows and claims."""
    tables = ["breast_cancer", "digits"] + (["heart", "stroke", "ames", "mnist"] if options.data else [])
    jobs = [(table, split, seed) for table in tables for split in ("iid", "one class") for seed in SEEDS]
    outcomes = list(run_all(partial(run, folder=options.data), jobs))
    report = Report("sums")
    by_setup = defaultdict(list)
    for outcome in outcomes:
        by_setup[outcome.table, outcome.split].append(outcome)
    for (table, split), found in by_setup.items():
        means = {name: np.mean([one.scores[name] for one in found]) for name in found[0].scores}
        report.rows.append({"table": table, "split": split, "parties": PARTIES, **means})
    uplinks = uplinks_of_rounds((0, RANDOM_FEATURES))
    noised = outcomes_with_noise(options.data)
    report.rows += uplinks + rows_of(noised)
    add_claims(report, outcomes, uplinks[-1], noised)
    report.conditions |= {
        "score": "ROC-AUC in percent (one class against the rest) on a quarter of the rows",
        "seeds": list(SEEDS),
        "noise": f"accuracy in percent, delta = {DELTA:g}, seeds 0 to {max(NOISE_SEEDS)}",
        "random_features": RANDOM_FEATURES,
    }
    return report


def add_claims(
    report: Report, outcomes: Sequence[Outcome], uplink: Mapping[str, Any], noised: Sequence[Noised]
) -> None:
    """Add what we say of sums in public; the uplink is one with random features, as `uplinks_of_rounds`."""
    of_central = max(outcome.from_central for outcome in outcomes)
    of_split = max(outcome.from_other_split for outcome in outcomes)
    report.claim("sums_equals_central", of_central, "probability", "<=", 1e-4)
    report.claim("sums_split_invariance", of_split, "probability", "<=", 1e-4)
    report.claim("sums_bytes_over_formula", uplink["uplink_over_formula"], "ratio", "<=", 1.01)
    report.claim("sums_dp_gain_at_epsilon_3", gain(noised, 3.0), "points of accuracy", ">=", 50)


def _dealt(rows: Source, split: str, seed: int, schema: Schema, test: pa.Table | None) -> list[Encoded]:
    """Divide the rows among the institutions; every row has an owner."""
    setup = Setup(rows.name, split, PARTIES)  # type: ignore[arg-type]
    parts = divide(rows, setup, np.random.default_rng([seed, 16]), fewest=1)
    held_out = rows.table.slice(0, 0) if test is None else test
    return [encoded(rows.table.take(pa.array(part)), held_out, schema) for part in parts]


def _central(whole: Encoded, terms: Terms) -> Callable[[Matrix], NDArray[Any]]:
    """Fit the same model to all rows in one place."""
    features, classes = feature_map(terms, SEED), terms.table_schema.label_column.outputs
    total = extended_sums(whole.rows, whole.labels, features, classes)
    fitted = fit_total(SumsRidge(), total, terms.latent_dim, Classes(classes))
    return lambda rows: np.asarray(fitted.predictions(features(rows)))


def _alone(parts: Sequence[rivals.Part], whole: Encoded, classes: int, seed: int) -> float:
    """Return the mean score of the institutions' own models; one of a single class knows nothing."""
    found = []
    for part in parts:
        if len(np.unique(part[1])) < 2:
            found.append(50.0)
            continue
        predicted = rivals.tuned_logistic(part, classes, whole.test, seed=seed)
        found.append(_score(whole.test_labels, predicted, classes))
    return float(np.mean(found))


def _score(labels: Labels, probabilities: NDArray[Any], classes: int) -> float:
    if classes == 2:
        return 100 * float(roc_auc_score(labels, probabilities[:, 1]))
    one_against_rest = [roc_auc_score(labels == name, probabilities[:, name]) for name in range(classes)]
    return 100 * float(np.mean(one_against_rest))


if __name__ == "__main__":
    sys.exit(main(measure))
