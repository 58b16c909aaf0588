"""Rounds on the workers of a Dask scheduler: two workers beside one, and more rows than one may hold.

Scheduler and workers are processes of this machine, and the blobs lie in a directory that all of them reach.
Each worker has one thread, also for products of matrices. The same alignment runs on a scheduler with one
worker and on one with two, in turn, and the claim is the median of the ratios of neighbouring runs. The
scheduler, and whoever waits, take next to no time. Processor time of the workers is told besides: where other
programs run, it says more than the clock. Then X^ of more bytes than a worker may take is aligned and trained
on, and its bytes are compared with the peak that the kernel has counted of the worker that took most.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import DirectoryBlobs, StoredArray, store_array
from analyst_server.compute.aligned import AlignedRound
from analyst_server.compute.dask_pool import DaskPool
from analyst_server.compute.sequence import (
    PartyArrays,
    RoundSpec,
    align_parties,
    train_model,
)
from analyst_server.compute.trained import TrainedModel
from benchmarks import report
from benchmarks.memory import peak_mb
from protocol.alignment_terms import AlignmentTerms
from protocol.labels import Label
from protocol.model_terms import LogisticTerms
from tests.harness.dask import Cluster, cluster

LIMIT_S: Final = 900
AT_ONCE_ROWS: Final = 2**17


@dataclass(frozen=True)
class Sizes:
    """Of the two measurements.

    Attributes
    ----------
    parties, anchor_rows, latent_dim
        Of the alignment that is timed.
    pairs : int
        How often it runs on either scheduler.
    memory_mb : int
        What a worker may take in the second measurement.
    rows : int
        All rows in it, of four parties.
    """

    parties: int = 128
    anchor_rows: int = 6000
    latent_dim: int = 200
    pairs: int = 3
    memory_mb: int = 800
    rows: int = 4_000_000


FULL: Final = Sizes(pairs=9, rows=12_000_000)


def measure(options: report.Options) -> report.Report:
    """Run both measurements."""
    return measure_sizes(FULL if options.full else Sizes())


def measure_sizes(sizes: Sizes) -> report.Report:
    """Run both measurements in these sizes."""
    found = report.Report("dask", {**vars(sizes), "threads_of_a_worker": 1, "method": "isotropic"})
    with tempfile.TemporaryDirectory(prefix="odc-dask-") as folder:
        compare_workers(found, Path(folder), sizes)
    with tempfile.TemporaryDirectory(prefix="odc-dask-") as folder:
        train_on_more_than_fits(found, Path(folder), sizes)
    return found


def compare_workers(found: report.Report, folder: Path, sizes: Sizes) -> None:
    """Time the same alignment on one worker and on two, in turn."""
    blobs = DirectoryBlobs(folder / "blobs")
    # with fewer rows than latent dimensions no span would be judged, which are half of the passes
    rows = 2 * sizes.latent_dim
    spec = spec_of(blobs, sizes.parties, sizes.anchor_rows, sizes.latent_dim, rows=rows)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    processor: dict[int, list[list[float]]] = {1: [], 2: []}
    with _pool(folder, 1) as one, _pool(folder, 2) as two:
        for turn in range(sizes.pairs + 1):
            for workers, (made, pool) in ((1, one), (2, two)):
                given = replace(spec, folder=f"round/{workers}-{turn}")
                before, began = processor_seconds(made), time.perf_counter()
                _aligned(pool, given, blobs)
                if turn:  # the first loads libraries
                    seconds[workers].append(time.perf_counter() - began)
                    spent = zip(before, processor_seconds(made), strict=True)
                    processor[workers].append([after - earlier for earlier, after in spent])
    for workers, taken in seconds.items():
        found.rows.append(
            {
                "step": "align",
                "workers": workers,
                "seconds": float(np.median(taken)),
                "all_seconds": taken,
                "busiest_worker_seconds": float(np.median([max(each) for each in processor[workers]])),
                "processor_seconds": float(np.median([sum(each) for each in processor[workers]])),
            }
        )
    ratios = np.array(seconds[1]) / np.array(seconds[2])
    found.claim("dask_two_vs_one_workers", float(np.median(ratios)), "times as fast", ">=", 1.6)


def processor_seconds(made: Cluster) -> list[float]:
    """Return the processor time of each worker so far."""
    return [spent.user + spent.system for spent in (child.cpu_times() for child in made.children())]


def train_on_more_than_fits(found: report.Report, folder: Path, sizes: Sizes) -> None:
    """Align and train where X^ is larger than what one worker may take."""
    blobs = DirectoryBlobs(folder / "blobs")
    spec = spec_of(blobs, 4, 400, 100, rows=sizes.rows // 4)
    with _pool(folder, 2, memory_mb=sizes.memory_mb) as (made, pool):
        workers = [child.pid for child in made.children()]
        began = time.perf_counter()
        aligned = _aligned(pool, spec, blobs)
        at = time.perf_counter()
        trained: TrainedModel = pool.submit(train_model, spec, blobs, aligned).result(LIMIT_S)
        ended = time.perf_counter()
        if [child.pid for child in made.children()] != workers:
            raise RuntimeError("a worker was started again, and nobody knows the peak of the one before")
        peaks_mb = [peak_mb(pid) for pid in workers]
    size_mb = sum(party.rep.size_bytes for party in spec.parties) / 2**20
    found.rows.append(
        {
            "step": "align and train",
            "x_mb": size_mb,
            "memory_mb": sizes.memory_mb,
            "peaks_mb": peaks_mb,
            "align_seconds": at - began,
            "train_seconds": ended - at,
            "rows": sizes.rows,
            "rows_trained": trained.rows,
        }
    )
    if all(peaks_mb):  # Linux alone tells the peak of another process
        found.claim("dask_x_over_memory", size_mb / max(peaks_mb), "of a worker's peak", ">=", 1.5)


def _aligned(pool: DaskPool, spec: RoundSpec, blobs: DirectoryBlobs) -> AlignedRound:
    return pool.submit(align_parties, spec, blobs).result(LIMIT_S)


@contextmanager
def _pool(folder: Path, workers: int, **options: Any) -> Iterator[tuple[Cluster, DaskPool]]:
    with cluster(folder / f"cluster-{workers}", folder / "blobs", workers, **options) as made:
        pool = DaskPool(made.url)
        try:
            yield made, pool
        finally:
            pool.shutdown()


def spec_of(
    blobs: DirectoryBlobs, parties: int, anchor_rows: int, latent_dim: int, *, rows: int
) -> RoundSpec:
    """Store what parties with as many rows each have sent, and return their round."""
    rng = np.random.default_rng(0)
    features = latent_dim + 8
    anchor = rng.uniform(size=(anchor_rows, features))
    sent: Sequence[PartyArrays] = [
        PartyArrays(
            f"party-{party}",
            _stored_rows(blobs, f"sent/{party}-rep", (rows, latent_dim), rng),
            store_array(
                blobs, f"sent/{party}-anchor", (anchor @ _basis(rng, features, latent_dim)).astype("f4")
            ),
            store_array(blobs, f"sent/{party}-labels", rng.integers(0, 2, rows).astype("u1")),
        )
        for party in range(parties)
    ]
    return RoundSpec(
        parties=tuple(sent),
        label=Label(name="label", classes=("no", "yes")),
        alignment=AlignmentTerms(method="isotropic"),
        model=LogisticTerms(epochs=5),
        anchor_is_isotropic=False,
        folder="round/0",
    )


def _basis(rng: np.random.Generator, features: int, latent_dim: int) -> NDArray[np.float64]:
    """Return a basis whose span has most directions in common with those of other parties."""
    shared = 8 * np.eye(features, latent_dim)
    return np.asarray(np.linalg.qr(rng.standard_normal(shared.shape) + shared)[0])


def _stored_rows(
    blobs: DirectoryBlobs, key: str, shape: tuple[int, int], rng: np.random.Generator
) -> StoredArray:
    """Store rows a part at a time; they have no digest, as `store_array` takes only what fits into memory."""
    rows, latent_dim = shape
    for start in range(0, rows, AT_ONCE_ROWS):
        part = rng.standard_normal((min(AT_ONCE_ROWS, rows - start), latent_dim), dtype=np.float32)
        blobs.append(key, start * latent_dim * 4, part.tobytes())
    blobs.commit(key)
    return StoredArray(key, 0, "f4", shape)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark as a command; return its exit code."""
    return report.main(measure, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
