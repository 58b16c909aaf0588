"""A whole round of ours compared with federated averaging by Flower: 40 rounds, and until it is as good.

Bytes, seconds and scores, under drafted terms; with ``--full`` also under hand-picked ones without noise, of
which nothing is claimed. Needs Linux, root and `ip` (network namespaces). Flower gets its own virtual
environment in build/.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import report
from benchmarks.wire import by_round, flower, ours, tables
from benchmarks.wire.claims import add_claims, our_row, sitting_row
from benchmarks.wire.compare import Compared
from odc_demo import sitting
from odc_demo.namespaces import why_not

BUILD: Final = Path("build").resolve()
OUR_ROUNDS: Final = 3
"""Each takes seconds; Flower's supported deployment takes minutes and runs once."""


def measure(options: report.Options) -> report.Report:
    """Measure all available data sets and return the rows and claims."""
    if (reason := why_not()) is not None:
        sys.exit(f"this benchmark measures between network namespaces: {reason}")
    environment = BUILD / "flower-venv"
    works = [*tables.bundled(), *(tables.real(options.data) if options.data else [])]
    found = report.Report("wire", _conditions(flower.install(environment), works, options))
    exchanged = sitting.one_sitting(_emptied(BUILD / "wire" / "sitting"))
    for name, one in exchanged.items():
        _tell(found, sitting_row(name, one))
    large = tables.large_uplinks(rows=200_000 if options.full else 20_000)
    large_round = ours.whole_round(large, BUILD / "wire" / large.name)
    _tell(found, our_row(large, large_round))
    compared = [_compare(work, environment, found) for work in works]
    for work in tables.hand_picked(options.data) if options.full else ():
        _compare(work, environment, found)
    add_claims(found, large_round, compared, exchanged)
    return found


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _compare(work: tables.Work, environment: Path, found: report.Report) -> Compared:
    """Do the same work with our round and both of Flower's deployments, one after another."""
    out = BUILD / "wire" / work.name
    our_rounds = tuple(ours.whole_round(work, out / "odc") for _ in range(OUR_ROUNDS))
    for one in our_rounds:
        _tell(found, our_row(work, one))
    our_round = ours.typical(our_rounds)
    folder = out / "flower-grpc"
    grpc_api = flower.grpc_api(work, environment, folder)
    _tell(found, _flower_row(work, "Flower, deprecated gRPC API", grpc_api, our_round))
    supported = flower.supported(work, environment, out / "flower")
    _tell(found, _flower_row(work, "Flower, SuperLink and SuperNodes", supported, our_round))
    accuracies = by_round.accuracies(folder, len(work.parties), work.schema.label_column.outputs)
    reached = by_round.first_round(accuracies, our_round.scores["accuracy"])
    early = supported
    if reached is not None:
        early = _to_our_score(work, environment, reached, our_round, found)
    best = {"best_round": int(np.argmax(accuracies)) + 1, "best_accuracy": max(accuracies)}
    curve = {"rounds_to_our_score": reached, **best, "accuracy_by_round": accuracies}
    _tell(found, {"dataset": work.name, "system": "Flower, computed", **curve})
    return Compared(work, our_rounds, supported, grpc_api, accuracies, early)


def _to_our_score(
    work: tables.Work, environment: Path, rounds: int, our_round: ours.Round, found: report.Report
) -> flower.Federation:
    """Run both deployments again until the round that scores as ours; return the supported one."""
    out = BUILD / "wire" / work.name
    grpc_api = flower.grpc_api(work, environment, out / "flower-grpc-early", rounds=rounds)
    _tell(found, _flower_row(work, f"Flower, deprecated gRPC API, {rounds} rounds", grpc_api, our_round))
    supported = flower.supported(work, environment, out / "flower-early", rounds=rounds)
    _tell(
        found, _flower_row(work, f"Flower, SuperLink and SuperNodes, {rounds} rounds", supported, our_round)
    )
    return supported


def _flower_row(
    work: tables.Work, system: str, federation: flower.Federation, our_round: ours.Round
) -> dict[str, Any]:
    return {
        "dataset": work.name,
        "system": system,
        "parties": len(work.parties),
        "bytes": federation.bytes,
        "seconds": federation.seconds,
        "bytes_over_ours": federation.bytes / our_round.bytes,
        "seconds_over_ours": federation.seconds / our_round.seconds,
        **federation.scores,
    }


def _conditions(flower_version: str, works: list[tables.Work], options: report.Options) -> dict[str, Any]:
    return {
        "flower": flower_version,
        "rounds_of_flower": flower.ROUNDS,
        "epochs_a_round": flower.EPOCHS,
        "terms": "drafted, but all rows train (hold_out 0); with --full also hand-picked ones: no claims",
        "our_rounds": f"{OUR_ROUNDS}: ratios use the one with the median time, scores are the means of all",
        "datasets": [work.name for work in works],
        "left_out": [] if options.data else ["mnist and heart: they need --data"],
        "bytes": "interface counters at each party, both directions, Ethernet, IP and TCP headers included",
        "seconds": "from the first process to the final model's predictions on every party's disk",
    }


def _tell(found: report.Report, row: dict[str, Any]) -> None:
    """Add a row and print it at once, because the next one may take minutes."""
    found.rows.append(row)
    shown = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
    print(
        ", ".join(f"{key} {value}" for key, value in shown.items() if not isinstance(value, dict | list)),
        flush=True,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces and processes are removed
    sys.exit(report.main(measure))
