import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from benchmarks import data
from benchmarks.accuracy import bad_party, markdown
from benchmarks.accuracy.bases import draw_anchor, principal_directions
from benchmarks.accuracy.claims import largest_gap_to_central, least_gain, loss_to_best
from benchmarks.accuracy.experiment import (
    CLASSES_PER_PARTY,
    Cell,
    Halves,
    Noise,
    Party,
    Setup,
    Split,
    deal,
    run,
)
from benchmarks.accuracy.methods import GRID, METHODS, OURS, PAPERS_WAYS, Way
from benchmarks.accuracy.models import scores
from benchmarks.accuracy.papers import FIGURES
from benchmarks.accuracy.summary import gather, interval, rows
from benchmarks.accuracy.tables import setups
from orthonormal_data_collaboration.bases import CONDITIONS, Condition, turn
from protocol.gaussian_mechanism import gaussian_sigma

DIGITS = Setup(
    table="V",
    dataset="digits",
    split="iid",
    parties=5,
    rows_per_party=30,
    latent_dim=10,
    anchor_rows=200,
    conditions=("SameSpan-Orth",),
    ways=(Way("odc"), Way("imakura-random"), OURS),
    models=("svm",),
    metrics=("accuracy",),
    epochs=5,
    test_rows=100,
)


def _rng() -> np.random.Generator:
    return np.random.default_rng(5)


def _bases(condition: Condition) -> list[data.Matrix]:
    rng = _rng()
    parties = deal(data.digits(), DIGITS, rng)
    return turn([principal_directions(party.rows, 10, rng) for party in parties], condition, rng)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_bases_keep_what_their_condition_says(condition: Condition) -> None:
    bases = _bases(condition)
    orthonormal = [np.allclose(basis.T @ basis, np.eye(10), atol=1e-10) for basis in bases]
    one_span = [subspace_angles(bases[0], basis).max() < 1e-6 for basis in bases[1:]]
    assert all(orthonormal) if condition.endswith("-Orth") else not any(orthonormal)
    assert all(one_span) if condition.startswith("SameSpan") else not any(one_span)


def test_principal_directions_are_the_same_span_whichever_way_they_are_found() -> None:
    rows = _rng().random((20, 64))
    few = principal_directions(rows, 6, _rng())
    exact = np.linalg.svd(rows)[2][:6].T
    assert subspace_angles(few, exact).max() < 1e-6
    assert subspace_angles(principal_directions(np.vstack([rows, rows]), 6, _rng()), exact).max() < 1e-6


def test_a_haar_anchor_is_square_and_the_others_have_the_rows_asked_for() -> None:
    assert draw_anchor("haar", 200, 8, _rng()).shape == (8, 8)
    assert draw_anchor("uniform", 200, 8, _rng()).shape == (200, 8)
    assert draw_anchor("gaussian", 200, 8, _rng()).shape == (200, 8)
    with pytest.raises(ValueError, match="not drawn"):
        draw_anchor("public", 200, 8, _rng())


@pytest.mark.parametrize("split", CLASSES_PER_PARTY)
def test_a_party_holds_as_many_classes_as_its_split_says_and_no_row_twice(split: Split) -> None:
    setup = replace(DIGITS, split=split, parties=10, rows_per_party=0)
    parties = deal(data.digits(), setup, _rng())
    assert {len(np.unique(party.labels)) for party in parties} == {CLASSES_PER_PARTY[split]}
    assert set(np.concatenate([party.labels for party in parties])) == set(range(10))
    together = np.vstack([party.rows for party in parties])
    distinct = np.unique(data.digits().train, axis=0)
    assert len(np.unique(together, axis=0)) == len(together) == len(distinct)


def test_iid_parties_test_on_rows_of_their_own_unless_they_share_them() -> None:
    parties = deal(data.digits(), DIGITS, _rng())
    assert [len(party.rows) for party in parties] == 5 * [30]
    assert sum(len(party.test) for party in parties) == 100
    shared = deal(data.digits(), replace(DIGITS, same_test=True), _rng())
    assert all(np.array_equal(party.test, shared[0].test) for party in shared)


