"""What each role learns in a round, attack by attack: the analyst, a member, and both together."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from analyst_server.alignment import align
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import FittedModel, fit
from analyst_server.training.svm import Svm
from benchmarks import defences
from benchmarks.accuracy.bases import draw_anchor
from benchmarks.data import Dataset, Labels, Matrix, breast_cancer, digits, mnist
from benchmarks.defences import Defence, Sent
from benchmarks.report import Options, Report, main
from protocol.anchor_terms import ANCHORS, AnchorKind
from tests.harness import attacks
from user_client.privacy.reduction import hidden_share

PARTIES: Final = 10
COMPARED_ANCHORS: Final[tuple[AnchorKind, ...]] = ("haar", "gaussian", "uniform")
ROWS: Final = {"breast cancer": 40, "digits": 100, "MNIST": 100}
LATENT_DIMS: Final = {"breast cancer": 10, "digits": 20, "MNIST": 50}
ANCHOR_ROWS: Final = 1000
STARTS: Final = 5
"""Number of points from which a model is inverted; the attacker keeps the best result."""
DEFAULT_MODELS: Final[tuple[Literal["mlp", "logistic"], ...]] = ("mlp", "logistic")
CLIP_NORMS: Final = {"breast cancer": 1.0, "digits": 2.5, "MNIST": 8.5}
"""About the length that nine in ten centred rows do not exceed; fixed per data set, not per party."""
EPSILONS: Final = (1.0, 10.0, 50.0)
CLAIMED_EPSILON: Final = 1.0
DELTA: Final = 1e-5
HIDDEN: Final = 0.2
"""The epsilon-DR filter drops rows of which a smaller share is hidden."""
PERTURBATION: Final = 0.05
"""delta in Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", section 4.1."""


@dataclass(frozen=True)
class Round:
    """All data that anybody has after one round; each attack uses only what its role has.

    ``rows`` and ``labels`` are those that were sent, in that order; ``tables`` are all rows of each party.
    """

    anchor: Matrix
    tables: list[Matrix]
    sent: list[Sent]
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
        """Return the rows that party 0 must not learn."""
        return np.concatenate(self.rows[1:])


def play(data: Dataset, kind: AnchorKind, seed: int, defence: Defence = defences.plain) -> Round:
    """Run one round as the product does: bases from each party's own rows, the default alignment."""
    rng = np.random.default_rng(seed)
    count, latent_dim = ROWS[data.name], LATENT_DIMS[data.name]
    chosen = rng.permutation(len(data.train))[: PARTIES * count]
    centre = data.train.mean(axis=0)
    parts = np.array_split(chosen, PARTIES)
    tables = [data.train[part] - centre for part in parts]
    anchor = draw_anchor(kind, ANCHOR_ROWS, data.train.shape[1], rng)
    sent = [defence(table, latent_dim, rng) for table in tables]
    bases = [one.secret_basis for one in sent]
    anchor_reps = [anchor @ basis for basis in bases]
    is_isotropic = ANCHORS[kind].is_isotropic
    changes = align("isotropic", anchor_reps, anchor_is_isotropic=is_isotropic, rng=rng).changes_of_basis
    return Round(
        anchor,
        tables,
        sent,
        [table[one.order] for table, one in zip(tables, sent, strict=True)],
        [data.train_labels[part][one.order] for part, one in zip(parts, sent, strict=True)],
        bases,
        [one.features @ basis for one, basis in zip(sent, bases, strict=True)],
        anchor_reps,
        [np.asarray(change, dtype=np.float64) for change in changes],
        data.test - centre,
        data.test_labels,
    )


def analyst_alone(played: Round) -> dict[str, float]:
    """Measure how well the analyst estimates F_i^T 1, with it the sum of each row, and X_i's spectrum."""
    leaks, sums, spectra = [], [], []
    for basis, rep, anchor_rep, rows in zip(
        played.bases, played.reps, played.anchor_reps, played.rows, strict=True
    ):
        estimate = attacks.estimated_basis_sums(anchor_rep)
        leaks.append(attacks.alignment_of(estimate, basis.sum(axis=0)))
        told = attacks.estimated_row_sums(rep, estimate)
        sums.append(abs(float(np.corrcoef(told, rows.sum(axis=1))[0, 1])))
        spectra.append(attacks.spectrum_error(rows, rep))
    return {
        "basis_sum_cosine": float(np.mean(leaks)),
        "row_sum_correlation": float(np.mean(sums)),
        "spectrum_error": float(np.mean(spectra)),
    }


