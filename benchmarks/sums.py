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

from analyst_server.compute.sums import SumsSpec, compute_sums
from analyst_server.store import MemoryBlobs, StoredArray
from analyst_server.training.from_sums import SumsRidge, fit_total
from analyst_server.training.tasks import Classes
from benchmarks.data import Labels, Matrix
from benchmarks.defaults import rivals
from benchmarks.defaults.collaboration import Encoded, drafted_round, encoded
from benchmarks.defaults.experiment import Setup, divide
from benchmarks.defaults.tables import LABEL, Source, bundled, for_all_members, real
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.sums_wire import uplinks_of_rounds
from protocol.arrays import little_endian, raw_bytes
from protocol.sums import exponent_of, to_fixed_point
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.custody.masks import MaskKey
from user_client.sdk import DraftedTerms, draft_terms, with_sums
from user_client.sdk.predictor import Model
from user_client.sdk.sums import feature_map, masked
from user_client.secret.sums import extended_sums

PARTIES: Final = 5
RANDOM_FEATURES: Final = 256
SEEDS: Final = range(3)
TESTED: Final = 0.25
"""Share of the rows that nobody trains on."""
SEED: Final = bytes(range(32))
"""What the lead seals; any other gives another turn of the features and other random ones."""


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
    drafted = _drafted(source, rows.table)
    schema = for_all_members(Schema.model_validate(drafted.content["table_schema"], strict=False), source)
    parties = _dealt(rows, split, seed, schema, source.table.take(pa.array(test)))
    whole = _one(parties)
    classes = schema.label_column.outputs

    def scored(predict: Callable[[Matrix], NDArray[Any]]) -> float:
        return _score(whole.test_labels, predict(whole.test), classes)

    scores, gaps = {}, []
    for arm, random_features in (("sums", 0), ("sums, random features", RANDOM_FEATURES)):
        terms = _terms(drafted, rows.table, schema, random_features)
        model = of_sums(parties, terms)
        scores[arm] = scored(model)
        gaps.append(np.abs(model(whole.test) - _central(whole, terms)(whole.test)).max())
        other = _dealt(rows, "iid" if split != "iid" else "one class", seed, schema, None)
        gaps.append(np.abs(model(whole.test) - of_sums(other, terms)(whole.test)).max())
    parts = [(party.rows, party.labels) for party in parties]
    together = drafted_round(parties, drafted.content, schema, seed).play_unjudged()
    scores["rows, the default"] = float(
        np.mean([scored(partial(together, index)) for index in range(len(parties))])
    )
    scores["federated averaging"] = scored(lambda x: rivals.federated_averaging(parts, classes, x, seed=seed))
    scores["central boosting"] = scored(lambda x: rivals.central_boosting(parts, classes, x, seed=seed))
    scores["alone, tuned logistic"] = _alone(parts, whole, classes, seed)
    return Outcome(name, split, seed, scores, max(gaps[::2]), max(gaps[1::2]))


def of_sums(parties: Sequence[Encoded], terms: Terms) -> Callable[[Matrix], NDArray[Any]]:
    """Do what institutions and analyst do under terms with sums; return how a member predicts."""
    if terms.sums is None:
        raise ValueError("these terms ask for rows")
    features, label = feature_map(terms, SEED), terms.table_schema.label_column
    exponent = exponent_of(terms.sums, terms.table_schema, len(terms.parties))
    keys = [MaskKey.generate() for _ in parties]
    public = [key.public_bytes() for key in keys]
    blobs, sent = MemoryBlobs(), []
    for name, key, party in zip(terms.parties, keys, parties, strict=True):
        numbers = to_fixed_point(extended_sums(party.rows, party.labels, features, label.outputs), exponent)
        covered = masked(numbers, key, terms, name, SEED, public)
        blobs.append(name, 0, raw_bytes(little_endian(covered, "u8")))
        blobs.commit(name)
        sent.append(StoredArray(name, 0, "u8", covered.shape))
    result = compute_sums(SumsSpec.of(terms, sent, "result"), blobs)
    model = Model(result.model.onnx_file.open(blobs).tobytes())
    return lambda rows: model.run(features(rows).astype(np.float32), label.model_output)


def measure(options: Options) -> Report:
    """Hold every round for every seed and return the rows and claims."""
    tables = ["breast_cancer", "digits"] + (["heart", "stroke", "ames"] if options.data else [])
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
    report.rows += uplinks
    add_claims(report, outcomes, uplinks[-1])
    report.conditions |= {
        "score": "ROC-AUC in percent (one class against the rest) on a quarter of the rows",
        "seeds": list(SEEDS),
        "random_features": RANDOM_FEATURES,
    }
    return report


def add_claims(report: Report, outcomes: Sequence[Outcome], uplink: Mapping[str, Any]) -> None:
    """Add what we say of sums in public; the uplink is one with random features, as `uplinks_of_rounds`."""
    of_central = max(outcome.from_central for outcome in outcomes)
    of_split = max(outcome.from_other_split for outcome in outcomes)
    report.claim("sums_equals_central", of_central, "probability", "<=", 1e-4)
    report.claim("sums_split_invariance", of_split, "probability", "<=", 1e-4)
    report.claim("sums_bytes_over_formula", uplink["uplink_over_formula"], "ratio", "<=", 1.01)


def _drafted(source: Source, table: pa.Table) -> DraftedTerms:
    names = sorted(set(source.table[LABEL].to_pylist()))
    parties = [f"party-{index}" for index in range(PARTIES)]
    lead = table.slice(
        0, table.num_rows // PARTIES
    )  # drafts from its own rows, before they are dealt by class
    return draft_terms(lead, label=LABEL, parties=parties, title="benchmark", classes=names)


def _terms(drafted: DraftedTerms, table: pa.Table, schema: Schema, random_features: int) -> Terms:
    lead = table.slice(0, table.num_rows // PARTIES)
    content = with_sums(drafted, lead, random_features=random_features).content
    ids = {"consortium_id": "c0" * 16, "collaboration_id": "c1" * 16}
    of_few = {**content["sums"], "min_rows": 2}  # by class, an institution may have few
    terms = {**content, **ids, "table_schema": schema.model_dump(mode="json"), "sums": of_few}
    features = schema.width + random_features
    anchor = {"kind": "haar", "rows": schema.width}
    return Terms.model_validate({**terms, "latent_dim": features, "anchor": anchor}, strict=False)


def _dealt(rows: Source, split: str, seed: int, schema: Schema, test: pa.Table | None) -> list[Encoded]:
    """Divide the rows among the institutions; every row has an owner."""
    setup = Setup(rows.name, split, PARTIES)  # type: ignore[arg-type]
    parts = divide(rows, setup, np.random.default_rng([seed, 16]), fewest=1)
    held_out = rows.table.slice(0, 0) if test is None else test
    return [encoded(rows.table.take(pa.array(part)), held_out, schema) for part in parts]


def _one(parties: Sequence[Encoded]) -> Encoded:
    return Encoded(
        np.vstack([party.rows for party in parties]),
        np.concatenate([party.labels for party in parties]),
        parties[0].test,
        parties[0].test_labels,
    )


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
