"""A dictionary gives the same kind of draft as a table, without any row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError, UnreadableFileError
from protocol.table_schema import Schema
from tests.harness.schemas import SECRET
from user_client.errors import MissingColumnError
from user_client.sdk import DraftedEvent, draft_terms_from_dictionary
from user_client.tables import encode_rows
from user_client.tables.dictionary import Dictionary, draft_from_dictionary

TOML = """
missing = ["-99"]
columns = [
  {name = "age", type = "number", label = "Age in years", percentiles = [18, 40.5, 97]},
  {name = "dose", type = "number", low = 0, high = 8, missing_share = 0.25},
  {name = "came", type = "date", low = 2019-01-01, high = "2021-01-01"},
  {name = "left", type = "date", dates = "dd.mm.yyyy", since = "came", percentiles = [0, 3, 30]},
  {name = "stage", type = "ordinal", levels = ["I", "II", "III"], shares = [0.5, 0.5, 0]},
  {name = "ward", type = "category", levels = ["a", "b", "rest"], other = "rest"},
  {name = "ill", type = "category", levels = ["no", "yes"]},
  {name = "days", type = "number", low = 0, high = 400},
]
"""
CSV = """\
name,type,label,low,high,percentiles,levels,shares,dates,since,other,missing_share
age,number,"Age, in years",,,18|40.5|97,,,,,,
dose,number,,0,8,,,,,,,0.25
came,date,,2019-01-01,2021-01-01,,,,,,,
left,date,,,,0|3|30,,,dd.mm.yyyy,came,,
stage,ordinal,,,,,I|II | III,0.5|0.5|0,,,,
ward,category,,,,,a|b|rest,,,,rest,
ill,category,,,,,no|yes,,,,,
days,number,,0,400,,,,,,,
"""


def written(directory: Path, text: str, name: str = "dictionary.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def drafted(directory: Path, text: str = TOML, label: str = "ill", **options: Any) -> Any:
    dictionary = Dictionary.read(written(directory, text))
    return draft_from_dictionary(dictionary, label, **{"exclude": ["days"], **options})


def test_every_type_of_column_becomes_one_of_the_schema(tmp_path: Path) -> None:
    found = drafted(tmp_path).content
    schema = Schema.model_validate(found, strict=False)
    assert [column.kind for column in schema.columns] == [
        "ranks", "range", "range", "ranks", "ordinal", "levels",
    ]  # fmt: skip
    age, dose, came, left, stage, ward = found["columns"]
    assert age["quantiles"] == [18, 40.5, 97]
    assert (dose["centre"], dose["missing_share"]) == (4, 0.25)
    assert (came["dates"], came["low"], came["high"]) == ("iso", 17897, 18628)
    assert (left["dates"], left["since"], left["quantiles"]) == ("dd.mm.yyyy", "came", [0, 3, 30])
    assert (stage["levels"], stage["centre"]) == (["I", "II", "III"], -0.5)
    assert (ward["shares"], ward["other"]) == ([0.333, 0.333, 0.333], "rest")
    assert found["label_column"] == {"name": "ill", "classes": ["no", "yes"]}
    assert {"", "NA", "-99"} <= set(found["missing"])


def test_a_csv_file_says_the_same(tmp_path: Path) -> None:
    found = draft_from_dictionary(Dictionary.read(written(tmp_path, CSV, "d.csv")), "ill", ["days"])
    expected = drafted(tmp_path)
    assert found.content["columns"] == expected.content["columns"]
    assert found.remarks == expected.remarks


def test_a_column_has_texts_of_its_own_for_an_empty_field(tmp_path: Path) -> None:
    dose = '{name = "dose", type = "number", low = 0, high = 8, missing_share = 0.25'
    text = TOML.replace(dose, f"{dose}, missing = [9, '8.5']")
    columns = {column["name"]: column for column in drafted(tmp_path, text).content["columns"]}
    assert columns["dose"]["missing"] == ["9", "8.5"]
    assert "missing" not in columns["age"]
    as_csv = CSV.replace("missing_share\n", "missing_share,missing\n").replace(",0.25\n", ",0.25,9|8.5\n")
    path = written(tmp_path, as_csv, "coded.csv")
    from_csv = draft_from_dictionary(Dictionary.read(path), "ill", ["days"]).content["columns"]
    assert {column["name"]: column for column in from_csv} == columns


def test_rows_are_encoded_by_it(tmp_path: Path) -> None:
    schema = Schema.model_validate(drafted(tmp_path).content, strict=False)
    rows = {"age": ["97"], "dose": ["-99"], "came": ["1.1.2020"], "left": ["4.1.2020"], "stage": ["I"]}
    with pytest.raises(InputError, match="column 'came', data row 1: expected a date written as iso"):
        encode_rows(pa.table({**rows, "ward": ["?"]}), schema)
    first = {**rows, "came": ["2020-01-01"], "left": [""], "ward": ["c"]}
    found = encode_rows(pa.table(first | {"came": ["2019-01-01"]}), schema.model_copy(update={
        "columns": tuple(column for column in schema.columns if column.name != "left"),
    }))  # fmt: skip
    np.testing.assert_allclose(found[0, :5], [1, 0, 0.75, -1, -0.5])


def test_what_only_rows_can_tell_is_said(tmp_path: Path) -> None:
    remarks = drafted(tmp_path).remarks
    assert remarks[0].startswith("every column: a dictionary has no rows")
    assert [remark.split(":")[0] for remark in remarks[1:]] == ["came", "ward"]


def test_the_label_may_be_a_number_or_survival(tmp_path: Path) -> None:
    number = drafted(tmp_path, label="days", exclude=["ill"], task="number").content
    assert number["label_column"] == {"kind": "number", "name": "days", "low": 0, "high": 400}
    event = DraftedEvent("ill", "yes", (100, 30))
    label = drafted(tmp_path, label="days", exclude=[], task="survival", event=event).content["label_column"]
    assert (label["censored"], label["horizon"], label["times"]) == ("no", 400, [30, 100])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "age"}, "'age' is no category"),
        ({"label": "ill", "task": "number"}, "'ill' needs to be a number"),
        ({"label": "age", "task": "number"}, "'age' needs to be a number with low and high"),
        ({"label": "days", "exclude": [], "task": "survival", "event": DraftedEvent("ill", "yes")}, "--time"),
        (
            {"label": "days", "exclude": [], "task": "survival", "event": DraftedEvent("ward", "a", (9,))},
            "category of two levels",
        ),
        ({"exclude": ["age", "dose", "came", "left", "stage", "ward", "days"]}, "no column is left"),
    ],
)
def test_a_label_that_is_not_in_the_dictionary_as_needed_is_refused(
    options: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        drafted(tmp_path, **options)


@pytest.mark.parametrize("options", [{"label": "gone"}, {"exclude": ["gone"]}])
def test_a_column_that_is_not_in_the_dictionary_is_named(options: Any, tmp_path: Path) -> None:
    with pytest.raises(MissingColumnError, match="gone"):
        drafted(tmp_path, **options)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('{name = "x", type = "number"}', "low and high, or percentiles"),
        ('{name = "x", type = "number", low = 1}', "low and high, or percentiles"),
        ('{name = "x", type = "number", low = 1, high = 2, percentiles = [1, 2]}', "low and high, or"),
        ('{name = "x", type = "number", low = 1, percentiles = [1, 2]}', "low and high, or"),
        ('{name = "x", type = "number", low = 1, high = "SECRET"}', "column 'x', high"),
        ('{name = "x", type = "category", levels = ["a"]}', "column 'x', levels"),
        ('{name = "x", type = "category", levels = ["a", "a"]}', "levels must be distinct"),
        ('{name = "x", type = "ordinal", levels = ["a", "b"], shares = [1]}', "one share for each level"),
        ('{name = "x", type = "words"}', "is of no known kind"),
        ('{name = "x", low = 0, high = 1}', "column 'x': has no 'type', which says of what kind it is"),
        ('{name = "x", type = "number", low = 1, high = 2, unit = "m"}', "unit"),
        (
            '{name = "x", type = "number", low = 1, high = 2}, {name = "x", type = "date"}',
            "column 'x': give low and high",
        ),
        ('{name = "x", type = "category", levels = ["a", "b"]}, ' * 2, "distinct"),
        ("{name = ", "no TOML file"),
    ],
)
def test_a_file_that_is_no_dictionary_is_refused(entry: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=words) as caught:
        Dictionary.read(written(tmp_path, f"columns = [{entry}]".replace("SECRET", SECRET)))
    assert SECRET not in str(caught.value)
    assert caught.value.hint.startswith("correct the ")


def test_a_csv_file_may_come_from_a_spreadsheet_and_names_a_line_that_is_too_long(tmp_path: Path) -> None:
    with_mark = "\ufeff" + CSV.replace("\n", "\r\n").replace("Age, in years", "Age\nin years")
    assert len(Dictionary.read(written(tmp_path, with_mark, "d.csv")).columns) == 8
    with pytest.raises(UnreadableFileError, match="line 3 has more fields than the header"):
        Dictionary.read(written(tmp_path, "name,type\na,date\nb,date,iso\n", "d.csv"))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('name = "x", type = "date", low = "1.1.2020", high = "2021-01-01"', "dates written as iso"),
        ('name = "x", type = "date", since = "y", low = 2020-01-01, high = 3', "numbers of days"),
    ],
)
def test_figures_that_are_no_days_are_refused(entry: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        drafted(tmp_path, TOML.replace("columns = [", f"columns = [{{{entry}}},"))


def test_terms_lose_nothing_of_a_row_unless_a_person_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, TOML)
    options: Any = {"label": "ill", "parties": ["a", "b"], "title": "t", "exclude": ["days"]}
    found = draft_terms_from_dictionary(path, **options)
    assert (found.features, found.latent_dim) == (9, 8)
    assert (found.signal, found.information) == (None, None)
    assert any(remark.startswith("latent_dim 8: a dictionary has no rows") for remark in found.remarks)
    fewer = draft_terms_from_dictionary(path, **options, latent_dim=3)
    assert fewer.content["latent_dim"] == 3
    assert not any("latent_dim" in remark for remark in fewer.remarks)
    with pytest.raises(InputError, match="between 1 and the 9 features"):
        draft_terms_from_dictionary(path, **options, latent_dim=10)
