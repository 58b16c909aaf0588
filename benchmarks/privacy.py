"""What each role learns in a round, attack by attack: the analyst, a member, and both together."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from sklearn.svm import SVC

from analyst_server.alignment import align
from analyst_server.training import ModelSpec
from analyst_server.training.models import FittedModel, fit
from benchmarks import attacks
from benchmarks.accuracy.bases import AnchorKind, draw_anchor
from benchmarks.data import Dataset, Labels, Matrix, breast_cancer, digits, mnist
from benchmarks.report import Options, Report, main
from user_client.privacy.reduction import hidden_share
from user_client.secret.basis import draw_secret_basis

PARTIES: Final = 10
ANCHORS: Final[tuple[AnchorKind, ...]] = ("haar", "gaussian", "uniform")
ROWS: Final = {"breast cancer": 40, "digits": 100, "MNIST": 100}
LATENT_DIMS: Final = {"breast cancer": 10, "digits": 20, "MNIST": 50}
ANCHOR_ROWS: Final = 1000
STARTS: Final = 5
"""Points from which a model is inverted; the attacker keeps the best."""
DEFAULT_MODELS: Final[tuple[Literal["mlp", "logistic"], ...]] = ("mlp", "logistic")


@dataclass(frozen=True)
class Round:
    """All that anybody holds after one round; the attacks take from it what their role has."""

    anchor: Matrix
    rows: list[Matrix]
    labels: list[Labels]
    bases: list[Matrix]
    reps: list[Matrix]
    anchor_reps: list[Matrix]
    changes: list[Matrix]
    test: Matrix
    test_labels: Labels

    @property
    def aligned(self) -> Matrix:
        return np.concatenate([rep @ change for rep, change in zip(self.reps, self.changes, strict=True)])

    @property
    def others(self) -> Matrix:
        """The rows that party 0 must not learn."""
        return np.concatenate(self.rows[1:])


def play(data: Dataset, kind: AnchorKind, seed: int) -> Round:
    """Play one round as the product does: bases from each party's own rows, the default alignment."""
    rng = np.random.default_rng(seed)
    count, latent_dim = ROWS[data.name], LATENT_DIMS[data.name]
    chosen = rng.permutation(len(data.train))[: PARTIES * count]
    centre = data.train.mean(axis=0)
    parts = np.array_split(chosen, PARTIES)
    rows = [data.train[part] - centre for part in parts]
    anchor = draw_anchor(kind, ANCHOR_ROWS, data.train.shape[1], rng)
    bases = [draw_secret_basis(part, latent_dim, rng.bytes) for part in rows]
    anchor_reps = [anchor @ basis for basis in bases]
    changes = align("isotropic", anchor_reps, anchor_is_isotropic=kind == "haar", rng=rng).changes_of_basis
    return Round(
        anchor,
        rows,
        [data.train_labels[part] for part in parts],
        bases,
        [part @ basis for part, basis in zip(rows, bases, strict=True)],
        anchor_reps,
        [np.asarray(change, dtype=np.float64) for change in changes],
        data.test - centre,
        data.test_labels,
    )


def analyst_alone(played: Round) -> dict[str, float]:
    """How well the analyst finds F_i^T 1, and the sum of each row by it."""
    leaks, sums = [], []
    for basis, rep, anchor_rep, rows in zip(
        played.bases, played.reps, played.anchor_reps, played.rows, strict=True
    ):
        estimate = attacks.estimated_basis_sums(anchor_rep)
        leaks.append(attacks.alignment_of(estimate, basis.sum(axis=0)))
        told = attacks.estimated_row_sums(rep, estimate)
        sums.append(abs(float(np.corrcoef(told, rows.sum(axis=1))[0, 1])))
    return {"basis_sum_cosine": float(np.mean(leaks)), "row_sum_correlation": float(np.mean(sums))}


