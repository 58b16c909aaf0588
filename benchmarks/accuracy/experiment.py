"""One experiment: divide rows among parties, draw their bases, align in every way, fit, score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from benchmarks import data
from benchmarks.accuracy.bases import draw_anchor, principal_directions
from benchmarks.accuracy.methods import Way
from benchmarks.accuracy.models import Kind, Metric, scores
from benchmarks.data import Dataset, Labels, Matrix
from orthonormal_data_collaboration.bases import Condition, turn
from protocol.anchor_terms import ANCHORS, AnchorKind
from protocol.gaussian_mechanism import gaussian_sigma
from user_client.privacy.noise import add_noise, clip_rows

Halves = Literal["complementary", "half of the parties"]
"""Which columns a party has: of each pair one half and the other, or of every second party half."""
Split = Literal["iid", "five classes", "two classes", "one class", "hospitals"]
CLASSES_PER_PARTY: Final[Mapping[Split, int]] = {"five classes": 5, "two classes": 2, "one class": 1}
DELTA: Final = 1e-3
"""Of noise on rows, as in arXiv:2403.02780v5, Figure 5."""
LOCAL_PARTIES: Final = 10
"""Number of parties over which local models are averaged; a hundred fits would tell no more."""


@dataclass(frozen=True)
class Party:
    """One institution's rows and the rows it wants predictions for."""

    rows: Matrix
    labels: Labels
    test: Matrix
    test_labels: Labels


@dataclass(frozen=True)
class Noise:
    """Noise on every number that a party sends, by the Gaussian mechanism at delta = 0.001.

    Attributes
    ----------
    unit : {"row", "feature"}
        What may be replaced by anything else without being noticed: a whole row, clipped to the norm that
        nine tenths of a party's rows stay below, or one feature between 0 and 1.
    """

    epsilon: float
    unit: Literal["row", "feature"]

    def added_to(self, party: Party, rng: np.random.Generator) -> Party:
        """Return the party with noise on the rows that it trains with."""
        rows, sensitivity = party.rows, 1.0
        if self.unit == "row":
            clip = float(np.quantile(np.linalg.norm(rows, axis=1), 0.9))
            rows, sensitivity = clip_rows(rows, clip), 2 * clip
        sigma = gaussian_sigma(self.epsilon, DELTA, sensitivity=sensitivity)
        return replace(party, rows=add_noise(rows, sigma, rng.standard_normal))

    def __str__(self) -> str:
        return f"DP {self.epsilon:g} per {self.unit}"


@dataclass(frozen=True)
class Setup:
    """The sizes of one experiment and what is compared in it.

    Attributes
    ----------
    table : str
        The table of a paper that it repeats, or the name of a table of ours.
    rows_per_party : int
        0 for all rows there are.
    test_rows : int
        Number of rows drawn from the test set. Every party predicts all of them if ``same_test``; otherwise
        they are divided among the parties.
    oracles : bool
        Whether to fit also a model on all parties' own rows (Central) and on one party's own rows (Local).
    halves : {"complementary", "half of the parties"}, optional
        Which parties lack half of the columns: their features are zero, and so is the basis on them.
    noises : tuple of Noise
        With each of them a model is fitted on all parties' noisy rows, as is.
    """

    table: str
    dataset: str
    split: Split
    parties: int
    rows_per_party: int
    latent_dim: int
    anchor_rows: int
    conditions: tuple[Condition, ...]
    ways: tuple[Way, ...]
    models: tuple[Kind, ...]
    metrics: tuple[Metric, ...]
    epochs: int
    test_rows: int
    same_test: bool = False
    oracles: bool = True
    halves: Halves | None = None
    noises: tuple[Noise, ...] = ()


@dataclass(frozen=True)
class Job:
    """An experiment, its seed, and the directory of the real data."""

    setup: Setup
    seed: int
    directory: Path | None


@dataclass(frozen=True)
class Cell:
    """What one score belongs to; ``condition`` and ``anchor`` are None for Central and Local."""

    setup: Setup
    condition: Condition | None
    method: str
    anchor: AnchorKind | None
    centred: bool
    model: Kind
    one_scale: bool
    metric: Metric


def load(name: str, directory: Path | None, seed: int) -> Dataset:
    """Return a data set by its name; the small ones are split differently for every seed."""
    if name == "digits":
        return data.digits(seed)
    if name == "breast cancer":
        return data.breast_cancer(seed)
    if directory is None:
        raise data.DataFileError(f"{name} needs --data DIR (docs/benchmarks.md)")
    if name in data.MOLECULES:
        return data.molecules(directory, name)
    if name in ("heart", "stroke"):
        return data.heart(directory, seed) if name == "heart" else data.stroke(directory, seed)
    return {"MNIST": data.mnist, "Fashion-MNIST": data.fashion_mnist, "Adult": data.adult}[name](directory)


def deal(dataset: Dataset, setup: Setup, rng: np.random.Generator) -> list[Party]:
    """Return the parties with the rows of their split."""
    if setup.split == "hospitals":
        return _hospitals(dataset)
    mine = _shares(dataset.train_labels, setup, rng)
    test = rng.permutation(len(dataset.test))[: setup.test_rows]
    tests = [test] * setup.parties if setup.same_test else np.array_split(test, setup.parties)
    parties = [
        Party(
            dataset.train[rows], dataset.train_labels[rows], dataset.test[tested], dataset.test_labels[tested]
        )
        for rows, tested in zip(mine, tests, strict=True)
    ]
    return parties if setup.halves is None else _with_half_of_the_columns(parties, dataset, setup.halves, rng)