def analyst_with_a_sample(played: Round) -> dict[str, float]:
    """Measure what the analyst reconstructs with other rows of the same population, and no anchor.

    We give it the best number of components and the best shrinkage towards the mean.
    """
    rows, errors = np.concatenate(played.rows), []
    for count in range(1, played.aligned.shape[1] + 1):
        guess = attacks.matched_to_a_sample(played.aligned, played.test, count)
        share = np.clip(np.sum(guess * rows) / np.sum(guess * guess), 0, 1)
        errors.append(attacks.reconstruction_error(rows, share * guess))
    return {"inversion_error": min(errors), "components": float(np.argmin(errors) + 1)}


def member_alone(played: Round, kind: Literal["mlp", "logistic"], classes: int) -> dict[str, float]:
    """Measure what party 0 reconstructs of the others' rows from a model that contains none.

    It inverts the model once for each class. It does not know which row has which class, so its best guess
    is the one prototype that is nearest to the rows overall. For comparison: the error if somebody told it
    every class, and the error of guessing the class means of its own rows in that case.
    """
    labels = np.concatenate(played.labels)
    model = fit(Mlp() if kind == "mlp" else Logistic(), played.aligned, labels, classes)
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


def row_revealing(played: Round, classes: int) -> dict[str, float]:
    """Measure what party 0 reconstructs of the others' rows from the kernel SVM's support vectors."""
    model = fit(Svm(), played.aligned, np.concatenate(played.labels), classes)
    scaler, machines = model.pipeline[0], model.pipeline[-1].estimators_
    carried: dict[int, Matrix] = {}
    for machine in (one.calibrated_classifiers_[0].estimator for one in machines):
        carried |= zip(machine.support_.tolist(), machine.support_vectors_, strict=True)
    own = len(played.rows[0])
    others = sorted(index for index in carried if index >= own)
    reps = scaler.inverse_transform(np.stack([carried[index] for index in others]))
    guess = attacks.mapped_back(reps, played.bases[0], played.changes[0])
    return {
        "inversion_error": attacks.reconstruction_error(np.concatenate(played.rows)[others], guess),
        "rows_revealed": len(others) / len(played.others),
    }


def collusion(played: Round, noise_sigma: float = 0.0) -> dict[str, float]:
    """Measure what the analyst reconstructs of the others' rows with the anchor of one member.

    The signed manifest contains the size of the noise. We also give the attackers the second moments of all
    rows, which separate signal from noise best.
    """
    everything = np.concatenate(played.tables)
    found = attacks.colluders_basis(played.anchor, np.hstack(played.anchor_reps[1:]))
    guesses = []
    for rep, basis in zip(played.reps[1:], np.hsplit(found, len(played.reps) - 1), strict=True):
        if noise_sigma > 0:
            projected = everything @ basis
            rep = attacks.denoised(rep, projected.T @ projected / len(everything), noise_sigma)
        guesses.append(rep @ np.linalg.pinv(basis))
    told = [hidden_share(rows, basis) for rows, basis in zip(played.rows[1:], played.bases[1:], strict=True)]
    return {
        "inversion_error": attacks.reconstruction_error(played.others, np.concatenate(guesses)),
        "error_that_prepare_predicts": float(np.mean(np.concatenate(told))),
    }


def linking(played: Round) -> dict[str, float]:
    """Measure the share of the sent rows that an attacker assigns to the right rows of a party's table.

    ``in_order``: by their position, as analyst and member can. ``by_distances``: by the distances between
    rows, as somebody can who has the party's table, but not its basis.
    """
    in_order, by_distances = [], []
    for table, one, rep in zip(played.tables, played.sent, played.reps, strict=True):
        in_order.append(np.mean(one.order == np.arange(len(one.order))))
        found = attacks.linked_rows(table, rep, rep.shape[1])
        by_distances.append(np.mean(one.order[found] == np.arange(len(table))))
    return {
        "rows_linked_in_order": float(np.mean(in_order)),
        "rows_linked_by_distances": float(np.mean(by_distances)),
    }


def accuracy(played: Round) -> float:
    """Return the test accuracy of a logistic h when the first party predicts with it."""
    h = LogisticRegression(max_iter=1000).fit(played.aligned, np.concatenate(played.labels))
    test_rep = played.test @ (played.bases[0] @ played.changes[0])
    return float(h.score(test_rep, played.test_labels))


def accuracy_by_the_anchor(played: Round) -> float:
    """Return the test accuracy of the first party's t_i, fitted to h's predictions for the anchor."""
    h = LogisticRegression(max_iter=1000).fit(played.aligned, np.concatenate(played.labels))
    told = h.predict(played.anchor_reps[0] @ played.changes[0])
    own = LogisticRegression(max_iter=1000).fit(played.anchor, told)
    return float(own.score(played.test, played.test_labels))