def member_alone(played: Round, kind: Literal["mlp", "logistic"], classes: int) -> dict[str, float]:
    """What party 0 rebuilds of the others' rows from a model that carries none.

    It inverts the model once for each class. It does not know which row has which class, so its best guess
    is the one prototype that is nearest to the rows on the whole. Beside that: what the prototypes would
    give if somebody told it every class, and what the class means of its own rows give then already.
    """
    labels = np.concatenate(played.labels)
    model = fit(ModelSpec(kind), played.aligned, labels, classes)
    weights, offsets, scale, shift = _layers(model, kind)
    starts = np.random.default_rng(0).standard_normal((STARTS, len(shift)))
    prototypes = np.stack([attacks.inverted_model(weights, offsets, k, starts) for k in range(classes)])
    guesses = attacks.mapped_back(prototypes * scale + shift, played.bases[0], played.changes[0])
    of_others = np.concatenate(played.labels[1:])
    own_means = np.stack([_mean_of(played.rows[0][played.labels[0] == k]) for k in range(classes)])
    own = len(played.rows[0])
    test_rep = played.test @ (played.bases[0] @ played.changes[0])
    return {
        "inversion_error": min(attacks.reconstruction_error(played.others, guess) for guess in guesses),
        "inversion_error_if_told_classes": attacks.reconstruction_error(played.others, guesses[of_others]),
        "own_class_means_error": attacks.reconstruction_error(played.others, own_means[of_others]),
        "membership_advantage": attacks.membership_advantage(
            _confidence(model, played.aligned[own:], labels[own:]),
            _confidence(model, test_rep, played.test_labels),
        ),
    }


def _mean_of(rows: Matrix) -> Matrix:
    return np.asarray(rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1]))


def _confidence(model: FittedModel, reps: Matrix, labels: Labels) -> Matrix:
    """Return the probability the model gives to the true class of each row."""
    return np.asarray(model.pipeline.predict_proba(reps)[np.arange(len(labels)), labels])


def row_revealing(played: Round) -> dict[str, float]:
    """What party 0 rebuilds of the others' rows from the support vectors of a kernel SVM."""
    labels = np.concatenate(played.labels)
    carried = SVC(kernel="rbf").fit(played.aligned, labels).support_
    of_others = carried[carried >= len(played.rows[0])]
    guess = attacks.mapped_back(played.aligned[of_others], played.bases[0], played.changes[0])
    truth = np.concatenate(played.rows)[of_others]
    return {
        "inversion_error": attacks.reconstruction_error(truth, guess),
        "rows_revealed": len(of_others) / len(played.others),
    }


def collusion(played: Round) -> dict[str, float]:
    """What the analyst rebuilds of the others' rows with the anchor of one member."""
    guess = [
        rep @ np.linalg.pinv(attacks.colluders_basis(played.anchor, anchor_rep))
        for rep, anchor_rep in zip(played.reps[1:], played.anchor_reps[1:], strict=True)
    ]
    told = [hidden_share(rows, basis) for rows, basis in zip(played.rows[1:], played.bases[1:], strict=True)]
    return {
        "inversion_error": attacks.reconstruction_error(played.others, np.concatenate(guess)),
        "error_that_prepare_predicts": float(np.mean(np.concatenate(told))),
    }


def _layers(model: FittedModel, kind: str) -> tuple[list[Matrix], list[Matrix], Matrix, Matrix]:
    """Return weights and offsets of the network behind the scaler, with the scaler's scale and shift."""
    scaler, classifier = model.pipeline[0], model.pipeline[-1]
    if kind == "mlp":
        weights, offsets = list(classifier.coefs_), list(classifier.intercepts_)
    else:
        weights, offsets = [classifier.coef_.T], [classifier.intercept_]
    width = weights[0].shape[0]
    shift = np.zeros(width) if scaler.mean_ is None else scaler.mean_
    scale = np.ones(width) if scaler.scale_ is None else scaler.scale_
    return weights, offsets, scale, shift