def test_hospitals_are_the_sites_of_the_data() -> None:
    rows, labels, sites = _rng().random((6, 3)), np.array([0, 1, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 1, 1])
    dataset = data.Dataset("x", rows, labels, rows, labels, sites, sites)
    parties = deal(dataset, replace(DIGITS, split="hospitals"), _rng())
    assert [len(party.rows) for party in parties] == [2, 4]
    with pytest.raises(ValueError, match="which hospital"):
        deal(replace(dataset, train_sites=None), replace(DIGITS, split="hospitals"), _rng())


@pytest.mark.parametrize(("halves", "lacking"), [("complementary", 5), ("half of the parties", 2)])
def test_parties_without_half_of_the_columns_have_zeros_there_and_in_their_basis(
    halves: Halves, lacking: int
) -> None:
    columns = np.repeat(np.arange(8), 8)
    rows = 0.1 + _rng().random((500, 64))  # no zero of its own
    labels = np.arange(500) % 2
    dataset = data.Dataset("x", rows, labels, rows, labels, columns=columns)
    parties = deal(dataset, replace(DIGITS, halves=halves), _rng())
    held = [party.rows.any(axis=0) for party in parties]
    assert sum(not has.all() for has in held) == lacking
    for party, has in zip(parties, held, strict=True):
        assert has.sum() in (32, 64)
        assert len(np.unique(columns[has])) == has.sum() // 8  # whole columns
        assert not party.test[:, ~has].any()
        np.testing.assert_allclose(principal_directions(party.rows, 10, _rng())[~has], 0, atol=1e-9)
    assert np.array_equal(held[1], ~held[0] if halves == "complementary" else held[3])
    with pytest.raises(ValueError, match="which column"):
        deal(replace(dataset, columns=None), replace(DIGITS, halves=halves), _rng())


def test_isotropic_is_three_centred_sweeps_and_uncentred_on_a_haar_anchor() -> None:
    rng = _rng()
    for kind, centred in (("uniform", True), ("haar", False)):
        anchor = draw_anchor(kind, 200, 64, rng)  # type: ignore[arg-type]
        reps = [anchor @ basis for basis in _bases("DiffSpan-Orth")]
        ours = Way("isotropic", kind).align(reps, rng)  # type: ignore[arg-type]
        parts = Way("gopp-3", kind, centred).align(reps, rng)  # type: ignore[arg-type]
        assert np.allclose(ours, parts, atol=1e-8)


def test_every_way_that_is_compared_has_a_method() -> None:
    for real_data in (False, True):
        for setup in setups(full=False, real_data=real_data):
            assert {way.method for way in setup.ways} <= {*METHODS, "isotropic"}


def test_full_size_is_the_size_of_the_papers() -> None:
    images = [setup for setup in setups(full=True, real_data=True) if setup.dataset == "MNIST"]
    assert {setup.parties for setup in images if setup.table in ("III", "V")} == {100}


def test_with_one_span_odc_and_isotropic_give_the_same_accuracy_and_a_random_target_a_worse_one() -> None:
    found = {
        (cell.method, cell.one_scale): value
        for cell, value in run(replace(DIGITS, oracles=False), 0, None)
        if cell.condition == "SameSpan-Orth"
    }
    assert found["isotropic", True] == found["odc", True]
    assert found["imakura-random", True] < found["odc", True] - 2


def test_the_same_seed_gives_the_same_scores() -> None:
    setup = replace(DIGITS, conditions=("DiffSpan",), oracles=False)
    assert run(setup, 3, None) == run(setup, 3, None) != run(setup, 4, None)


def test_local_models_see_one_party_and_central_sees_all() -> None:
    found = gather([run(replace(DIGITS, ways=()), 0, None)])
    by_method = {cell.method: value for cell, (value,) in found.items() if not cell.one_scale}
    assert by_method["local"] < by_method["central"]


def test_one_scale_undoes_a_number_that_multiplies_every_row() -> None:
    rng = _rng()
    rows = np.vstack([rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) + 1])
    labels = np.repeat([0, 1], 30)

    def measure(factor: float, one_scale: bool) -> float:
        return scores(
            "mlp",
            (factor * rows, labels),
            [(factor * rows, labels)],
            metrics=("roc_auc",),
            epochs=5,
            seed=0,
            one_scale=one_scale,
        )["roc_auc"]

    assert measure(1.0, True) == pytest.approx(measure(1e-3, True))
    assert measure(1.0, False) != pytest.approx(measure(1e-3, False))