def _defences(data: Dataset) -> Mapping[str, tuple[Defence, float]]:
    """Return the defences compared under collusion by name, each with the size of its noise."""
    clip = CLIP_NORMS[data.name]
    return {
        "none": (defences.plain, 0.0),
        "half the latent dimensions": (defences.fewer_dimensions(0.5), 0.0),
        f"rows hidden by {HIDDEN:.0%} or more": (defences.keep_hidden(HIDDEN), 0.0),
        **{
            noise_name(epsilon): (
                defences.gaussian_noise(epsilon, DELTA, clip),
                defences.noise_sigma(epsilon, DELTA, clip),
            )
            for epsilon in EPSILONS
        },
        "NRI-DC": (defences.non_readily_identifiable(PERTURBATION), 0.0),
    }


def noise_name(epsilon: float) -> str:
    return f"noise, epsilon {epsilon:g}, delta {DELTA:g}"


def _layers(model: FittedModel, kind: str) -> tuple[list[Matrix], list[Matrix], Matrix, Matrix]:
    """Return weights and offsets of the network after the scaler, and the scaler's scale and shift."""
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
    """Run the rounds and every attack on each, and compare the errors with the bounds."""
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
            "clip_norms": CLIP_NORMS,
            "noise": "on the encoded rows, before the basis is computed; neighbouring tables replace one row",
            "error": "mean over rows of ||x - x^|| / ||x||, centred rows; 1 = no better than their mean",
        },
    )
    with threadpool_limits(1):  # with matrices this small, waiting for threads takes longer than computing
        for data in _data_sets(options):
            for seed in seeds:
                for kind in COMPARED_ANCHORS:
                    _attack(report, data, kind, seed)
                for name, (defence, sigma) in _defences(data).items():
                    _collude(report, data, seed, name, defence, sigma)
    _claim(report)
    return report


def _attack(report: Report, data: Dataset, kind: AnchorKind, seed: int) -> None:
    played = play(data, kind, seed)
    about = {"data": data.name, "anchor": kind, "seed": seed}
    found: list[tuple[str, str, dict[str, float]]] = [
        ("analyst alone", "-", analyst_alone(played)),
    ]
    if kind == "haar":  # what a member can do does not depend on the anchor
        found += [
            ("member alone", model, member_alone(played, model, data.classes)) for model in DEFAULT_MODELS
        ]
        found.append(("analyst with a sample", "-", analyst_with_a_sample(played)))
        found.append(("member alone", "kernel SVM (row-revealing)", row_revealing(played, data.classes)))
    for attacker, model, figures in found:
        report.rows.append({**about, "attacker": attacker, "model": model, "defence": "none", **figures})


def _collude(
    report: Report, data: Dataset, seed: int, name: str, defence: Defence, noise_sigma: float
) -> None:
    kind: AnchorKind = "gaussian" if name == "NRI-DC" else "haar"  # t_i needs more rows than features
    played = play(data, kind, seed, defence)
    about = {"data": data.name, "anchor": kind, "seed": seed, "attacker": "analyst and one member"}
    figures = {
        **collusion(played, noise_sigma),
        **(linking(played) if len(played.rows[0]) == len(played.tables[0]) else {}),
        "rows_sent": sum(map(len, played.rows)) / sum(map(len, played.tables)),
        "accuracy": accuracy_by_the_anchor(played) if name == "NRI-DC" else accuracy(played),
    }
    report.rows.append({**about, "model": "-", "defence": name, **figures})


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

    def worst_under(defence: str) -> float:
        return min(
            mean("inversion_error", defence=defence, data=name)
            for name in {row["data"] for row in report.rows}
        )

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
        mean("inversion_error", attacker="analyst and one member", defence="none"),
        "of the length of a row",
        "<=",
        0.7,
    )
    # A linear guess, even one that knows the direction of x, misses a row x by at least
    # sigma / sqrt(sigma^2 + |x|^2) of its length in root mean square: 0.99 here, where |x| is at most the
    # clipping norm.
    report.claim(
        "collusion_error_dp",
        worst_under(noise_name(CLAIMED_EPSILON)),
        "of the length of a row",
        ">=",
        0.95,
    )


def run(options: Options) -> Report:
    """Measure, print a readable table, and return the report."""
    report = measure(options)
    for line in _table(report.rows):
        print(line)
    return report


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table with the mean of every figure over the seeds."""
    about = ("data", "anchor", "attacker", "model", "defence")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in about), []).append(row)
    lines = []
    for key, group in groups.items():
        figures = [name for name in group[0] if name not in (*about, "seed")]
        means = ", ".join(f"{name} {np.mean([row[name] for row in group]):.3f}" for name in figures)
        lines.append(f"{key[0]:<14} {key[1]:<9} {key[2]:<23} {key[3]:<27} {key[4]:<30} {means}")
    return lines


if __name__ == "__main__":
    sys.exit(main(run))