def _data_sets(options: Options) -> Iterator[Dataset]:
    yield breast_cancer()
    yield digits()
    if options.data is not None:
        yield mnist(options.data)


def measure(options: Options) -> Report:
    """Play the rounds, run every attack against each, and compare the errors with the bounds."""
    seeds = range(10 if options.full else 3)
    report = Report(
        "privacy",
        {
            "parties": PARTIES,
            "rows_per_party": ROWS,
            "latent_dims": LATENT_DIMS,
            "anchor_rows": f"{ANCHOR_ROWS}; haar: as many as features",
            "seeds": len(seeds),
            "without_data": "MNIST left out: no --data" if options.data is None else None,
            "error": "mean over rows of ||x - x^|| / ||x||, centred rows; 1 = no better than their mean",
        },
    )
    for data in _data_sets(options):
        for kind in ANCHORS:
            for seed in seeds:
                _attack(report, data, kind, seed)
    _claim(report)
    return report


def _attack(report: Report, data: Dataset, kind: AnchorKind, seed: int) -> None:
    played = play(data, kind, seed)
    about = {"data": data.name, "anchor": kind, "seed": seed}
    found: list[tuple[str, str, dict[str, float]]] = [
        ("analyst alone", "-", analyst_alone(played)),
        ("analyst and one member", "-", collusion(played)),
    ]
    if kind == "haar":  # what a member can do does not depend on the anchor
        found += [
            ("member alone", model, member_alone(played, model, data.classes)) for model in DEFAULT_MODELS
        ]
        found.append(("member alone", "kernel SVM (row-revealing)", row_revealing(played)))
    for attacker, model, figures in found:
        report.rows.append({**about, "attacker": attacker, "model": model, **figures})


def _claim(report: Report) -> None:
    def mean(figure: str, **wanted: str) -> float:
        values = [
            row[figure]
            for row in report.rows
            if figure in row and all(row[key] == value for key, value in wanted.items())
        ]
        return float(np.mean(values))

    def worst(models: Sequence[str]) -> float:
        names = {row["data"] for row in report.rows}
        return min(mean("inversion_error", model=model, data=name) for model in models for name in names)

    chance = np.mean([np.sqrt(2 / (np.pi * LATENT_DIMS[row["data"]])) for row in report.rows])
    report.conditions["chance_of_mean_leak"] = float(chance)
    report.claim("haar_mean_leak", mean("basis_sum_cosine", anchor="haar"), "|cosine|", "<=", 1.5 * chance)
    report.claim("uniform_mean_leak", mean("basis_sum_cosine", anchor="uniform"), "|cosine|", ">=", 0.9)
    report.claim(
        "member_inversion_error_default_models", worst(DEFAULT_MODELS), "of the length of a row", ">=", 1.0
    )
    report.claim(
        "member_inversion_error_row_revealing",
        mean("inversion_error", model="kernel SVM (row-revealing)"),
        "of the length of a row",
        "<=",
        0.7,
    )
    report.claim(
        "collusion_error_plain",
        mean("inversion_error", attacker="analyst and one member"),
        "of the length of a row",
        "<=",
        0.7,
    )


def run(options: Options) -> Report:
    """Measure, and print the table a person can read."""
    report = measure(options)
    for line in _table(report.rows):
        print(line)
    return report


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """The mean over the seeds of every figure."""
    about = ("data", "anchor", "attacker", "model")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in about), []).append(row)
    lines = []
    for key, group in groups.items():
        figures = [name for name in group[0] if name not in (*about, "seed")]
        means = ", ".join(f"{name} {np.mean([row[name] for row in group]):.3f}" for name in figures)
        lines.append(f"{key[0]:<14} {key[1]:<9} {key[2]:<23} {key[3]:<27} {means}")
    return lines


if __name__ == "__main__":
    sys.exit(main(run))
