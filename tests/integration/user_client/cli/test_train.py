"""`odc train`: what a person types and reads; the models themselves are tested in sdk/."""

from __future__ import annotations

from tests.harness.in_process import Consortium, rows
from tests.harness.odc import Odc


def shared(consortium: Consortium) -> None:
    """Play a round whose model is the rows of all."""
    consortium.until_joined().publish(terms_schema=2, model={"kind": "knn"})
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=True)
    consortium.lead_round.create_anchor()
    for seed, session in enumerate(consortium.sessions):
        session.round(consortium.id).prepare(consortium.table(seed), attacks="none")
        session.round(consortium.id).contribute()
    consortium.compute()


def test_our_own_model_is_trained_and_removed(odc: Odc) -> None:
    shared(odc.consortium)
    assert "next: odc train (a model of our own, on the rows of all institutions)" in odc("receive").out
    said = odc("train")
    count = 2 * len(rows(0)["y"])
    assert (said.code, f"a model of our own (averaged) is trained on {count} rows" in said.out) == (0, True)
    assert odc("train", "--model", "logistic", "--json").json == {
        "kind": "logistic",
        "rows": count,
        "of_rows": count,
    }
    assert "the model that was received predicts again" in odc("train", "--remove").out
    assert odc("train", "--remove").code != 0


def test_terms_that_share_no_rows_say_which_would(odc: Odc) -> None:
    odc.consortium.until_released()
    assert "odc train" not in odc("receive").out
    refused = odc("train")
    assert (refused.code, "only terms with the model knn" in refused.err) == (3, True)
    assert refused.out == ""
