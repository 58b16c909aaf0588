"""What `odc-analyst plan` says that a round takes on the analyst's disk, beside what a played one took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import configuration
from tests.harness.consortium import consortium

pytestmark = pytest.mark.skipif(configuration.MANY, reason="the bytes that are kept are counted on a disk")

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
ROWS, FEATURES, LATENT_DIM = 20_000, 12, 6


@pytest.mark.parametrize("rep_dtype", ["f4", "i1"])
def test_the_planned_bytes_are_those_that_are_kept(tmp_path: Path, rep_dtype: str) -> None:
    with consortium(tmp_path, *NAMES) as made:
        found = made.anchored(
            features=FEATURES, latent_dim=LATENT_DIM, hold_out=0.0, rep_dtype=rep_dtype, dither=0.0
        )
        made.contribute_all(found, ROWS, features=FEATURES)
        made.wait_for(found, "released")
        blobs = made.settings.blob_dir
        kept = sum(path.stat().st_size for path in blobs.rglob("*") if path.is_file())
        options = ("--parties", str(len(NAMES)), "--features", str(FEATURES), "--rows", str(ROWS))
        of_model = ("--model-parameters", str(LATENT_DIM + 1))
        of_terms = ("--latent-dim", str(LATENT_DIM), "--rep-dtype", rep_dtype)
        planned = json.loads(made.analyst.run("plan", *options, *of_model, *of_terms, "--json"))
    assert kept == pytest.approx(planned["disk_bytes"], rel=0.05)
