from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from protocol.alignment_terms import LEAST_SQUARES_METHODS, AlignmentMethod, AlignmentTerms
from protocol.anchor_terms import ANCHORS, AnchorKind, AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.labels import Label, NumberLabel, SurvivalLabel
from protocol.limits import MAX_COLUMNS, MAX_MESSAGE_BYTES
from protocol.model_terms import (
    CandidateTerms,
    CoxTerms,
    LogisticTerms,
    MlpTerms,
    ModelPrivacyTerms,
    RidgeTerms,
    SvmTerms,
    models_for,
)
from protocol.table_schema import CategoricalColumn, NumericColumn, Schema
from protocol.terms import Terms

AGE = NumericColumn(name="age", low=0.0, high=120.0)
SITE = CategoricalColumn(name="site", levels=("north", "south", "west"))
OUTCOME = Label(name="outcome", classes=("no", "yes"))
SCHEMA = Schema(columns=(AGE, SITE), label_column=OUTCOME)


def make(**changes: Any) -> Terms:
    fields: dict[str, Any] = {
        "consortium_id": "a" * 32,
        "collaboration_id": "b" * 32,
        "title": "Readmission",
        "parties": ("hospital-a", "hospital-b"),
        "lead": "hospital-a",
        "table_schema": SCHEMA,
        "latent_dim": 2,
        "anchor": AnchorTerms(kind="haar", rows=4),
    }
    return Terms(**{**fields, **changes})


def test_a_numeric_column_is_one_feature_and_a_categorical_one_per_level() -> None:
    assert (AGE.width, SITE.width, SCHEMA.width) == (1, 3, 4)


@pytest.mark.parametrize("method", get_args(AlignmentMethod))
def test_an_invertible_target_goes_with_least_squares_alone(method: Any) -> None:
    if method in LEAST_SQUARES_METHODS:
        assert AlignmentTerms(method=method, target="invertible").target == "invertible"
    else:
        with pytest.raises(ValidationError, match="keep lengths"):
            AlignmentTerms(method=method, target="invertible")


def test_defaults_reveal_no_rows() -> None:
    assert not make().is_row_revealing


def test_a_model_that_carries_rows_is_row_revealing() -> None:
    assert make(model=SvmTerms()).is_row_revealing


@pytest.mark.parametrize(("classes", "dtype"), [(2, "u1"), (256, "u1"), (257, "u2"), (65536, "u2")])
def test_labels_take_the_smallest_integer_that_numbers_the_classes(classes: int, dtype: str) -> None:
    assert Label(name="y", classes=tuple(map(str, range(classes)))).wire_dtype == dtype


def test_more_classes_than_two_bytes_number_are_refused() -> None:
    with pytest.raises(ValidationError, match="at most 65536"):
        Label(name="y", classes=tuple(map(str, range(65537))))


def test_levels_count_towards_the_limit_of_columns() -> None:
    half = tuple(map(str, range(MAX_COLUMNS // 2 + 1)))
    columns = tuple(CategoricalColumn(name=name, levels=half) for name in ("a", "b"))
    with pytest.raises(ValidationError, match="at most 65536 encoded features"):
        Schema(columns=columns, label_column=OUTCOME)


def test_the_widest_schema_of_short_names_can_be_sent_and_read() -> None:
    columns = tuple(NumericColumn(name=f"{number:x}", low=0.0, high=1.0) for number in range(40_000))
    schema = Schema(columns=columns, label_column=OUTCOME)
    packed = encode(schema)
    assert len(packed) < MAX_MESSAGE_BYTES
    assert decode(Schema, packed) == schema


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parties": ("hospital-a", "hospital-a")}, "parties must be distinct"),
        ({"lead": "hospital-c"}, "the lead must be one of the parties"),
        ({"latent_dim": 5}, "at most the 4 encoded features"),
        ({"anchor": AnchorTerms(kind="uniform", rows=3)}, "at least as many rows as the 4"),
        ({"anchor": AnchorTerms(kind="haar", rows=5)}, "as many rows as encoded features: 4"),
    ],
)
def test_terms_that_contradict_themselves_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make(**changes)


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-1.7e308, 1.7e308), (float("nan"), 1.0), (0.0, float("inf"))]
)
def test_a_numeric_column_needs_a_finite_width(low: float, high: float) -> None:
    with pytest.raises(ValidationError):
        NumericColumn(name="x", low=low, high=high)


