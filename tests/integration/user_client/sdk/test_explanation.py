"""Which columns the answers of a round come from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from tests.harness.in_process import Consortium, rows
from tests.harness.nri import NRI
from user_client.errors import NotPreparedError
from user_client.sdk import Round

ROWS = rows(9, 200)


@pytest.fixture
def released(consortium: Consortium) -> Consortium:
    """A round in which x2 says nothing, at anybody."""
    consortium.until_anchored()
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        noise = np.random.default_rng(seed + 10).uniform(-4, 4, 40).tolist()
        party.prepare(pa.table({**rows(seed), "x2": noise}))
        party.contribute()
    consortium.compute()
    for party in (consortium.lead_round, consortium.hospital_round):
        party.receive()
    return consortium


def weights(ours: Round, table: dict[str, list[object]]) -> dict[str, float]:
    return {column.name: column.shapley for column in ours.explain(pa.table(table)).columns}


def test_a_column_that_says_nothing_weighs_least_in_both_measures(released: Consortium) -> None:
    found = released.hospital_round.explain(pa.table(ROWS))
    assert found.columns[-1].name == "x2"
    by_name = {column.name: column for column in found.columns}
    assert by_name["x0"].shapley > 3 * by_name["x2"].shapley
    assert by_name["x0"].importance is not None
    assert by_name["x2"].importance is not None
    assert by_name["x0"].importance > 0.02 > by_name["x2"].importance
    assert (found.outcomes, found.metric, len(found.rows)) == (("yes",), "roc_auc", 200)


def test_two_institutions_explain_the_same_rows_alike(released: Consortium) -> None:
    one, other = (weights(each, ROWS) for each in (released.lead_round, released.hospital_round))
    for name, weight in one.items():
        assert other[name] == pytest.approx(weight, rel=1e-3, abs=1e-4)


def test_the_values_of_a_row_add_up_to_its_answer(released: Consortium) -> None:
    ours, table = released.hospital_round, pa.table(ROWS)
    found = ours.explain(table, background="own")
    mean = ours.predict(table).probabilities[:, 1].mean()
    added = found.values[:, :, 0].sum(axis=1) + mean
    drawn = 0.5 / 20**0.5  # the background rows of a row are twenty, drawn at random
    np.testing.assert_allclose(added, ours.predict(table).probabilities[:, 1], atol=5 * drawn)
    single = found.row_values()
    assert single.column_names == ["row", "outcome", "shapley_x0", "shapley_x1", "shapley_x2"]
    assert single.column("row").to_pylist() == list(range(1, 201))


def test_without_labels_there_are_shapley_values_alone(released: Consortium) -> None:
    found = released.hospital_round.explain(pa.table({name: ROWS[name] for name in ("x0", "x1", "x2")}))
    assert (found.metric, found.score, {column.importance for column in found.columns}) == (
        None,
        None,
        {None},
    )


def test_rows_with_an_empty_label_have_shapley_values_and_no_part_in_the_score(released: Consortium) -> None:
    label = next(name for name in ROWS if name not in ("x0", "x1", "x2"))
    some = [None if row < 50 else value for row, value in enumerate(ROWS[label])]
    found = released.hospital_round.explain(pa.table({**ROWS, label: some}))
    rest = released.hospital_round.explain(pa.table(ROWS).slice(50))
    assert (len(found.rows), found.score) == (200, rest.score)
    none = released.hospital_round.explain(pa.table({**ROWS, label: pa.nulls(200, pa.string())}))
    assert (none.metric, none.score, len(none.rows)) == (None, None, 200)


def test_a_background_that_there_is_not_is_refused(released: Consortium) -> None:
    with pytest.raises(InputError, match="background must be one of anchor, own, got nope"):
        released.hospital_round.explain(pa.table(ROWS), background="nope")  # type: ignore[arg-type]


def test_a_large_table_is_explained_by_some_of_its_rows(released: Consortium) -> None:
    found = released.hospital_round.explain(pa.table(rows(9, 3000)))
    assert (len(found.rows), found.rows[0], found.rows[-1]) == (200, 1, 3000)


def test_a_table_without_rows_and_a_round_without_a_downlink_are_refused(
    released: Consortium, consortium: Consortium
) -> None:
    with pytest.raises(InputError, match="no rows to explain"):
        released.hospital_round.explain(pa.table(ROWS).slice(0, 0))
    released.hospital_round.forget(confirmed=True)
    with pytest.raises(NotPreparedError):
        released.hospital_round.explain(pa.table(ROWS))


def test_where_the_anchor_is_erased_the_other_background_is_named(consortium: Consortium) -> None:
    consortium.until_released(**NRI)
    ours = consortium.hospital_round
    ours.receive()
    with pytest.raises(NotPreparedError) as caught:
        ours.explain(pa.table(ROWS))
    assert "odc explain TABLE --background own" in caught.value.hint
    assert ours.explain(pa.table(ROWS), background="own").background == "own"
