"""What NRI-DC costs: how often a party's own model t_i predicts the same class as h, by kind of anchor.

Three parties, bases from perturbed rows, the analyst's alignment and models, all with the product's own
functions but in one process. Measured on held-out rows of breast cancer and digits; see docs/nri.md.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from analyst_server.alignment import align
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import fit
from benchmarks.accuracy.bases import draw_anchor
from benchmarks.data import Dataset, Labels, breast_cancer, digits
from benchmarks.report import Options, Report, main
from protocol.anchor_terms import PREDICTED_ROWS_PER_FEATURE, WELL_PREDICTED_ROWS
from user_client.sdk.privacy import NRI_PERTURBATION
from user_client.secret.basis import draw_secret_basis
from user_client.secret.own_model import train_own_model

PARTIES: Final = 3
SEEDS, FULL_SEEDS = 3, 10
REAL_ROWS: Final = {"breast cancer": 100, "digits": 400}
ROWS_PER_FEATURE: Final = (PREDICTED_ROWS_PER_FEATURE, 5, 10, WELL_PREDICTED_ROWS, 50)
ANCHORS: Final = (*(("gaussian", rows) for rows in ROWS_PER_FEATURE), ("uniform", 20), ("public", 0))


def measure(options: Options) -> Report:
    seeds = FULL_SEEDS if options.full else SEEDS
    found = Report("nri", conditions={"seeds": seeds, "parties": PARTIES, "alignment": "isotropic"})
    for name, load in (("breast cancer", breast_cancer), ("digits", digits)):
        for model in ("mlp", "logistic"):
            for kind, rows_per_feature in ANCHORS:
                rounds = [
                    one_round(name, load(seed), model, kind, rows_per_feature, seed) for seed in range(seeds)
                ]
                row = {
                    "data": name,
                    "model": model,
                    "anchor": kind,
                    "rows_per_feature": rows_per_feature or None,
                    **{key: float(np.mean([one[key] for one in rounds])) for key in rounds[0]},
                }
                found.rows.append(row)
                print(
                    f"{name:<14} {model:<9} {kind:<9} {rows_per_feature or '':>3}"
                    f"  agrees {row['agreement']:.3f}"
                    f"  right: h {row['model_accuracy']:.3f}, t_i {row['own_accuracy']:.3f}"
                )
    well = [row for row in found.rows if row["rows_per_feature"] == WELL_PREDICTED_ROWS]
    gaussian = min(row["agreement"] for row in well if row["anchor"] == "gaussian")
    found.claim("nri_agreement_gaussian", gaussian, "share", ">=", 0.92)
    public = min(row["agreement"] for row in found.rows if row["anchor"] == "public")
    found.claim("nri_agreement_public", public, "share", ">=", 0.95)
    return found


def one_round(
    name: str, data: Dataset, model: str, kind: Any, rows_per_feature: int, seed: int
) -> dict[str, float]:
    """Run one round; return the agreement of t_i and h on held-out rows, and the accuracy of each."""
    rng = np.random.default_rng(seed)
    train, unseen = 2 * data.train - 1, 2 * data.test - 1  # as a schema encodes them
    set_aside, *parts = _dealt(len(train), REAL_ROWS[name], rng)
    features = train.shape[1]
    if kind == "public":
        anchor = train[set_aside]
    else:
        anchor = draw_anchor(kind, rows_per_feature * features, features, rng)
    noise = [NRI_PERTURBATION * rng.uniform(-1, 1, (len(part), features)) for part in parts]
    bases = [
        draw_secret_basis(train[part] + more, features // 2, rng.bytes)
        for part, more in zip(parts, noise, strict=True)
    ]
    changes = align("isotropic", [anchor @ basis for basis in bases], rng=rng).changes_of_basis
    turned = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    aligned = np.concatenate([train[part] @ turn for part, turn in zip(parts, turned, strict=True)])
    labels = data.train_labels[np.concatenate(parts)]
    h = fit(Mlp() if model == "mlp" else Logistic(), aligned, labels, data.classes)
    says = h.pipeline.predict_proba
    own = [
        train_own_model(anchor, says(anchor @ turn)).probabilities(unseen).argmax(axis=1) for turn in turned
    ]
    theirs = [says(unseen @ turn).argmax(axis=1) for turn in turned]
    return {
        "agreement": float(np.mean([np.mean(a == b) for a, b in zip(own, theirs, strict=True)])),
        "own_accuracy": float(np.mean([np.mean(a == data.test_labels) for a in own])),
        "model_accuracy": float(np.mean([np.mean(b == data.test_labels) for b in theirs])),
    }


def _dealt(rows: int, aside: int, rng: np.random.Generator) -> list[Labels]:
    """Return the row numbers set aside for a public anchor, then those of each party."""
    order = rng.permutation(rows)
    return [order[:aside], *np.array_split(order[aside:], PARTIES)]


if __name__ == "__main__":
    sys.exit(main(measure))
