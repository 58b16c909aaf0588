"""A round in one process has every method, anchor, model and defence, by the code of the product."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from analyst_server.alignment.registry import METHODS, TARGETS
from metering.formulas import Round, whole_round
from orthonormal_data_collaboration import (
    CONDITIONS,
    DraftedEvent,
    MemberSurvival,
    PrivacyOptions,
    draft_terms,
    simulate,
    simulation,
)
from protocol.alignment_terms import LEAST_SQUARES_METHODS
from protocol.anchor_terms import ANCHORS
from protocol.errors import InputError
from protocol.model_terms import PRIVATE_MODELS, models_for
from protocol.terms import Terms
from user_client.errors import TableError
from user_client.tables import encode_rows

Pair = tuple[NDArray[Any], NDArray[Any]]
Parties = dict[str, Pair]
BETTER_THAN_CHANCE = 0.8
"""Accuracy; the largest of the three classes has 0.4 of the rows, and a round reaches 0.97."""


def table_of(X: NDArray[Any]) -> pa.Table:
    return pa.table({f"x{index}": column for index, column in enumerate(X.T)})


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_every_method_of_alignment(parties: Parties, unseen: Pair, method: str) -> None:
    found = simulate(parties, random_state=0, alignment=method, model="logistic")
    assert found.method == method or method == "auto"
    assert found.terms.alignment.method == method
    assert [one.score(*unseen) > BETTER_THAN_CHANCE for one in found.values()] == [True] * 3


@pytest.mark.parametrize("target", TARGETS)
def test_every_target(parties: Parties, unseen: Pair, target: str) -> None:
    method = min(LEAST_SQUARES_METHODS)
    found = simulate(
        parties, random_state=0, alignment={"method": method, "target": target}, model="logistic"
    )
    assert found["hospital-2"].score(*unseen) > BETTER_THAN_CHANCE


@pytest.mark.parametrize("kind", ANCHORS)
def test_every_anchor(parties: Parties, unseen: Pair, kind: str) -> None:
    X, _ = unseen
    of_public = {"public": table_of(X)} if ANCHORS[kind].travels_as_matrix else {}
    anchor: Any = {"kind": kind, "rows": len(X)} if of_public else kind
    found = simulate(parties, random_state=0, anchor=anchor, model="logistic", **of_public)
    assert found.terms.anchor.kind == kind
    assert found.anchor is not None
    assert found.anchor.shape == (found.terms.anchor.rows, 13)
    assert found["hospital-0"].score(*unseen) > BETTER_THAN_CHANCE


@pytest.mark.parametrize("model", models_for("classes"))
def test_every_model_of_classes(parties: Parties, unseen: Pair, model: str) -> None:
    found = simulate(parties, random_state=0, model=model)
    assert found["hospital-1"].score(*unseen) > BETTER_THAN_CHANCE


@pytest.mark.parametrize("model", models_for("number"))
def test_every_model_of_numbers(parties: Parties, model: str) -> None:
    numbers = {name: (np.delete(X, 0, axis=1), X[:, 0]) for name, (X, _) in parties.items()}  # alcohol
    found = simulate(numbers, random_state=0, model=model)
    assert found.terms.task == "number"
    X, y = numbers["hospital-0"]
    assert found["hospital-1"].score(X, y) > 0.2
    assert abs(float(np.mean(found["hospital-1"].predict(X))) - 13) < 1  # in its unit


@pytest.mark.parametrize("model", models_for("survival"))
def test_every_model_of_survival(model: str) -> None:
    rng = np.random.default_rng(0)

    def patients(count: int) -> pa.Table:
        X = rng.standard_normal((count, 3))
        days = 100 * rng.exponential(np.exp(-X[:, 0]))
        seen = np.where(rng.random(count) < 0.8, "died", "lost")
        return table_of(X).append_column("days", pa.array(days)).append_column("status", pa.array(seen))

    parties = {"a": patients(150), "b": patients(80)}
    event = DraftedEvent("status", "died")
    found = simulate(parties, label="days", event=event, task="survival", random_state=0, model=model)
    other, member = patients(200), found["b"]
    assert isinstance(member, MemberSurvival)
    assert member.score(other) > 0.65
    assert member.predict_survival(other).shape == (200, len(member.times_))
    again = member.fit(parties["b"], None)
    np.testing.assert_array_equal(again.predict(other), member.predict(other))


@pytest.mark.parametrize("model", PRIVATE_MODELS)
def test_every_private_model(parties: Parties, model: str) -> None:
    found = simulate(parties, random_state=0, model=model, model_privacy={"epsilon": 50.0, "delta": 1e-5})
    assert found.report["model_privacy"]["epsilon"] <= 50


@pytest.mark.parametrize(
    "options",
    [
        PrivacyOptions(epsilon=20.0, delta=1e-3, clip=1.0),
        PrivacyOptions(drop_below=0.4),
        PrivacyOptions(permute_rows=True),
        PrivacyOptions(perturb_basis=0.05),
        PrivacyOptions(dither=1.0),
        PrivacyOptions(hold_out=0.5),
    ],
    ids=repr,
)
def test_every_defence_of_rows(parties: Parties, options: PrivacyOptions) -> None:
    """Each leaves a party with other arrays than it sends without, and is stated as it was done."""
    plain = simulate(parties, random_state=0, model="logistic", latent_dim=6).members["hospital-1"]
    found = simulate(parties, random_state=0, model="logistic", latent_dim=6, privacy={"hospital-1": options})
    own = found.members["hospital-1"]
    stated = own.prepared.privacy
    assert {name: value for name, value in stated if value is not None and name != "dither"} == {
        name: value for name, value in options.record() if value is not None and name != "dither"
    }
    assert own.rep.shape != plain.rep.shape or not np.array_equal(own.rep, plain.rep)
    np.testing.assert_array_equal(
        found.members["hospital-0"].rep,
        simulate(parties, random_state=0, model="knn", latent_dim=6).members["hospital-0"].rep,
        err_msg="another party draws the same, whatever this one does and whatever the model",
    )


@pytest.mark.parametrize("rep_dtype", ["i1", "f2", "f4", "f8"])
def test_every_number_type_counts_its_bytes(parties: Parties, rep_dtype: str) -> None:
    found = simulate(parties, random_state=0, rep_dtype=rep_dtype, latent_dim=4, model="logistic")
    for member in found.members.values():
        numbers = member.rep.size + member.anchor_rep.size
        scales = 2 * 4 * 4 if rep_dtype == "i1" else 0
        assert member.uplink_bytes == numbers * np.dtype(rep_dtype).itemsize + member.rows + scales


def test_what_a_member_holds_is_what_the_paper_says(parties: Parties) -> None:
    found = simulate(parties, random_state=0, dither=0.0, rep_dtype="f8", model="logistic", hold_out=0.0)
    assert found.anchor is not None
    for name, member in found.members.items():
        basis, change = member.secret_basis, member.change_of_basis
        np.testing.assert_allclose(basis.T @ basis, np.eye(found.terms.latent_dim), atol=1e-12)
        np.testing.assert_allclose(change.T @ change, np.eye(found.terms.latent_dim), atol=1e-12)
        X = encode_rows(table_of(parties[name][0]), found.terms.table_schema)
        np.testing.assert_allclose(member.rep, X @ basis, atol=1e-12)
        np.testing.assert_allclose(member.anchor_rep, found.anchor @ basis, atol=1e-12)
        np.testing.assert_allclose(member.aligned_rep, X @ basis @ change, atol=1e-12)
    aligned = found.aligned_to_arrow()
    assert aligned.num_rows == sum(len(y) for _, y in parties.values())
    np.testing.assert_array_equal(aligned.column("label")[:5], found.members["hospital-0"].labels[:5])


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_of_the_bases(parties: Parties, condition: Any) -> None:
    found = simulate(
        parties,
        random_state=0,
        bases=condition,
        anchor="uniform",
        latent_dim=4,
        rep_dtype="f8",
        model="logistic",
        train_on_suspected_rows=True,
    )
    bases = [member.secret_basis for member in found.members.values()]
    is_orthonormal = all(np.allclose(basis.T @ basis, np.eye(4)) for basis in bases)
    assert is_orthonormal == condition.endswith("-Orth")
    together = np.linalg.matrix_rank(np.hstack(bases), tol=1e-8)
    assert (together == 4) == condition.startswith("SameSpan")


@pytest.mark.parametrize("task", ["classes", "number"])
def test_the_encoding_none_changes_no_number(parties: Parties, task: Any) -> None:
    small = {name: (X / 2000, y.astype(float)) for name, (X, y) in parties.items()}
    found = simulate(small, random_state=0, task=task, encoding="none", latent_dim=3, hold_out=0.0)
    for name, (X, _) in small.items():
        np.testing.assert_allclose(found.members[name].encoded_rows, X, atol=1e-15)
    with pytest.raises(TableError, match="from -1 to 1"):
        simulate(parties, random_state=0, encoding="none", latent_dim=3)


def test_terms_of_others_are_refused(parties: Parties) -> None:
    terms = simulate(parties, random_state=0, model="logistic").terms
    renamed = {f"clinic-{index}": pair for index, pair in enumerate(parties.values())}
    with pytest.raises(InputError, match=r"the terms are for hospital-0, .* and rows came of clinic-0"):
        simulate(renamed, terms)
    with pytest.raises(InputError, match="the terms predict classes, and the labels are for number"):
        simulate(parties, terms, task="number")
    with pytest.raises(InputError, match="encoding is no field of terms"):
        simulate(parties, terms, encoding="ranges")


def test_what_is_about_rows_has_no_answer_under_sums(parties: Parties) -> None:
    found = simulate(parties, random_state=0, sums={})
    assert (found.method, found.anchor, found.suspected) == (None, None, [])
    for ask in (lambda: found.formulas, found.break_even, found.aligned_to_arrow):
        with pytest.raises(InputError, match="under sums"):
            ask()
    assert [len(member.held_out) > 0 for member in found.members.values()] == [True] * 3
    assert all(member.evaluation is not None for member in found.members.values())


def test_nri_gives_each_party_a_model_of_its_own(parties: Parties, unseen: Pair) -> None:
    found = simulate(parties, random_state=0, downlink="anchor-predictions", anchor="gaussian")
    own = found.members["hospital-0"].prepared.privacy
    assert own.permute_rows
    assert own.perturb_basis is not None
    assert found["hospital-0"].score(*unseen) > BETTER_THAN_CHANCE
    assert found.members["hospital-0"].downlink_bytes == 4 * 3 * found.terms.anchor.rows


@pytest.mark.parametrize("sums", [{}, {"random_features": 16}, {"epsilon": 20.0}, {"cohort": True}], ids=str)
def test_sums_in_the_place_of_rows(parties: Parties, unseen: Pair, sums: dict[str, Any]) -> None:
    found = simulate(parties, random_state=0, sums=sums)
    again = simulate(parties, random_state=0, sums=sums)
    assert found["hospital-1"].score(*unseen) > 0.6
    np.testing.assert_allclose(
        found["hospital-1"].predict_proba(unseen[0]), again["hospital-1"].predict_proba(unseen[0]), atol=1e-6
    )
    with pytest.raises(InputError, match="no row leaves"):
        _ = found.members["hospital-1"].rep
    assert found.to_arrow().column("hidden_share").null_count == 3


def test_sums_by_class(parties: Parties, unseen: Pair) -> None:
    found = simulate(parties, random_state=0, sums={"min_rows": 5}, model="quadratic-discriminant")
    assert found["hospital-1"].score(*unseen) > BETTER_THAN_CHANCE


def test_a_seed_repeats_all_and_another_does_not(parties: Parties, unseen: Pair) -> None:
    one, same, other = (simulate(parties, random_state=seed, model="logistic") for seed in (1, 1, 2))
    for name in parties:
        np.testing.assert_array_equal(one.members[name].rep, same.members[name].rep)
        assert not np.array_equal(one.members[name].secret_basis, other.members[name].secret_basis)
        np.testing.assert_array_equal(one[name].predict_proba(unseen[0]), same[name].predict_proba(unseen[0]))
    once, anew = (simulate(parties, model="logistic").members["hospital-0"] for _ in range(2))
    assert not np.array_equal(once.secret_basis, anew.secret_basis)


def test_terms_may_be_given_in_every_form(parties: Parties, tmp_path: Any) -> None:
    X, y = parties["hospital-0"]
    table = table_of(X).append_column("label", pa.array([str(value) for value in y]))
    drafted = draft_terms(table, label="label", parties=list(parties), title="given", latent_dim=3)
    file = tmp_path / "terms.toml"
    file.write_text(drafted.to_toml())
    by_draft = simulate(parties, drafted, random_state=0, model="logistic")
    assert isinstance(by_draft.terms, Terms)
    for given in (by_draft.terms, drafted.content, file, str(file)):
        found = simulate(parties, given, random_state=0, model="logistic")
        assert found.terms == by_draft.terms
        np.testing.assert_array_equal(found.members["hospital-2"].rep, by_draft.members["hospital-2"].rep)


def test_parties_may_be_tables_and_frames(parties: Parties, unseen: Pair) -> None:
    tables = {
        name: table_of(X).append_column("kind", pa.array([f"kind {value}" for value in y]))
        for name, (X, y) in parties.items()
    }
    frames = {name: table.to_pandas() for name, table in tables.items()}
    by_table, by_frame = (
        simulate(given, label="kind", random_state=0, model="logistic") for given in (tables, frames)
    )
    names = np.array([f"kind {value}" for value in unseen[1]])
    assert by_table["hospital-0"].score(table_of(unseen[0]), names) > BETTER_THAN_CHANCE
    np.testing.assert_array_equal(
        by_table["hospital-0"].predict_proba(unseen[0]), by_frame["hospital-0"].predict_proba(unseen[0])
    )


def test_a_part_of_a_frame_has_the_columns_of_the_frame(parties: Parties) -> None:
    frames = {
        name: table_of(X).append_column("kind", pa.array(y % 2)).to_pandas()
        for name, (X, y) in parties.items()
    }
    parts = {name: frame[frame.x0 > frame.x0.median()] for name, frame in frames.items()}
    found = simulate(parts, label="kind", random_state=0, model="logistic")
    drafted = [column.name for column in found.terms.table_schema.columns]
    assert drafted == [name for name in frames["hospital-0"].columns if name != "kind"]


@pytest.mark.parametrize("other", [str, bool])
def test_labels_of_several_types_are_told(parties: Parties, other: type) -> None:
    X, y = parties["hospital-0"]
    with pytest.raises(ValueError, match="the labels are of several types"):
        simulate({**parties, "hospital-0": (X, (y % 2).astype(other))}, random_state=0)


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_a_label_that_is_missing_is_told(parties: Parties, gap: Any) -> None:
    X, y = parties["hospital-0"]
    labels = np.array([f"kind {value}" for value in y], dtype=object)
    labels[3] = gap
    with pytest.raises(ValueError, match="Input y contains None or NaN"):
        simulate({**parties, "hospital-0": (X, labels)}, random_state=0)
    tables = {
        name: table_of(rows).append_column("kind", pa.array([f"kind {value}" for value in of]))
        for name, (rows, of) in parties.items()
    }
    gone = pa.array([value if isinstance(value, str) else None for value in labels], pa.string())
    tables["hospital-0"] = tables["hospital-0"].set_column(X.shape[1], "kind", gone)
    with pytest.raises(TableError, match="column 'kind', data row 4: the field is empty"):
        simulate(tables, label="kind", random_state=0)


def test_the_result_is_arrow_and_pandas(parties: Parties) -> None:
    found = simulate(parties, random_state=0, judge=True, model="logistic")
    table = found.to_arrow()
    assert table.column("party").to_pylist() == list(parties)
    assert found.to_pandas().shape == table.shape
    assert len(found.aligned_to_pandas()) == found.report["rows"] == sum(table.column("rows").to_pylist())
    expected = [one.total_bytes for one in found.formulas.uplinks]
    assert table.column("uplink_by_formula").to_pylist() == expected
    assert table.column("held_out").to_pylist() == [
        len(y) - n for (_, y), n in zip(parties.values(), table.column("rows").to_pylist(), strict=True)
    ]
    assert not found.report["judgement"]["is_pending"]
    assert found.break_even().total_rounds > found.break_even(1.0).uplink_rounds > 0


def test_what_holds_for_all_parties_is_computed_once(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = simulate(parties, random_state=0, model="logistic")
    asked: list[dict[str, Any]] = []

    def counted(**given: Any) -> Round:
        asked.append(given)
        return whole_round(**given)

    monkeypatch.setattr(simulation, "whole_round", counted)
    assert found.to_arrow().num_rows == len(parties) > 1
    assert len(asked) == 1


def test_a_party_without_rows_predicts_too(parties: Parties, unseen: Pair) -> None:
    X, y = unseen
    found = simulate({**parties, "consumer": (X[:0], y[:0])}, random_state=0, model="logistic")
    assert found.members["consumer"].rows == 0
    assert found["consumer"].score(X, y) > BETTER_THAN_CHANCE


def test_groups_have_models_of_their_own(parties: Parties, unseen: Pair) -> None:
    X, y = (np.concatenate(parts) for parts in zip(*parties.values(), strict=True))
    rare, often = (
        np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:count]]) for count in (9, 60)
    )
    given = {"a": (X[rare], y[rare]), "b": (X[often], y[often]), "c": (X[rare][::-1], y[rare][::-1])}
    found = simulate(given, random_state=0, model="logistic", model_groups={"largest_distance": 0.1})
    assert [group["parties"] for group in found.report["groups"]] == [["a", "c"]]
    data = unseen[0]
    shares = {name: one.predict_proba(data)[:, 1].mean() for name, one in found.items()}
    assert max(shares["a"], shares["c"]) < shares["b"]


@pytest.mark.parametrize("bases", ["SameSpan", "DiffSpan"])
def test_bases_that_no_analyst_aligns_are_refused_before_anything_runs(
    parties: Parties, bases: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "play", lambda *_given: pytest.fail("it was played"))
    with pytest.raises(InputError, match=f"the condition {bases} needs an anchor that is not haar"):
        simulate(parties, random_state=0, bases=bases, anchor="haar", alignment="odc", model="logistic")


def test_an_uplink_is_attacked_before_it_leaves(parties: Parties) -> None:
    two = {name: parties[name] for name in list(parties)[:2]}
    found = simulate(two, random_state=0, attack="quick", model="logistic", dither=0.0)
    for member in found.members.values():
        assert [tried.name for tried in member.prepared.attacks][:1] == ["closest vector"]
    assert simulate(two, random_state=0, model="logistic").members["hospital-0"].prepared.attacks == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"alignment": "best"}, "no alignment method is called best"),
        ({"alignment": {"method": "odc", "speed": 3}}, "speed"),
        ({"latent_dims": 3}, "latent_dims is no field of terms"),
        ({"latent_dim": 99}, "between 1 and the 13 features"),
        ({"latent_dim": "3"}, "latent_dim is a whole number, such as 3, got '3'"),
        ({"latent_dim": 3.5}, "latent_dim is a whole number"),
        ({"privacy": 3}, "privacy is PrivacyOptions for all parties, or a mapping"),
        ({"privacy": {"hospital-0": 3}}, "privacy is PrivacyOptions for all parties, or a mapping"),
        ({"random_state": -1}, "random_state is a whole number from 0 on"),
        ({"random_state": "x"}, "random_state is a whole number from 0 on"),
        ({"anchor": 3}, "anchor is a name or a mapping"),
        ({"sums": True}, "sums is a mapping of its fields"),
        ({"exclude": "x0"}, "exclude takes several names, such as ['x0']"),
        ({"label": 3}, "label is the name of a column, or the names of several, got 3"),
        ({"terms": 3}, "this is a int"),
        ({"terms": "nowhere.toml"}, "cannot read nowhere.toml"),
        ({"model": "best"}, "of no known kind"),
        ({"bases": "AnySpan"}, "bases must be one of SameSpan-Orth"),
        ({"drafted_by": "nobody"}, "drafted_by must be lead, all or a table"),
        ({"privacy": {"hospital-9": PrivacyOptions()}}, "hospital-9, which is no party"),
        ({"anchor": "public"}, "taken from a table"),
        ({"public": table_of(np.zeros((9, 13)))}, "omit the table"),
        ({"encoding": "none"}, "needs latent_dim"),
        ({"label": "x0"}, "give label another name"),
        ({"dither": 0.5, "privacy": PrivacyOptions(dither=0.1)}, "at least 0.5"),
        ({"sums": {}, "bases": "SameSpan"}, "no row leaves under sums"),
        ({"bases": "SameSpan"}, "needs an anchor that is not haar: say anchor='uniform'"),
        ({"attack": "typo"}, "attack must be one of none, quick, thorough, got typo"),
        ({"sums": {}, "privacy": PrivacyOptions(dither=1.0)}, "only hold_out is used"),
    ],
)
def test_a_wrong_argument_is_named(parties: Parties, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as refused:
        simulate(parties, **{"random_state": 0, **options})
    assert refused.value.hint


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1], "parties is a mapping of names"),
        ("x", "parties is a mapping of names"),
        (None, "at least one party"),
        ({}, "at least one party"),
        ({"a": (np.zeros((4, 2)), np.arange(4)), "b": pa.table({"x0": [1.0]})}, "for every party"),
        ({"a": pa.table({"x0": [1.0]})}, "label has to name the column"),
        ({"a": (np.zeros((4, 2)), [0, 1, 0, 1]), "b": (np.zeros((4, 3)), [0, 1, 0, 1])}, "other names"),
    ],
)
def test_wrong_parties_are_named(given: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        simulate(given)


@pytest.mark.parametrize("event", ["status", ("status", "died")])
def test_an_event_that_is_none_is_refused_in_words(event: Any) -> None:
    table = table_of(np.zeros((4, 1))).append_column("days", pa.array([1.0, 2, 3, 4]))
    with pytest.raises(InputError, match=r'such as DraftedEvent\("status", "died"\)'):
        simulate({"a": table, "b": table}, label="days", event=event, task="survival")
