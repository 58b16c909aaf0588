"""Alignments spread over real workers of Dask: the numbers of one process, and no matrix on the way."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

from analyst_server.blobs import (
    STORE_ID_KEY,
    DamagedBlobError,
    DirectoryBlobs,
    StoredArray,
    id_of,
    store_array,
)
from analyst_server.compute.aligned import AlignedRound
from analyst_server.compute.dask_hands import DaskHands
from analyst_server.compute.dask_look import LOOK_S, DaskLook
from analyst_server.compute.dask_pool import DaskPool
from analyst_server.compute.sequence import PartyArrays, RoundSpec, align_parties
from analyst_server.compute.sight import ArraysNotSeenError, worker_of
from analyst_server.compute.spreading import spread_by
from odc_demo.actors import free_port
from protocol.alignment_terms import AlignmentTerms
from protocol.labels import Label
from protocol.model_terms import LogisticTerms
from runtime.confinement import landlock_version
from tests.harness.dask import Cluster, cluster

METHODS = ("odc", "isotropic", "imakura", "kawakami", "procrustes", "gopp", "rdp")
PARTIES, ROWS, LATENT_DIM = 7, 60, 5
MOST_BYTES = 2**16
"""Of what is submitted for one task."""


@dataclass
class Spread:
    """A store, and the workers that reach it."""

    workers: Cluster
    blobs: DirectoryBlobs
    client: Any


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    folder = tmp_path_factory.mktemp("dask")
    with (
        cluster(folder / "cluster", folder / "blobs") as made,
        Client(made.url, set_as_default=False) as client,
    ):
        yield Spread(made, DirectoryBlobs(folder / "blobs"), client)


def spec_of(
    blobs: DirectoryBlobs,
    name: str,
    *,
    method: Any = "odc",
    parties: int = PARTIES,
    rows: int = ROWS,
    latent_dim: int = LATENT_DIM,
    dtype: str = "f8",
) -> RoundSpec:
    """A round in which the third party has sent the anchor representation of another anchor."""
    rng = np.random.default_rng(0)
    features = 2 * latent_dim + 4
    anchor = rng.uniform(size=(rows, features))
    sent = []
    for party in range(parties):
        basis = np.linalg.qr(rng.standard_normal((features, latent_dim)) + 8 * np.eye(features, latent_dim))[
            0
        ]
        of = rng.uniform(size=anchor.shape) if party == 2 else anchor

        def kept(kind: str, array: NDArray[Any], party: int = party) -> StoredArray:
            return store_array(blobs, f"{name}/{party}-{kind}", array)

        sent.append(
            PartyArrays(
                f"party-{party}",
                kept("rep", rng.standard_normal((20, latent_dim)).astype(dtype)),
                kept("anchor", (of @ basis).astype(dtype)),
                kept("labels", np.arange(20, dtype="u1") % 2),
            )
        )
    return RoundSpec(
        parties=tuple(sent),
        label=Label(name="y", classes=("no", "yes")),
        alignment=AlignmentTerms(method=method, target="haar", seed=1),
        model=LogisticTerms(),
        anchor_is_isotropic=False,
        folder=f"{name}/work",
        keeps_target=True,
    )


def aligned_by(spread: Spread, spec: RoundSpec, hands: type[DaskHands] = DaskHands) -> AlignedRound:
    """Align with the workers, from this process."""

    @contextmanager
    def by_workers(given: RoundSpec, blobs: Any) -> Iterator[DaskHands]:
        made = hands(spread.client, sorted(spread.client.nthreads()), blobs, f"{given.folder}/groups")
        yield made
        made.put_away()

    with spread_by(by_workers):
        return align_parties(spec, spread.blobs)


def numbers(found: AlignedRound, blobs: DirectoryBlobs) -> list[NDArray[Any]]:
    agreement = found.agreement
    target = [] if found.target is None else [found.target.open(blobs)]
    return [
        found.changes_of_basis.open(blobs),
        *target,
        np.array(list(agreement.party_gaps.values())),
        np.array(list(agreement.spectrum_spread.values())),
        np.array(list(agreement.spectra.values())),
        np.radians(list(agreement.span_angles.values())),
    ]


@pytest.mark.parametrize("method", METHODS)
def test_workers_find_the_numbers_of_one_process(spread: Spread, method: str) -> None:
    spec = spec_of(spread.blobs, f"same-{method}", method=method)
    here = align_parties(spec, spread.blobs)
    there = aligned_by(spread, replace(spec, folder=f"{spec.folder}-dask"))
    for one, other in zip(numbers(here, spread.blobs), numbers(there, spread.blobs), strict=True):
        # an angle near 0 is as exact as the square root of a rounding
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        there.changes_of_basis.open(spread.blobs), here.changes_of_basis.open(spread.blobs), rtol=0, atol=1e-9
    )
    assert [(one.party, one.assumption) for one in there.suspicions] == [
        (one.party, one.assumption) for one in here.suspicions
    ]
    assert [one.party for one in there.suspicions] == ["party-2"]
    assert (there.trusted, there.left_out) == (here.trusted, here.left_out)


def test_nothing_is_left_of_what_the_workers_wrote_to_each_other(spread: Spread) -> None:
    spec = spec_of(spread.blobs, "left")
    aligned_by(spread, spec)
    left = [key for key in spread.blobs.whole_keys() if key.startswith(f"{spec.folder}/")]
    assert sorted(left) == [f"{spec.folder}/changes_of_basis", f"{spec.folder}/target"]


class Weighed(DaskHands):
    """Notes how many bytes are submitted for a task, and come back, at most."""

    most = 0

    def run(self, tasks: Any) -> Any:
        found = super().run(tasks)
        for (_, *sent), back in zip(tasks, found, strict=True):
            Weighed.most = max(Weighed.most, len(pickle.dumps(sent)), len(pickle.dumps(back)))
        return found


def test_no_matrix_goes_through_the_scheduler(spread: Spread) -> None:
    spec = spec_of(spread.blobs, "weighed", method="isotropic", parties=150, rows=400, latent_dim=32)
    aligned_by(spread, spec, Weighed)
    assert 1000 < Weighed.most < MOST_BYTES
    assert spec.parties[0].anchor_rep.size_bytes > MOST_BYTES


def test_a_damaged_array_is_found_by_whoever_reads_it(spread: Spread) -> None:
    spec = spec_of(spread.blobs, "damaged")
    key = spec.parties[3].rep.key
    spread.blobs.write(key, bytes(spec.parties[3].rep.size_bytes))
    with pytest.raises(DamagedBlobError, match=key) as caught:
        aligned_by(spread, spec)
    assert worker_of(caught.value) in addresses(spread), "whoever looks at it again can say where it was seen"


def test_a_step_says_at_which_worker_it_met_a_disk_that_fails(spread: Spread) -> None:
    missing = StoredArray("nothing/here", 0, "f8", (3, 2))
    pool = DaskPool(spread.workers.url)
    try:
        with pytest.raises(FileNotFoundError) as caught:
            pool.submit(missing.open, spread.blobs).result(60)
    finally:
        pool.shutdown()
    assert worker_of(caught.value) in addresses(spread)
    assert worker_of(FileNotFoundError()) is None


def test_a_worker_that_sees_another_store_computes_nothing(spread: Spread, tmp_path: Path) -> None:
    own = DirectoryBlobs(spread.workers.blob_dir / "own")  # a store of its own below what workers may read
    for each in (own, DirectoryBlobs(tmp_path)):
        each.write(STORE_ID_KEY, b"a" * 32)
    outcomes = {}
    for expected in ("", "a" * 32, "b" * 32):
        pool = DaskPool(spread.workers.url, expected)
        try:
            outcomes[expected] = pool.submit(id_of, own).exception(60)
            if expected and landlock_version():
                outcomes["elsewhere"] = pool.submit(id_of, DirectoryBlobs(tmp_path)).exception(60)
        finally:
            pool.shutdown()
    assert outcomes[""] is outcomes["a" * 32] is None
    error = outcomes["b" * 32]
    assert isinstance(error, ArraysNotSeenError)
    assert error.worker in addresses(spread)
    assert (error.place, error.found) == (own.place, f"it has the id {'a' * 32}, not {'b' * 32}")
    assert error.worker in str(error)
    assert str(spread.workers.blob_dir) not in str(error), "members read it"
    if landlock_version():
        assert isinstance(outcomes["elsewhere"], ArraysNotSeenError)
        assert outcomes["elsewhere"].found == "it may not be read: Permission denied"


def test_whether_workers_are_there_is_seen_without_waiting_for_them(
    spread: Spread, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = DaskLook(f"tcp://127.0.0.1:{free_port()}")
    for _ in range(30):  # a loaded machine may take longer to answer than a look waits
        caplog.clear()
        look = DaskLook(spread.workers.url)
        assert not look.has_workers(), "nobody has looked"
        look.look()
        if look.has_workers():
            break
    assert look.has_workers()
    assert caplog.text == ""
    began = time.monotonic()
    for _ in range(2):
        nobody.look()
    assert not nobody.has_workers()
    assert time.monotonic() - began < 4 * LOOK_S
    assert caplog.text.count("does not answer") == 1
    assert DaskLook("").has_workers(), "this machine computes"


def addresses(spread: Spread) -> set[str]:
    return {address.rpartition("/")[2] for address in spread.client.nthreads()}


def test_a_step_on_a_worker_spreads_over_all_of_them(spread: Spread) -> None:
    spec = spec_of(spread.blobs, "step", parties=12, rows=1600, latent_dim=128, dtype="f4")
    done = tasks_done(spread)
    pool = DaskPool(spread.workers.url)
    try:
        there = pool.submit(align_parties, spec, spread.blobs).result(120)
    finally:
        pool.shutdown()
    assert all(after > before for before, after in zip(done, tasks_done(spread), strict=True))
    here = align_parties(replace(spec, folder=f"{spec.folder}-here"), spread.blobs)
    for one, other in zip(numbers(here, spread.blobs), numbers(there, spread.blobs), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-3)  # single precision


def test_a_worker_opens_blobs_alone_and_connects_to_its_scheduler_alone(
    spread: Spread, tmp_path: Path
) -> None:
    if landlock_version() < 4:
        pytest.skip("this kernel has no Landlock for TCP")
    (tmp_path / "key.pem").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as other:
        pool = DaskPool(spread.workers.url)
        try:
            with pytest.raises(PermissionError):
                pool.submit((tmp_path / "key.pem").read_text).result(60)
            with pytest.raises(PermissionError):
                pool.submit(socket.create_connection, other.getsockname()).result(60)
            assert pool.submit(spread.blobs.whole_keys).result(60) == spread.blobs.whole_keys()
        finally:
            pool.shutdown()


def tasks_done(spread: Spread) -> list[int]:
    """Return a number of each worker that grows with every task that it runs."""
    # a function without a name travels whole: a worker cannot open the files of our tests
    return list(spread.client.run(lambda dask_worker: dask_worker.state.transition_counter).values())