@pytest.mark.parametrize("impute", [0.0, 120.0])
def test_the_ends_of_a_range_can_be_imputed(impute: float) -> None:
    assert NumericColumn(name="x", low=0.0, high=120.0, impute=impute).impute == impute


@pytest.mark.parametrize("impute", [-0.1, 120.1])
def test_nothing_outside_the_range_can_be_imputed(impute: float) -> None:
    with pytest.raises(ValidationError, match="impute must lie between"):
        NumericColumn(name="x", low=0.0, high=120.0, impute=impute)


def test_only_a_level_can_be_imputed() -> None:
    assert CategoricalColumn(name="x", levels=("a", "b"), impute="b").impute == "b"
    with pytest.raises(ValidationError, match="impute must be one of the levels"):
        CategoricalColumn(name="x", levels=("a", "b"), impute="c")


def test_levels_classes_and_column_names_are_distinct() -> None:
    with pytest.raises(ValidationError, match="levels must be distinct"):
        CategoricalColumn(name="x", levels=("a", "a"))
    with pytest.raises(ValidationError, match="classes must be distinct"):
        Label(name="x", classes=("a", "a"))
    with pytest.raises(ValidationError, match="column names must be distinct"):
        Schema(columns=(AGE, AGE), label_column=OUTCOME)
    with pytest.raises(ValidationError, match="column names must be distinct"):
        Schema(columns=(AGE,), label_column=Label(name="age", classes=("a", "b")))


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a" * 63])
def test_a_dns_label_names_a_party(name: str) -> None:
    assert make(parties=(name,), lead=name).lead == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a/b", "a\n", "ä", "a" * 64])
def test_anything_but_a_dns_label_is_refused_as_a_party(name: str) -> None:
    with pytest.raises(ValidationError):
        make(parties=(name,), lead=name)


@pytest.mark.parametrize("char", ["\x1b", "\x00", "\x7f", "\x9b", "\u202e", "\u2028", "\u2066"])
def test_a_name_that_moves_the_cursor_of_its_reader_is_refused(char: str) -> None:
    for name in (f"{char}a", f"a{char}", f"a{char}b"):
        with pytest.raises(ValidationError):
            NumericColumn(name=name, low=0, high=1)


def test_a_name_may_be_in_any_script() -> None:
    for name in ("Größe", "血圧", "возраст", "العمر", "a b"):
        assert NumericColumn(name=name, low=0, high=1).name == name


def predicted(kind: str = "gaussian", rows: int = 8) -> Terms:
    return make(anchor=AnchorTerms(kind=kind, rows=rows), downlink="anchor-predictions")  # type: ignore[arg-type]


def test_anchor_predictions_go_with_a_gaussian_anchor() -> None:
    assert predicted().returns_anchor_predictions
    assert not make().returns_anchor_predictions


def test_every_kind_of_anchor_has_its_traits() -> None:
    assert get_args(AnchorKind) == tuple(ANCHORS)


@pytest.mark.parametrize("kind", ANCHORS)
def test_only_a_square_anchor_is_held_to_the_number_of_features(kind: Any) -> None:
    if ANCHORS[kind].is_square:
        with pytest.raises(ValidationError, match=f"a {kind} anchor has as many rows .*: 4"):
            make(anchor=AnchorTerms(kind=kind, rows=5))
    else:
        assert make(anchor=AnchorTerms(kind=kind, rows=5)).anchor.rows == 5


@pytest.mark.parametrize("kind", ANCHORS)
def test_only_an_anchor_that_travels_has_bytes(kind: Any) -> None:
    found = make(anchor=AnchorTerms(kind=kind, rows=4))
    assert found.anchor_matrix_bytes == (4 * 4 * 4 if ANCHORS[kind].travels_as_matrix else 0)


@pytest.mark.parametrize("kind", ANCHORS)
def test_the_plain_words_warn_of_an_anchor_as_its_traits_say(kind: Any) -> None:
    lines = plain_words(make(anchor=AnchorTerms(kind=kind, rows=4))).splitlines()
    said = {other for other, traits in ANCHORS.items() if f"Warning: {traits.warning}" in lines}
    assert said == ({kind} if ANCHORS[kind].warning else set())


@pytest.mark.parametrize("kind", ANCHORS)
def test_anchor_predictions_go_with_anchors_a_model_can_learn_from(kind: Any) -> None:
    if ANCHORS[kind].unfit_to_learn_from:
        with pytest.raises(ValidationError, match=f"a {kind} anchor has .*: take "):
            predicted(kind, 4 if ANCHORS[kind].is_square else 80)
    else:
        assert predicted(kind, 80).returns_anchor_predictions