def test_a_hospital_that_holds_out_one_class_does_not_count_in_a_rank() -> None:
    rows, labels = np.array([[0.0], [1.0], [0.1], [0.9]]), np.array([0, 1, 0, 1])
    tests = [(rows, labels), (rows[:1], labels[:1])]
    found = scores("logistic", (rows, labels), tests, metrics=("roc_auc",), epochs=5, seed=0, one_scale=True)
    assert found == {"roc_auc": 100.0}


def test_the_interval_is_students() -> None:
    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert interval([1.0]) == (1.0, float("inf"))


def _cell(setup: Setup, method: str = "odc", anchor: str | None = "uniform", one_scale: bool = False) -> Cell:
    condition = None if method == "central" else setup.conditions[0]
    model, metric = setup.models[0], setup.metrics[0]
    return Cell(setup, condition, method, anchor, False, model, one_scale, metric)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "differs"), [(95.6, False), (95.2, True)])
def test_a_row_stands_beside_the_papers_figure_and_says_why_it_differs(value: float, differs: bool) -> None:
    setup = replace(DIGITS, dataset="MNIST", latent_dim=50)
    (row,) = rows({_cell(setup): [value - 0.01, value, value + 0.01]})
    assert (row["paper"], row["paper_half_width"], row["differs"]) == (95.6, 0.1, differs)
    assert ("why" in row) == differs
    assert json.loads(json.dumps(row)) == row
    if differs:
        assert "5 parties instead of 100" in row["why"]


def test_rows_beside_every_paper_can_be_written_as_json() -> None:
    assert json.dumps([(*key, *figure) for key, figure in FIGURES.items()])


def test_no_paper_measured_our_anchor_or_one_scale() -> None:
    setup = replace(DIGITS, dataset="MNIST")
    found = rows({_cell(setup, anchor="haar"): [1.0, 2.0], _cell(setup, one_scale=True): [1.0, 2.0]})
    assert all("paper" not in row for row in found)


def test_the_papers_tables_are_whole() -> None:
    count = {table: sum(key[0] == table for key in FIGURES) for table in ("III", "V", "II, v2")}
    # 4 rows of 4; 4 image tables of 2 + 4 * 3, and 8 molecule tables of 1 + 4 * 3; 4 rows of 5
    assert count == {"III": 16, "V": 4 * 14 + 8 * 13, "II, v2": 20}
    assert FIGURES["V", "Tox21 SR-ARE", "DiffSpan", "kawakami", "mlp", "pr_auc"] == (20.3, 0.2)
    assert FIGURES["II, v2", "AMES", "DiffSpan-Orth", "gopp", "mlp", "roc_auc"] == pytest.approx(
        (86.9, 0.6 * 2.2622 / np.sqrt(10)), rel=1e-4
    )


def test_a_gain_is_the_smaller_of_both_scalings_and_a_gap_the_larger() -> None:
    found = {
        _cell(DIGITS, "odc"): [80.0, 82.0],
        _cell(DIGITS, "odc", one_scale=True): [84.0, 84.0],
        _cell(DIGITS, "isotropic", "haar"): [90.0, 90.0],
        _cell(DIGITS, "isotropic", "haar", one_scale=True): [91.0, 91.0],
        _cell(DIGITS, "central", None): [92.0, 92.0],
        _cell(DIGITS, "central", None, one_scale=True): [94.0, 94.0],
    }
    assert least_gain(found, lambda cell: cell.condition is not None) == pytest.approx(7)
    assert largest_gap_to_central(found, lambda cell: cell.condition is not None) == pytest.approx(3)


def test_the_loss_is_to_one_method_with_the_same_scaling() -> None:
    other = replace(DIGITS, dataset="MNIST")
    found = {
        _cell(setup, way.method, way.anchor, one_scale): [80.0]
        for setup in (DIGITS, other)
        for way in (*PAPERS_WAYS, OURS)
        for one_scale in (False, True)
    }
    found[_cell(DIGITS, "imakura")] = [81.0]
    found[_cell(other, "imakura")] = [80.5]
    found[_cell(other, "gopp")] = [82.0]
    loss = loss_to_best(found, PAPERS_WAYS, "SameSpan-Orth", one_scale=False)
    assert (loss.method, loss.anchor) == ("gopp", "uniform")
    assert loss.to_method == pytest.approx(1.0)
    assert loss.row_by_row == pytest.approx((1 + 2) / 2)
    assert loss_to_best(found, PAPERS_WAYS, "SameSpan-Orth", one_scale=True).row_by_row == 0


