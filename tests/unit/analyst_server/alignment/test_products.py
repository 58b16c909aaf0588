from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from analyst_server.alignment import _orthogonal, _threads
from analyst_server.alignment._orthogonal import cross_products, mean_aligned
from analyst_server.alignment._threads import (
    WORTH_A_THREAD,
    in_parts,
    multiplies_unpacked,
    own_threads,
    thread_count,
)
from tests.harness.problems import Matrix

SIZES = [(1, 1), (7, 1), (5, 8), (104, 50), (1001, 50), (9, 3), (300, 70), (5000, 4)]


def reps_of(rows: int, latent_dim: int, count: int = 5, dtype: Any = np.float64) -> list[Matrix]:
    rng = np.random.default_rng(rows + latent_dim)
    return [rng.standard_normal((rows, latent_dim)).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize(("rows", "latent_dim"), SIZES)
def test_cross_products_are_the_plain_products(rows: int, latent_dim: int) -> None:
    reps = reps_of(rows, latent_dim)
    found = cross_products(reps, reps[2])
    np.testing.assert_allclose(found, [rep.T @ reps[2] for rep in reps], rtol=0, atol=1e-13 * rows)


@pytest.mark.parametrize(("rows", "latent_dim"), SIZES)
def test_the_mean_is_the_plain_mean(rows: int, latent_dim: int) -> None:
    reps, changes = reps_of(rows, latent_dim), np.stack(reps_of(latent_dim, latent_dim))
    plain = sum(rep @ change for rep, change in zip(reps, changes, strict=True)) / len(reps)
    np.testing.assert_allclose(mean_aligned(reps, list(changes)), plain, rtol=0, atol=1e-13 * latent_dim)


def test_the_mean_is_taken_over_the_trusted_alone() -> None:
    reps, changes = reps_of(40, 3), reps_of(3, 3)
    expected = (reps[1] @ changes[1] + reps[4] @ changes[4]) / 2
    np.testing.assert_allclose(mean_aligned(reps, changes, [1, 4]), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("latent_dim", [4, 70])
def test_single_precision_stays_single(latent_dim: int) -> None:
    reps = reps_of(150, latent_dim, dtype=np.float32)
    changes = reps_of(latent_dim, latent_dim, dtype=np.float32)
    assert cross_products(reps, reps[0]).dtype == np.float32
    assert mean_aligned(reps, changes).dtype == np.float32


def test_parties_of_different_precision_meet_in_the_wider_one() -> None:
    reps = [reps_of(150, 4)[0], reps_of(150, 4, dtype=np.float32)[1]]
    assert cross_products(reps, reps[1]).dtype == np.float64
    assert mean_aligned(reps, reps_of(4, 4, 2, np.float32)).dtype == np.float64


def test_mapped_files_and_any_order_in_memory_are_read_as_they_are(tmp_path: Path) -> None:
    reps = reps_of(250, 6, 3)
    mapped = np.memmap(tmp_path / "rep", np.float64, mode="w+", shape=(250, 6))
    mapped[:] = reps[0]
    given = [mapped, np.asfortranarray(reps[1]), np.repeat(reps[2], 2, axis=0)[::2]]
    changes = reps_of(6, 6, 3)
    found, plain = cross_products(given, given[1]), cross_products(reps, reps[1])
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-11)
    np.testing.assert_allclose(mean_aligned(given, changes), mean_aligned(reps, changes), rtol=0, atol=1e-13)


def test_every_part_is_done_once() -> None:
    done: list[int] = []
    in_parts(lambda first, last: done.extend(range(first, last)), 10, 4)
    assert sorted(done) == list(range(10))


def test_more_threads_than_work_are_not_started() -> None:
    borders: list[tuple[int, int]] = []
    in_parts(lambda first, last: borders.append((first, last)), 2, 50)
    assert sorted(borders) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_what_one_thread_raises_reaches_the_caller(bad: int) -> None:
    done: list[int] = []

    def work(first: int, last: int) -> None:
        if first == bad:
            raise ValueError(f"part {first}")
        done.append(first)

    with pytest.raises(ValueError, match=f"part {bad}"):
        in_parts(work, 6, 3)
    assert sorted([bad, *done]) == [0, 2, 4]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are placed on Linux only")
def test_no_thread_is_kept_on_a_core() -> None:
    allowed, seen = os.sched_getaffinity(0), []
    in_parts(lambda _first, _last: seen.append(os.sched_getaffinity(0)), 4, 4)
    assert seen == [allowed] * 4
    assert os.sched_getaffinity(0) == allowed


def test_the_blas_has_one_thread_meanwhile_and_all_of_its_own_afterwards() -> None:
    with threadpool_limits(3, user_api="blas"):
        before = thread_count()
        with own_threads(WORTH_A_THREAD) as threads:
            assert (threads, thread_count()) == (before, 1)
        assert thread_count() == before


def test_little_work_changes_no_threads() -> None:
    with threadpool_limits(3, user_api="blas"), own_threads(WORTH_A_THREAD - 1) as threads:
        assert threads == 1
        assert thread_count() > 1


def test_a_second_alignment_leaves_the_thread_limit_to_the_first() -> None:
    with threadpool_limits(3, user_api="blas"):
        before = thread_count()
        with own_threads(WORTH_A_THREAD):
            with own_threads(WORTH_A_THREAD) as threads:
                assert threads == 1
            assert thread_count() == 1
        assert thread_count() == before


def test_an_error_restores_the_threads() -> None:
    with threadpool_limits(3, user_api="blas"):
        before = thread_count()
        with pytest.raises(ValueError, match="no"), own_threads(WORTH_A_THREAD):
            raise ValueError("no")
        assert thread_count() == before


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_the_products_do_not_depend_on_the_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_orthogonal, "own_threads", lambda _: nullcontext(threads))
    monkeypatch.setattr(_orthogonal, "BLOCK_ROWS", 32)
    reps, changes = reps_of(101, 5, 7), reps_of(5, 5, 7)
    plain = [rep.T @ reps[2] for rep in reps]
    np.testing.assert_allclose(cross_products(reps, reps[2]), plain, rtol=0, atol=1e-11)
    mean = sum(rep @ change for rep, change in zip(reps, changes, strict=True)) / 7
    np.testing.assert_allclose(mean_aligned(reps, changes), mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_unpacked", [False, True])
@pytest.mark.parametrize(("rows", "latent_dim"), SIZES)
def test_the_products_do_not_depend_on_how_many_rows_are_taken_at_a_time(
    rows: int, latent_dim: int, is_unpacked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_orthogonal, "multiplies_unpacked", lambda: is_unpacked)
    reps = reps_of(rows, latent_dim)
    np.testing.assert_allclose(
        cross_products(reps, reps[2]), [rep.T @ reps[2] for rep in reps], rtol=0, atol=1e-13 * rows
    )


@pytest.mark.parametrize(
    ("architectures", "is_unpacked"),
    [(["SkylakeX"], True), (["Haswell", "Cooperlake"], True), (["Haswell", "Zen"], False), ([None], False)],
)
def test_the_kernels_of_openblas_tell_whether_small_products_are_unpacked(
    architectures: list[str | None], is_unpacked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [{"internal_api": "openblas", "architecture": name} for name in architectures]
    monkeypatch.setattr(_threads, "_blas", lambda: SimpleNamespace(info=lambda: libraries))
    multiplies_unpacked.cache_clear()
    try:
        assert multiplies_unpacked() is is_unpacked
    finally:
        multiplies_unpacked.cache_clear()
