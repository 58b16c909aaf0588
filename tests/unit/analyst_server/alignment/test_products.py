from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import _threads
from analyst_server.alignment._products import cross_products, mean_aligned
from analyst_server.alignment._threads import in_parts, thread_count
from tests.unit.analyst_server.alignment.parties import Matrix

SIZES = [(1, 1), (7, 1), (5, 8), (104, 50), (1001, 50), (9, 3), (300, 70)]


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


def test_what_one_thread_raises_reaches_the_caller() -> None:
    def fail(first: int, last: int) -> None:
        raise ValueError(f"part {first}")

    with pytest.raises(ValueError, match="part 0"):
        in_parts(fail, 4, 2)


def test_as_many_threads_are_taken_as_the_settings_of_the_blas_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _threads._LIMITS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert thread_count() == 8
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "dynamic")  # not a number: not for us
    assert thread_count() == 3
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "0")
    assert thread_count() == 1


def test_without_a_say_about_its_cores_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _threads._LIMITS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count() == 1