def test_the_grid_holds_what_isotropic_is_made_of() -> None:
    assert Way("gopp-3", "haar") in GRID
    assert Way("odc") in GRID


def test_every_fault_is_planted_and_a_wrong_name_is_not_right() -> None:
    planted = bad_party.rounds(bad_party.ROUND, None, faulty=True, count=6)
    assert [outcome.fault for outcome in planted] == list(bad_party.FAULTS)
    assert all(len(outcome.planted) == 1 for outcome in planted)
    assert not replace(planted[0], named=()).right
    assert not replace(planted[0], named=(*planted[0].planted, 99)).right


def test_nothing_is_planted_in_a_clean_round_and_rows_count_what_was_right() -> None:
    clean = bad_party.rounds(bad_party.ROUND, None, faulty=False, count=3)
    assert {(outcome.fault, outcome.planted) for outcome in clean} == {(None, ())}
    alarm = replace(clean[0], anchor="uniform", named=(1,))
    assert bad_party.as_rows([alarm, replace(alarm, named=())]) == [
        {"table": "bad party", "fault": "none", "anchor": "uniform", "rounds": 2, "right": 1}
    ]


@pytest.mark.parametrize("fault", bad_party.FAULTS)
def test_a_fault_changes_what_is_sent_and_keeps_its_shape(fault: str) -> None:
    rng = _rng()
    own, other = rng.random((50, 3)), rng.random((50, 3))
    sent = bad_party.FAULTS[fault](own, other, rng)
    assert sent.shape == (50, 3)
    assert np.isfinite(sent).all()
    assert not np.allclose(sent, own)


def test_a_markdown_cell_holds_both_scalings_and_the_papers_figure() -> None:
    setup = replace(DIGITS, dataset="MNIST")
    text = markdown.tables(
        rows(
            {
                _cell(setup): [90.0, 90.2],
                _cell(setup, one_scale=True): [91.0, 91.0],
                _cell(setup, "central", None): [93.0, 93.0],
            }
        )
    )
    assert "| MNIST | iid | svm | SameSpan-Orth | 90.1±1.3 / 91.0±0.0 (95.6*) |" in text
    assert "| MNIST | iid | svm | central | 93.0±0.0 (96.0*) |" in text


def test_scaled_kawakami_shortens_a_direction_by_how_much_the_parties_agree_on_it() -> None:
    rng = np.random.default_rng(0)
    reps = [rng.standard_normal((30, 4)) for _ in range(3)]
    plain = METHODS["kawakami"](reps, rng)
    scaled = METHODS["kawakami-scaled"](reps, rng)
    images = [rep @ change for rep, change in zip(reps, plain, strict=True)]
    pairs = sum(np.sum((one - other) ** 2, axis=0) for one in images for other in images)
    np.testing.assert_allclose(scaled[2], plain[2] * (1 - pairs / (2 * len(reps))), rtol=1e-10)


def test_noise_on_a_row_covers_the_whole_row_and_on_a_feature_one_number() -> None:
    rows = np.full((2000, 4), 0.5)
    party = Party(rows, np.zeros(2000, dtype=np.int64), rows[:1], np.zeros(1, dtype=np.int64))
    of_feature, of_row = (
        np.std(Noise(2.0, unit).added_to(party, _rng()).rows) for unit in ("feature", "row")
    )
    assert of_row / of_feature == pytest.approx(2, rel=0.05)  # every row has norm 1
    assert of_feature == pytest.approx(gaussian_sigma(2.0, 1e-3, sensitivity=1), rel=0.05)


def test_less_privacy_is_more_accuracy_and_each_noise_has_a_row() -> None:
    noises = (Noise(0.5, "feature"), Noise(8.0, "feature"), Noise(8.0, "row"))
    found = dict(run(replace(DIGITS, rows_per_party=100, noises=noises), 0, None))
    mean = {
        cell.method: value for cell, value in found.items() if cell.condition is None and not cell.one_scale
    }
    assert mean["central"] > mean["DP 8 per feature"] > mean["DP 0.5 per feature"] + 10
    assert mean["DP 8 per feature"] > mean["DP 8 per row"] + 10
