from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from user_client.privacy import lattices
from user_client.privacy.closest_vector import closest_vector
from user_client.privacy.orthogonal_lattice import orthogonal_lattice

needs_fpylll = pytest.mark.skipif(not lattices.available(), reason="fpylll is not installed")
Planted = tuple[np.ndarray, np.ndarray, list[np.ndarray]]


def planted(seed: int, *, rows: int = 120, latent_dim: int = 6) -> Planted:
    """Return rows of two numbers, six levels and eight flags, a basis, and the states of the columns."""
    rng = np.random.default_rng(seed)
    states = [
        np.linspace(-1, 1, 60)[:, None],
        np.sort(rng.uniform(-1, 1, 40))[:, None],
        np.eye(6) - 1 / 6,
        *(np.array([[-share], [1 - share]]) for share in rng.uniform(0.2, 0.8, 8)),
    ]
    table = np.hstack([one[rng.integers(0, len(one), rows)] for one in states])
    return table, np.linalg.qr(rng.standard_normal((table.shape[1], latent_dim)))[0], states


def sent(rows: np.ndarray, basis: np.ndarray, *, noise: float = 0.0) -> np.ndarray:
    exact = rows @ basis
    noisy = exact + noise * np.random.default_rng(7).standard_normal(exact.shape)
    return np.asarray(noisy.astype(np.float32), dtype=np.float64)


@needs_fpylll
@pytest.mark.parametrize("seed", range(3))
def test_colluders_rebuild_every_row_from_six_of_sixteen_dimensions(seed: int) -> None:
    rows, basis, states = planted(seed)
    found = closest_vector(rows, basis, sent(rows, basis), states, seed=seed)
    assert found is not None
    assert found.exact_rows == 1
    assert found.by_column == (1.0,) * 11
    assert found.rows == 60


@needs_fpylll
@pytest.mark.parametrize("seed", range(3))
def test_noise_hides_rows_from_colluders(seed: int) -> None:
    rows, basis, states = planted(seed)
    found = closest_vector(rows, basis, sent(rows, basis, noise=0.3), states, seed=seed, seconds=0.2)
    assert found is not None
    assert found.exact_rows <= 0.05
    assert found.right_columns < 0.9


@needs_fpylll
def test_real_numbers_in_every_column_are_not_rebuilt_exactly() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 8))
    basis = np.linalg.qr(rng.standard_normal((8, 4)))[0]
    found = closest_vector(rows, basis, sent(rows, basis), [np.empty((0, 1))] * 8, seed=0)
    assert found is not None
    assert found.exact_rows == 0


@needs_fpylll
def test_the_same_seed_attacks_the_same_rows() -> None:
    rows, basis, states = planted(0)
    first, second = (closest_vector(rows, basis, sent(rows, basis, noise=1e-3), states, seed=3) for _ in "ab")
    assert first is not None
    assert second is not None
    assert first.by_column == second.by_column


@needs_fpylll
@pytest.mark.parametrize("seed", range(3))
def test_the_analyst_alone_finds_relations_and_columns(seed: int) -> None:
    rows, basis, states = planted(seed, latent_dim=7)
    found = orthogonal_lattice(rows, sent(rows, basis), 1e-8, states, seed=seed)
    assert found is not None
    assert found.relations >= found.expected - 1  # one column is of real numbers
    assert found.held == found.two_valued == 14
    assert found.recovered == 14
    assert set(found.features) == set(range(2, 16))


@needs_fpylll
@pytest.mark.parametrize("seed", range(3))
def test_noise_leaves_the_analyst_no_relations(seed: int) -> None:
    rows, basis, states = planted(seed, latent_dim=7)
    found = orthogonal_lattice(rows, sent(rows, basis, noise=0.3), 0.3, states, seed=seed)
    assert found is not None
    assert found.relations <= 2
    assert not found.told_apart


@needs_fpylll
def test_a_few_rows_have_no_relations_to_find() -> None:
    rows, basis, states = planted(0, rows=10)
    assert orthogonal_lattice(rows, sent(rows, basis), 1e-8, states, seed=0) is None


@needs_fpylll
def test_a_basis_is_reduced_by_the_transformation_it_comes_with() -> None:
    rows = np.hstack([np.eye(8, dtype=np.int64), np.random.default_rng(0).integers(0, 10**6, (8, 2))])
    found, transform = lattices.reduced(rows), lattices.reducing(rows)
    np.testing.assert_array_equal(transform @ rows, found)
    assert round(abs(np.linalg.det(transform.astype(float)))) == 1
    assert np.abs(found).max() < np.abs(rows).max()


def test_without_the_library_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattices, "available", lambda: False)
    rows, basis, states = planted(0)
    assert closest_vector(rows, basis, sent(rows, basis), states, seed=0) is None
    assert orthogonal_lattice(rows, sent(rows, basis), 1e-8, states, seed=0) is None


@needs_fpylll
def test_the_library_does_not_keep_ctrl_c_or_a_hangup_from_ending_a_command() -> None:
    wait = (
        "import os, signal, sys;"  # a job in the background of a shell ignores both signals
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "from user_client.privacy import lattices; assert lattices.available();"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler;"
        "os.kill(os.getpid(), int(sys.argv[1])); signal.pause()"
    )
    for number in (signal.SIGINT, signal.SIGHUP):
        ended = subprocess.run(
            [sys.executable, "-c", wait, str(int(number))], capture_output=True, timeout=20, check=False
        )
        assert ended.returncode == -number