def _with_half_of_the_columns(
    parties: list[Party], dataset: Dataset, halves: Halves, rng: np.random.Generator
) -> list[Party]:
    """Return the parties without the columns they lack, which are drawn at random; zeros stand for them."""
    if dataset.columns is None:
        raise ValueError(f"{dataset.name} does not say which column a feature is of")
    names = rng.permutation(int(dataset.columns.max()) + 1)
    first = np.isin(dataset.columns, names[: len(names) // 2])
    others = ~first if halves == "complementary" else np.ones_like(first)
    held = [first if index % 2 else others for index in range(len(parties))]
    return [
        replace(party, rows=party.rows * has, test=party.test * has)
        for party, has in zip(parties, held, strict=True)
    ]


def run_job(job: Job) -> list[tuple[Cell, float]]:
    """Return the score of every cell of a job."""
    return run(job.setup, job.seed, job.directory)


def run(setup: Setup, seed: int, directory: Path | None) -> list[tuple[Cell, float]]:
    """Return the score of every cell for one seed."""
    rng = np.random.default_rng([seed, setup.parties, setup.latent_dim])
    parties = deal(load(setup.dataset, directory, seed), setup, rng)
    found = list(_oracles(setup, parties, seed)) if setup.oracles else []
    directions = [principal_directions(party.rows, setup.latent_dim, rng) for party in parties]
    features = parties[0].rows.shape[1]
    anchors = {
        kind: _anchor(kind, setup, features, rng, directory)
        for kind in dict.fromkeys(way.anchor for way in setup.ways)
    }
    for condition in setup.conditions:
        bases = turn(directions, condition, rng)
        sent = [
            replace(party, rows=party.rows @ basis, test=party.test @ basis)
            for party, basis in zip(parties, bases, strict=True)
        ]
        for way in setup.ways:
            changes = way.align([anchors[way.anchor] @ basis for basis in bases], rng)
            aligned = [
                replace(party, rows=party.rows @ change, test=party.test @ change)
                for party, change in zip(sent, changes, strict=True)
            ]
            blank = Cell(setup, condition, way.method, way.anchor, way.centred, "svm", False, "accuracy")
            found += _scored(blank, aligned, seed)
    return found


def _oracles(setup: Setup, parties: list[Party], seed: int) -> Iterator[tuple[Cell, float]]:
    central = Cell(setup, None, "central", None, False, "svm", False, "accuracy")
    yield from _scored(central, parties, seed)
    for number, noise in enumerate(setup.noises):
        rng = np.random.default_rng([seed, 7, number])
        noisy = [noise.added_to(party, rng) for party in parties]
        yield from _scored(replace(central, method=str(noise)), noisy, seed)
    locals_ = [party for party in parties if len(np.unique(party.labels)) > 1][:LOCAL_PARTIES]
    each = [dict(_scored(replace(central, method="local"), [party], seed)) for party in locals_]
    for cell in each[0] if each else ():
        yield cell, float(np.mean([own[cell] for own in each if cell in own]))


def _scored(blank: Cell, parties: list[Party], seed: int) -> Iterator[tuple[Cell, float]]:
    """Fit one model of each kind on all parties' rows, and yield its mean score over the parties."""
    setup = blank.setup
    train = np.vstack([party.rows for party in parties]), np.concatenate([party.labels for party in parties])
    tests = [(party.test, party.test_labels) for party in parties]
    for model in setup.models:
        for one_scale in (False, True):
            values = scores(
                model,
                train,
                tests,
                metrics=setup.metrics,
                epochs=setup.epochs,
                seed=seed,
                one_scale=one_scale,
            )
            for metric, value in values.items():
                yield replace(blank, model=model, one_scale=one_scale, metric=metric), value


def _anchor(
    kind: AnchorKind, setup: Setup, features: int, rng: np.random.Generator, directory: Path | None
) -> Matrix:
    """Return a drawn anchor, or in place of a public one rows of another data set."""
    if not ANCHORS[kind].travels_as_matrix:
        return draw_anchor(kind, setup.anchor_rows, features, rng)
    other = load("AMES" if setup.dataset != "AMES" else "CYP3A4", directory, 0)
    return other.train[rng.permutation(len(other.train))[: setup.anchor_rows]]


def _hospitals(dataset: Dataset) -> list[Party]:
    if dataset.train_sites is None or dataset.test_sites is None:
        raise ValueError(f"{dataset.name} does not say which hospital a row came from")
    parties = []
    for site in np.unique(dataset.train_sites):
        own, tested = dataset.train_sites == site, dataset.test_sites == site
        parties.append(
            Party(
                dataset.train[own],
                dataset.train_labels[own],
                dataset.test[tested],
                dataset.test_labels[tested],
            )
        )
    return parties


def _shares(labels: Labels, setup: Setup, rng: np.random.Generator) -> list[Labels]:
    """Return the row numbers of each party.

    With k classes per party, party i has rows of the classes i .. i+k-1 of a random, circular order.
    """
    order = rng.permutation(len(labels))
    if setup.split == "iid":
        shares = np.array_split(order, setup.parties)
        return [share[: setup.rows_per_party or None] for share in shares]
    classes = int(labels.max()) + 1
    width = CLASSES_PER_PARTY[setup.split]
    names = rng.permutation(classes)
    wanted = [
        [int(names[(party + step) % classes]) for step in range(width)] for party in range(setup.parties)
    ]
    holders = np.bincount(np.concatenate(wanted), minlength=classes)
    parts = {
        name: iter(np.array_split(order[labels[order] == name], max(holders[name], 1)))
        for name in range(classes)
    }
    shares = [np.concatenate([next(parts[name]) for name in mine]) for mine in wanted]
    return [rng.permutation(share)[: setup.rows_per_party or None] for share in shares]
