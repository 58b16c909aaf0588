"""Every kind of model is scored on the same rows, and trees along every kind of axes."""

from __future__ import annotations

from benchmarks.models import KINDS, Job, run


def test_every_kind_of_model_learns_from_aligned_rows() -> None:
    found = run(Job("breast_cancer", 0), folder=None)
    assert {row["model"] for row in found} == set(KINDS)
    assert {row["axes"] for row in found if row["model"] == "random-forest"} == {
        "as aligned",
        "principal",
        "random",
    }
    assert min(row["roc_auc"] for row in found) > 90
