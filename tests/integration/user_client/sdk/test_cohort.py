"""What institutions read from the total of a round of sums, beside the same of all rows in one place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from protocol.arrays import specify
from protocol.envelope import decode_stored
from protocol.errors import InputError, MalformedMessageError, ShapeMismatchError
from protocol.messages import DownlinkManifest
from protocol.sums import TOTAL
from tests.harness.in_process import COLUMNS, csv, downlink_bytes, replay
from tests.harness.sums import COHORT, NUMBERS, RANDOM, SUMS, ThreeOfThem, stays
from user_client.custody.round_directory import TOTAL_FILE
from user_client.errors import NotPreparedError
from user_client.sdk import Coefficients
from user_client.sdk.coefficients import OF_A_DISCRIMINANT
from user_client.sdk.terms import check_table
from user_client.tables import encode_rows, table_from
from user_client.words import OURS_ALONE, risk_in_words, summary_in_words


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreeOfThem]:
    found = ThreeOfThem(tmp_path, monkeypatch)
    yield found
    found.close()


def with_total(terms: dict[str, Any]) -> dict[str, Any]:
    return {**terms, "sums": {**terms["sums"], "cohort": True}}


def all_rows(consortium: ThreeOfThem) -> dict[str, NDArray[Any]]:
    tables = [stays(seed) for seed in range(3)]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def by_change(found: Coefficients) -> dict[tuple[str, str], Any]:
    return {(each.column, each.change): each for each in found.coefficients}


def regression(rows: dict[str, NDArray[Any]]) -> tuple[dict[tuple[str, str], tuple[float, float]], float]:
    """Return coefficients with standard errors in the units of the columns, and R squared."""
    empty = rows["x1"] == ""
    places = {"low": -1.0, "mid": 0.0, "high": 1.0}
    columns: dict[Any, NDArray[np.float64]] = {
        ("x0", "per unit"): rows["x0"].astype(float),
        ("x1", "per unit"): np.where(empty, "0.5", rows["x1"]).astype(float),
        ("x1", "empty instead of the middle"): empty.astype(float),
        ("sex", "m instead of f"): (rows["sex"] == "m").astype(float),
        ("ward", "b instead of a"): (rows["ward"] == "b").astype(float),
        ("ward", "c instead of a"): (rows["ward"] == "c").astype(float),
        ("grade", "high instead of low"): np.array([places[each] for each in rows["grade"]]) / 2,
    }
    columns = {change: numbers for change, numbers in columns.items() if numbers.any()}
    design = np.column_stack([np.ones(len(empty)), *columns.values()])
    inverse = np.linalg.inv(design.T @ design)
    weights = inverse @ design.T @ rows["days"]
    left = rows["days"] - design @ weights
    errors = np.sqrt(np.diag(inverse) * (left @ left) / (len(left) - design.shape[1]))
    r_squared = 1 - left @ left / np.sum((rows["days"] - rows["days"].mean()) ** 2)
    return dict(zip(columns, zip(weights[1:], errors[1:], strict=True), strict=True)), float(r_squared)


def test_coefficients_and_their_errors_are_those_of_a_regression_on_all_rows(consortium: ThreeOfThem) -> None:
    rounds = consortium.until_stays_are_received()
    expected, r_squared = regression(all_rows(consortium))
    for each in rounds:
        found = each.coefficients()
        told = by_change(found)
        assert list(told) == list(expected)
        for change, (value, error) in expected.items():
            # labels travel as 32-bit floats
            assert told[change].value == pytest.approx(value, abs=1e-5), change
            assert told[change].error == pytest.approx(error, rel=1e-5), change
            assert told[change].low == pytest.approx(value - 1.974 * error, abs=1e-3)
        assert found.scale == "days"
        assert found.fit is not None
        assert (found.fit.rows, found.fit.freedom) == (180, 172)
        assert found.fit.r_squared == pytest.approx(r_squared, abs=1e-6)
        assert any("ward, nowhere instead of a" in note for note in found.notes)
        assert any("the model that predicts has a penalty" in note for note in found.notes)


def test_the_cohort_is_described_in_the_units_of_the_columns(consortium: ThreeOfThem) -> None:
    rounds, rows = consortium.until_stays_are_received(), all_rows(consortium)
    found = [each.cohort() for each in rounds]
    assert found[0] == found[1] == found[2]
    assert (found[0].rows, found[0].features) == (180, 10)
    figures = {(each.column, each.number): each for each in found[0].figures}
    encoded_x1 = np.where(rows["x1"] == "", "0.5", rows["x1"]).astype(float)
    for key, numbers in {
        ("x0", "value"): rows["x0"],
        ("x1", "value"): encoded_x1,
        ("x1", "share empty"): rows["x1"] == "",
        ("sex", "share of m"): rows["sex"] == "m",
        ("ward", "share of c"): rows["ward"] == "c",
        ("ward", "share of nowhere"): rows["ward"] == "nowhere",
        ("grade", "place from low (-1) to high (1)"): np.select(
            [rows["grade"] == "low", rows["grade"] == "high"], [-1.0, 1.0]
        ),
        ("days", "value"): rows["days"],
    }.items():
        assert figures[key].mean == pytest.approx(np.mean(numbers), abs=1e-5), key
        assert figures[key].deviation == pytest.approx(np.std(numbers, ddof=1), abs=1e-5), key
    names = [(each.column, each.number) for each in found[0].figures]
    x0, days, nowhere = (
        names.index(key) for key in (("x0", "value"), ("days", "value"), ("ward", "share of nowhere"))
    )
    expected = np.corrcoef(rows["x0"], rows["days"])[0, 1]
    assert found[0].correlations[x0][days] == pytest.approx(expected, abs=1e-6)
    assert found[0].correlations[x0][nowhere] is None
    assert str(figures["ward", "share of nowhere"].mean) == "0.0"
    assert sum(one.share for one in found[0].components) == pytest.approx(1)
    assert any("counts as the middle" in note for note in found[0].notes)


def test_a_logarithm_is_described_as_one_and_its_coefficient_is_of_a_doubling(
    consortium: ThreeOfThem,
) -> None:
    columns = [*COHORT["table_schema"]["columns"]]
    ends = {"low": 0.25, "high": 4.0, "centre": 1.0, "scale": "logarithm"}
    columns[1] = {"kind": "range", "name": "x1", **ends, "empty": "impute", "impute": 0.5}
    schema = {**COHORT["table_schema"], "columns": columns}
    first, *_ = consortium.until_stays_are_received(
        table_schema=schema, latent_dim=9, anchor={"kind": "haar", "rows": 9}
    )
    rows = all_rows(consortium)
    x1 = np.clip(np.where(rows["x1"] == "", "0.5", rows["x1"]).astype(float), 0.25, 4)
    of_x1 = next(each for each in first.cohort().figures if each.column == "x1")
    assert of_x1.number == "natural logarithm of the value"
    assert of_x1.mean == pytest.approx(np.log(x1).mean(), abs=1e-6)
    expected, _ = regression({**rows, "x1": np.log2(x1).astype(str)})
    found = by_change(first.coefficients())["x1", "per doubling"]
    assert found.value == pytest.approx(expected["x1", "per unit"][0], abs=1e-5)


def test_random_features_do_not_stand_in_the_way(consortium: ThreeOfThem) -> None:
    more = {**COHORT["sums"], "random_features": 16, "kernel_width": 1.5}
    found = consortium.until_stays_are_received(latent_dim=26, sums=more)[0]
    expected, _ = regression(all_rows(consortium))
    told = by_change(found.coefficients())
    assert told["x0", "per unit"].error == pytest.approx(expected["x0", "per unit"][1], rel=1e-5)
    assert found.cohort().features == 10


def test_classes_have_figures_and_log_odds_without_intervals(consortium: ThreeOfThem) -> None:
    consortium.until_released(**with_total(SUMS))
    ours = consortium.hospital_round
    ours.receive()
    tables = [table_from(consortium.directory / f"rows-{seed}.csv") for seed in range(3)]
    schema = ours.terms.table_schema
    numbers = np.vstack([encode_rows(table, schema) for table in tables]) * 4
    found = ours.cohort()
    shown = [(each.column, each.number) for each in found.figures]
    assert shown == [*((name, "value") for name in COLUMNS), ("y", "share of no"), ("y", "share of yes")]
    np.testing.assert_allclose([each.mean for each in found.figures[:3]], numbers.mean(axis=0), atol=1e-9)
    assert found.figures[-1].mean == pytest.approx(0.5)
    told = ours.coefficients()
    assert told.scale == "log-odds of y = yes"
    assert all(each.error is None and each.value > 0 for each in told.coefficients)
    first = pa.table({name: [0.0, 0.01 * (name == "x0")] for name in COLUMNS})
    chances = ours.predict(first).probabilities.astype(np.float64)
    moved = np.diff(np.log(chances[:, 1]) - np.log(chances[:, 0]))[0]
    assert told.coefficients[0].value == pytest.approx(100 * moved, rel=1e-3)
    assert told.notes[0] == "no intervals: a total does not tell how sure the log-odds of classes are"


def test_of_three_classes_each_has_log_odds_against_the_first(consortium: ThreeOfThem) -> None:
    schema = {**COHORT["table_schema"], "label_column": {"name": "grade", "classes": ["low", "mid", "high"]}}
    schema["columns"] = [column for column in schema["columns"] if column["name"] != "grade"]
    anchor = {"kind": "haar", "rows": 9}
    ours = consortium.until_stays_are_received(table_schema=schema, latent_dim=9, anchor=anchor)[1]
    told = ours.coefficients()
    assert told.scale == "log-odds of each grade against low"
    assert {each.answer for each in told.coefficients} == {"mid", "high"}
    assert all(each.error is None for each in told.coefficients)
    row = {name: column[0] for name, column in stays(1).items()}
    first = pa.Table.from_pylist([{**row, "x0": 0.0}, {**row, "x0": 0.01}])
    chances = np.log(ours.predict(first).probabilities.astype(np.float64))
    for number, name in ((1, "mid"), (2, "high")):
        change = np.diff(chances[:, number] - chances[:, 0])[0]
        (value,) = (one.value for one in told.coefficients if (one.answer, one.column) == (name, "x0"))
        assert value == pytest.approx(100 * change, rel=1e-2, abs=1e-4)
    assert [each.number for each in ours.cohort().figures[-3:]] == [
        "share of low",
        "share of mid",
        "share of high",
    ]


def test_without_the_total_there_are_coefficients_and_nothing_else(consortium: ThreeOfThem) -> None:
    consortium.until_released(**NUMBERS)
    ours = consortium.hospital_round
    ours.receive()
    assert not (ours.directory.path / TOTAL_FILE).exists()
    found = ours.coefficients()
    assert found.fit is None
    assert found.notes[0].startswith("no intervals: the total")
    answers = ours.predict(pa.table({"x0": [0.0, 1.0], "x1": [0.0, 0.0]})).labels
    assert found.coefficients[0].value == pytest.approx(answers[1] - answers[0], abs=1e-5)
    with pytest.raises(InputError, match="no institution gets the total"):
        ours.cohort()


def test_rows_have_no_cohort(consortium: ThreeOfThem) -> None:
    consortium.until_released(parties=SUMS["parties"])
    consortium.hospital_round.receive()
    with pytest.raises(InputError, match="no institution gets the total") as caught:
        consortium.hospital_round.cohort()
    assert "--uplink sums --cohort" in caught.value.hint
    with pytest.raises(InputError, match="name a TABLE"):
        consortium.hospital_round.coefficients()


def test_before_the_downlink_is_here_there_are_no_figures(consortium: ThreeOfThem) -> None:
    consortium.until_contributed(**with_total(RANDOM))
    for ask in (consortium.hospital_round.cohort, consortium.hospital_round.coefficients):
        with pytest.raises(NotPreparedError, match="odc receive"):
            ask()


@pytest.mark.parametrize(
    ("terms", "length", "error"),
    [
        (SUMS, 21, MalformedMessageError),
        (with_total(SUMS), None, MalformedMessageError),
        (with_total(SUMS), 20, ShapeMismatchError),
    ],
    ids=["a total that nobody signed for", "no total", "a total of another length"],
)
def test_a_downlink_with_another_total_than_the_terms_say_is_refused(
    consortium: ThreeOfThem,
    monkeypatch: pytest.MonkeyPatch,
    terms: dict[str, Any],
    length: int | None,
    error: type[Exception],
) -> None:
    consortium.until_released(**terms)
    data = downlink_bytes(consortium)
    manifest = decode_stored(DownlinkManifest, data[4 : 4 + struct.unpack_from("<I", data)[0]])
    made = np.zeros(length or 0, "<u8")
    total = () if length is None else (specify(TOTAL, made, "u8", manifest.chunk_bytes),)
    changed = manifest.model_copy(update={"arrays": (manifest.model, *total)})
    signed = consortium.analyst.sign(changed)
    replay(monkeypatch, consortium, struct.pack("<I", len(signed)) + signed)
    with pytest.raises(error):
        consortium.hospital_round.receive()
    assert not (consortium.hospital_round.directory.path / TOTAL_FILE).exists()


def test_a_total_over_fewer_rows_than_the_terms_allow_is_refused(consortium: ThreeOfThem) -> None:
    ours = consortium.until_stays_are_received()[1]
    nothing = np.zeros(len(ours.directory.read_secret(TOTAL_FILE)), np.uint8)
    ours.directory.write_secret(TOTAL_FILE, nothing.tobytes())
    with pytest.raises(MalformedMessageError, match="fewer or more rows"):
        ours.cohort()


def test_who_checks_or_prepares_a_table_reads_what_a_level_of_its_own_lays_open(
    consortium: ThreeOfThem,
) -> None:
    consortium.until_anchored(**COHORT)
    ours = stays(1)
    ours["ward"] = ["nowhere" if place < 30 else ward for place, ward in enumerate(ours["ward"])]
    ours["sex"] = ["f" if place < 3 else "m" for place in range(60)]
    terms = consortium.hospital_round.terms
    warnings, _ = risk_in_words(terms, check_table(terms, pa.table(ours)))
    assert OURS_ALONE in warnings
    few, unknown = (one for one in warnings if "of our rows" in one)
    assert few.startswith("column 'sex': of our rows, 3 have the level f, fewer than the 5 of min_rows")
    assert unknown.startswith("column 'ward': of our rows, 30 have the level nowhere, and the table that the")
    prepared = consortium.hospital_round.prepare(csv(consortium.directory / "ours.csv", ours))
    assert f"warning: {OURS_ALONE}" in summary_in_words(prepared).splitlines()


def test_where_nobody_gets_the_total_no_level_is_warned_of(consortium: ThreeOfThem) -> None:
    sums = {**COHORT["sums"], "cohort": False}
    consortium.until_anchored(**{**COHORT, "sums": sums})
    terms = consortium.hospital_round.terms
    warnings, _ = risk_in_words(terms, check_table(terms, pa.table(stays(1))))
    assert OURS_ALONE not in warnings
    prepared = consortium.hospital_round.prepare(csv(consortium.directory / "ours.csv", stays(1)))
    assert OURS_ALONE not in summary_in_words(prepared)


def test_log_odds_from_sums_are_said_to_be_of_a_discriminant(consortium: ThreeOfThem) -> None:
    consortium.until_released(**SUMS)
    consortium.hospital_round.receive()
    notes = consortium.hospital_round.coefficients().notes
    assert OF_A_DISCRIMINANT in notes
    assert not [note for note in notes if "towards zero" in note], "they may be too large as well"