@pytest.mark.parametrize(
    ("kind", "rows", "why"), [("haar", 4, "no more rows than features"), ("uniform", 80, "below the middle")]
)
def test_anchor_predictions_refuse_other_anchors_in_words(kind: str, rows: int, why: str) -> None:
    with pytest.raises(ValidationError, match=f"a {kind} anchor has .*{why}.*: take gaussian"):
        predicted(kind, rows)


def test_anchor_predictions_need_many_rows_and_say_how_many() -> None:
    with pytest.raises(ValidationError, match="at least 8, better 80"):
        predicted(rows=7)


def test_anchor_predictions_fit_into_memory() -> None:
    with pytest.raises(ValidationError, match="take more than"):
        predicted(rows=2**31 - 1)


def of_a_number(**changes: Any) -> Terms:
    schema = make().table_schema
    label = NumberLabel(name="days", low=0, high=80)
    changes = {"terms_schema": 2, "model": RidgeTerms(), **changes}
    return make(table_schema=Schema(columns=schema.columns, label_column=label), **changes)


@pytest.mark.parametrize("kind", ["ridge", "averaged", "mlp", "random-forest", "gradient-boosting", "knn"])
def test_a_number_is_predicted_by_the_models_that_can(kind: str) -> None:
    (model,) = (terms() for terms in get_args(CandidateTerms) if terms.model_fields["kind"].default == kind)
    terms = of_a_number(model=model)
    assert terms.task == "number"
    assert decode(Terms, encode(terms)) == terms
    assert models_for("number").count(kind) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": LogisticTerms()}, "a logistic model does not predict number: take one of mlp, ridge"),
        ({"model": SvmTerms()}, "does not predict number"),
        ({"terms_schema": 1, "model": MlpTerms()}, "needs terms_schema 2"),
        (
            {"downlink": "anchor-predictions", "anchor": AnchorTerms(kind="gaussian", rows=8)},
            "downlink anchor-predictions needs a label of classes",
        ),
        (
            {"model": MlpTerms(), "model_privacy": ModelPrivacyTerms(epsilon=1, delta=1e-5)},
            "model_privacy needs a label of classes",
        ),
    ],
)
def test_what_does_not_go_with_a_number_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        of_a_number(**changes)


def test_a_model_of_numbers_does_not_predict_classes() -> None:
    with pytest.raises(ValidationError, match="a ridge model does not predict classes"):
        make(terms_schema=2, model=RidgeTerms())


def test_the_kind_of_a_label_is_read_from_its_block() -> None:
    label = of_a_number().table_schema.label_column
    assert isinstance(label, NumberLabel)
    assert (label.wire_dtype, label.outputs, label.unit) == ("f4", 1, 40)
    with pytest.raises(ValidationError, match="ratio"):
        Schema.model_validate(
            {
                "columns": [NumericColumn(name="x", low=0, high=1)],
                "label_column": {"kind": "ratio", "name": "y"},
            }
        )


def survival_label(**changes: Any) -> SurvivalLabel:
    return SurvivalLabel(
        **{
            "name": "t",
            "event": "e",
            "seen": "1",
            "censored": "0",
            "horizon": 100,
            "times": (10, 50),
            **changes,
        }
    )


def test_survival_is_predicted_by_cox_alone() -> None:
    schema = Schema(columns=make().table_schema.columns, label_column=survival_label())
    terms = make(terms_schema=2, table_schema=schema, model=CoxTerms())
    assert (terms.task, models_for("survival")) == ("survival", ["cox", "auto"])
    assert decode(Terms, encode(terms)) == terms
    assert terms.table_schema.label_column.columns == ("t", "e")
    with pytest.raises(ValidationError, match="a mlp model does not predict survival: take one of cox"):
        make(terms_schema=2, table_schema=schema, model=MlpTerms())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"event": "t"}, "must be distinct"),
        ({"censored": "1"}, "must be distinct"),
        ({"times": (50, 10)}, "must ascend"),
        ({"times": (0, 10)}, "must ascend"),
        ({"times": (10, 101)}, "beyond the horizon"),
        ({"times": ()}, "at least 1"),
        ({"horizon": 0}, "greater than 0"),
    ],
)
def test_a_survival_label_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        survival_label(**changes)


def test_the_event_column_is_no_feature() -> None:
    column = NumericColumn(name="e", low=0, high=1)
    with pytest.raises(ValidationError, match="column names must be distinct"):
        Schema(columns=(column,), label_column=survival_label())
