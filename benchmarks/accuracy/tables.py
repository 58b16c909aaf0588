"""The experiments of the small and of the full benchmark."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.accuracy.experiment import CLASSES_PER_PARTY, Noise, Setup, Split
from benchmarks.accuracy.methods import GRID, ON_HAAR_ANCHOR, OURS, PAPERS_ODC, PAPERS_WAYS, Way
from benchmarks.data import MOLECULES
from orthonormal_data_collaboration.bases import CONDITIONS

HETEROGENEOUS: tuple[Split, ...] = tuple(CLASSES_PER_PARTY)
CONCORDANCE = tuple(Way(method) for method in ("imakura", "imakura-random", "odc", "odc-random"))
IN_ANCHORS = (Way("imakura"), Way("imakura", "haar"), *GRID, OURS)
BESIDE_NOISE = (Way("imakura"), Way("kawakami"), PAPERS_ODC, OURS)
NOISES = tuple(Noise(epsilon, unit) for unit in ("feature", "row") for epsilon in (0.5, 2.0, 8.0))
ON_PUBLIC_ANCHOR = tuple(
    Way(method, "public") for method in ("imakura", "kawakami-scaled", "odc", "gopp", "isotropic")
)


def setups(*, full: bool, real_data: bool) -> list[Setup]:
    """Return the experiments; without the real data, those on data included in scikit-learn."""
    if not real_data:
        return _bundled()
    found = []
    for name in ("MNIST", "Fashion-MNIST"):
        found += _images(name, full)
    for name in MOLECULES:
        found += _molecules(name, full)
    return found + _hospitals(full) + _halves(full)


def seeds(setup: Setup, *, full: bool) -> int:
    """Return the number of seeds over which an experiment is averaged."""
    if full:
        return 10
    return 6 if setup.dataset in ("digits", "breast cancer") else 3


def _images(name: str, full: bool) -> list[Setup]:
    large = Setup(
        table="V",
        dataset=name,
        split="iid",
        parties=100 if full else 10,
        rows_per_party=100,
        latent_dim=100 if full else 50,
        anchor_rows=1000,
        conditions=CONDITIONS,
        ways=(*PAPERS_WAYS, *ON_HAAR_ANCHOR, OURS),
        models=("svm", "mlp"),
        metrics=("accuracy",),
        epochs=200 if full else 40,
        test_rows=1000,
    )
    concordance = replace(large, table="III", conditions=("SameSpan-Orth",), ways=CONCORDANCE, oracles=False)
    noisy = replace(
        large, table="VII", conditions=("DiffSpan-Orth",), ways=BESIDE_NOISE, models=("mlp",), noises=NOISES
    )
    return [
        concordance,
        large,
        noisy,
        *_splits(large, {"iid": (40, 50), "one class": (20, 30)}, (20, 50), full),
    ]


def _splits(
    base: Setup, sizes: dict[Split, tuple[int, int]], otherwise: tuple[int, int], full: bool
) -> list[Setup]:
    """Return our table: the parts of `isotropic`, from rows of all classes down to one class per party."""
    found = []
    for split in ("iid", *HETEROGENEOUS):
        parties, latent_dim = sizes.get(split, otherwise)
        if not full:
            parties = min(parties, 10)
        found.append(
            replace(
                base,
                table="anchors",
                split=split,
                parties=parties,
                latent_dim=latent_dim,
                conditions=("DiffSpan-Orth",),
                ways=IN_ANCHORS,
                models=("svm",),
                oracles=False,
            )
        )
    return found


def _molecules(name: str, full: bool) -> list[Setup]:
    large = Setup(
        table="V",
        dataset=name,
        split="one class",
        parties=4,
        rows_per_party=0 if full else 800,
        latent_dim=200,
        anchor_rows=3000,
        conditions=CONDITIONS,
        ways=(*PAPERS_WAYS, *ON_HAAR_ANCHOR, OURS),
        models=("mlp",),
        metrics=("roc_auc", "pr_auc"),
        epochs=20,
        test_rows=10_000 if full else 1200,
        same_test=True,
    )
    apart = replace(large, conditions=("DiffSpan-Orth",), oracles=False)
    public = replace(apart, table="II, v2", ways=ON_PUBLIC_ANCHOR, metrics=("roc_auc",), oracles=True)
    if not full and name not in ("AMES", "CYP3A4"):
        return [large, public]
    return [large, public, replace(apart, table="anchors", ways=IN_ANCHORS, metrics=("roc_auc",))]


def _hospitals(full: bool) -> list[Setup]:
    heart = Setup(
        table="hospitals",
        dataset="heart",
        split="hospitals",
        parties=4,
        rows_per_party=0,
        latent_dim=10,
        anchor_rows=1000,
        conditions=("DiffSpan-Orth",),
        ways=(Way("imakura"), Way("kawakami"), PAPERS_ODC, Way("gopp"), OURS),
        models=("logistic", "mlp"),
        metrics=("roc_auc",),
        epochs=200 if full else 40,
        test_rows=0,
    )
    return [heart, replace(heart, dataset="stroke", parties=49, latent_dim=20)]


def _halves(full: bool) -> list[Setup]:
    """Return Table VI, in which every party lacks half of the columns, and one where every second does.

    One common span, as in half of Table VI, is not possible with bases that are zero on absent features.
    """
    complementary = Setup(
        table="VI",
        dataset="Adult",
        split="iid",
        parties=200 if full else 20,
        rows_per_party=100,
        latent_dim=20,
        anchor_rows=1000,
        conditions=("DiffSpan-Orth", "DiffSpan"),
        ways=(Way("imakura"), Way("kawakami"), PAPERS_ODC, *ON_HAAR_ANCHOR, OURS),
        models=("mlp",),
        metrics=("accuracy",),
        epochs=50 if full else 20,
        test_rows=10_000 if full else 4000,
        halves="complementary",
    )
    return [complementary, replace(complementary, table="VI, every second", halves="half of the parties")]


def _bundled() -> list[Setup]:
    """Return experiments on digits and breast cancer, which replace the images and the molecules."""
    digits = replace(_images("digits", full=False)[1], rows_per_party=60, latent_dim=20, test_rows=359)
    concordance = replace(digits, table="III", conditions=("SameSpan-Orth",), ways=CONCORDANCE, oracles=False)
    tumours = replace(
        _molecules("breast cancer", full=True)[0],
        latent_dim=10,
        anchor_rows=1000,
        epochs=100,
        test_rows=113,
    )
    return [concordance, digits, *_splits(digits, {"one class": (10, 20)}, (10, 20), full=False), tumours]
