"""What the privacy options of `odc prepare` cost in accuracy and what they hide (docs/privacy.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np

from analyst_server.alignment import align
from analyst_server.training.metrics import score
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import fit
from benchmarks.data import Dataset, digits
from benchmarks.report import Options, Report, main
from runtime.terminal import privacy_in_words
from user_client.custody.keystream import KeyStream
from user_client.custody.scratch import Scratch
from user_client.privacy.reduction import hidden_share
from user_client.rows import Rows
from user_client.sdk.privacy import PrivacyOptions, treat
from user_client.secret.expansion import expand_anchor

SEEDS, FULL_SEEDS = 3, 10
PARTIES, ROWS, LATENT_DIM = 10, 100, 20
DELTA: Final = 1e-5
KNOBS: Final[tuple[PrivacyOptions, ...]] = (
    PrivacyOptions(),
    PrivacyOptions(permute_rows=True, perturb_basis=0.05),
    PrivacyOptions(perturb_basis=0.5),
    *(PrivacyOptions(drop_below=share) for share in (0.15, 0.2)),
    *(PrivacyOptions(epsilon=epsilon, delta=DELTA, clip=6) for epsilon in (1000, 300, 100, 30)),
)


def measure(options: Options) -> Report:
    """Run rounds of digits where every party uses the same options, and compare with no options."""
    seeds = FULL_SEEDS if options.full else SEEDS
    report = Report(
        "knobs",
        {
            "seeds": seeds,
            "parties": PARTIES,
            "rows_per_party": ROWS,
            "latent_dim": LATENT_DIM,
            "model": "mlp, 256 units",
            "alignment": "isotropic",
        },
    )
    data = digits()
    for knobs in KNOBS:
        rounds = [play(data, knobs, seed) for seed in range(seeds)]
        row = {name: float(np.mean([one[name] for one in rounds])) for name in rounds[0]}
        words = "; ".join(privacy_in_words(knobs.record())) or "nothing"
        report.rows.append({"data": data.name, "done": words, **row})
        print("  ".join(f"{name} {value:.3f}" for name, value in row.items()), "", words)
    return report


def play(data: Dataset, knobs: PrivacyOptions, seed: int) -> dict[str, float]:
    """Return the parties' mean accuracy, the share of rows sent, and the error of collusion."""
    rng = np.random.default_rng(seed)
    rows, test = 2 * data.train - 1, 2 * data.test - 1  # as the schema of the terms encodes them
    parts = np.array_split(rng.permutation(len(rows))[: PARTIES * ROWS], PARTIES)
    scratch = Scratch(Path())
    treated = [
        treat(Rows.of(rows[part]), data.train_labels[part].astype(np.uint8), LATENT_DIM, knobs, scratch)
        for part in parts
    ]
    source = KeyStream(bytes([seed]) * 32, "odc/benchmarks/knobs").read
    anchor = expand_anchor("haar", source, rows=rows.shape[1], features=rows.shape[1])
    bases = [one.secret_basis for one in treated]
    changes = align(
        "isotropic", [anchor @ basis for basis in bases], anchor_is_isotropic=True, rng=rng
    ).changes_of_basis
    maps = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    aligned = np.concatenate([np.asarray(one.rows) @ whole for one, whole in zip(treated, maps, strict=True)])
    left = np.concatenate([one.labels for one in treated])
    model = fit(Mlp(seed=seed), aligned, left, data.classes)
    right = [
        score(data.test_labels, model.pipeline.predict_proba(test @ whole))["accuracy"] for whole in maps
    ]
    errors = [
        hidden_share(np.asarray(one.original), one.secret_basis, rep=np.asarray(one.rep)) for one in treated
    ]
    return {
        "accuracy": float(np.mean(right)),
        "rows_left": len(left) / (PARTIES * ROWS),
        "collusion_error": float(np.mean(np.concatenate(errors))),
    }


if __name__ == "__main__":
    sys.exit(main(measure))
