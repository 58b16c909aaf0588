"""What it costs one institution, and the others, that it sends fewer numbers of a row than they do.

Terms as the lead drafts them from its own training rows, but for the alignment: `isotropic` needs equal
numbers, so `imakura` with equal ones stands between. Three institutions have a table's rows; the last one
sends three quarters or half of l. All are tested on rows of their own that did not train.
`python -m benchmarks.fewer_numbers --data DIR`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_auc_score

from benchmarks.defaults.tables import LABEL, Source, bundled, for_all_members, real
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from orthonormal_data_collaboration import Simulation, simulate
from protocol.table_schema import Schema
from user_client.sdk import PrivacyOptions, draft_terms

PARTIES: Final = ("first", "second", "careful")
CAREFUL: Final = PARTIES[-1]
BUNDLED, REAL = ("breast_cancer", "diabetes", "wine"), ("pima", "adult", "tcga", "heart")
MOST_ROWS: Final = 600
"""Of an institution, to train with and to be tested on."""
MOST_LOST: Final[Mapping[str, float]] = {"careful": 2.0, "others": 0.5}
SHARES: Final[Mapping[str, float]] = {"three_quarters": 0.75, "half": 0.5}


@dataclass(frozen=True)
class Job:
    """A table and a seed: of the rows, of the bases and of the noise."""

    table: str
    seed: int


def run(job: Job, folder: Path | None) -> dict[str, Any]:
    """Return the ROC-AUC of the careful institution and of the others, each way."""
    tables = bundled() | (real(folder) if folder else {})
    train, test = _parties(tables[job.table](), job.seed)
    terms = drafted_by_lead(train, [*train.values(), *test.values()])

    def played(**fields: Any) -> Simulation:
        return simulate(train, terms, label=LABEL, random_state=job.seed, hold_out=0.0, **fields)

    drafted = played()
    latent_dim = drafted.terms.latent_dim
    found = {"drafted": drafted, "equal": played(alignment="imakura")}
    for name, share in SHARES.items():
        own = max(1, math.floor(share * latent_dim))
        chosen = {CAREFUL: PrivacyOptions(latent_dim=own)}
        found[name] = played(alignment="imakura", least_latent_dim=1, privacy=chosen)
    row: dict[str, Any] = {"table": job.table, "seed": job.seed, "latent_dim": latent_dim}
    for name, one in found.items():
        scores = {party: _score(one, party, test[party]) for party in PARTIES}
        row[f"careful_{name}"] = scores[CAREFUL]
        row[f"others_{name}"] = float(np.mean([scores[party] for party in PARTIES[:-1]]))
    return row


def drafted_by_lead(train: Mapping[str, pa.Table], every: Sequence[pa.Table]) -> dict[str, Any]:
    """Return the content of the terms that the first party drafts from its training rows.

    Afterwards it adds levels that only others have, as after `odc terms check`: rows with one would be
    refused. The names of the classes are agreed on. Nothing else is taken from rows of others, or from rows
    to test on.
    """
    whole = pa.concat_tables(every)
    classes = sorted({str(label) for label in whole[LABEL].to_pylist()})
    lead = next(iter(train.values()))
    drafted = draft_terms(lead, label=LABEL, parties=list(train), title="benchmark", classes=classes)
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    wider = for_all_members(schema, Source("", whole))
    columns = tuple(
        more if hasattr(own, "levels") else own
        for own, more in zip(schema.columns, wider.columns, strict=True)
    )
    agreed = schema.model_copy(update={"columns": columns})
    anchor = {**drafted.content["anchor"], "rows": agreed.width}
    return {**drafted.content, "anchor": anchor, "table_schema": agreed.model_dump(mode="json")}


def _parties(source: Source, seed: int) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """Divide the rows, with the same share of each class everywhere."""
    rng, labels = np.random.default_rng(seed), source.labels
    places = rng.permutation(len(labels))
    places = places[np.argsort(labels[places], kind="stable")]  # dealt out class by class
    hands = [rng.permutation(places[start :: 2 * len(PARTIES)]) for start in range(2 * len(PARTIES))]
    of_party = [source.table.take(pa.array(hand[:MOST_ROWS])) for hand in hands]
    train, test = of_party[: len(PARTIES)], of_party[len(PARTIES) :]
    return dict(zip(PARTIES, train, strict=True)), dict(zip(PARTIES, test, strict=True))


def _score(played: Simulation, party: str, test: pa.Table) -> float:
    model = played[party]
    probabilities = np.asarray(model.predict_proba(test.drop_columns([LABEL])))
    places = {str(name): place for place, name in enumerate(model.classes_)}
    truth = np.array([places[str(label)] for label in test[LABEL].to_pylist()])
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(truth, probabilities[:, 1]))
    return float(roc_auc_score(truth, probabilities, multi_class="ovr"))


def measure(options: Options) -> Report:
    """Play every table with several seeds, each way on the same rows."""
    report = Report("fewer_numbers", {"shares": SHARES, "most_rows": MOST_ROWS})
    names = BUNDLED + (REAL if options.data is not None else ())
    jobs = [Job(table, seed) for table in names for seed in range(10 if options.full else 3)]
    report.rows = list(_shown(run_all(partial(run, folder=options.data), jobs)))
    for share in SHARES:
        for whom in ("careful", "others"):
            lost = [(row["table"], row[f"{whom}_equal"] - row[f"{whom}_{share}"]) for row in report.rows]
            by_table = [np.mean([cost for of, cost in lost if of == name]) for name in names]
            told = f"points of ROC-AUC; at most {100 * max(by_table):.1f} on a table"
            mean = 100 * float(np.mean([cost for _, cost in lost]))
            report.claim(f"fewer_numbers_cost_{whom}_{share}", mean, told, "<=", MOST_LOST[whom])
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        for whom in ("careful", "others"):
            told = (f"{name} {row[f'{whom}_{name}']:.3f}" for name in ("drafted", "equal", *SHARES))
            print(f"{row['table']} {row['seed']} l = {row['latent_dim']}, {whom}:", ", ".join(told))
        yield row


if __name__ == "__main__":
    sys.exit(main(measure))
