"""The desk's attacks on tables nobody had in mind: they may find nothing, and never stop `odc prepare`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer

from protocol.arrays import quantise
from protocol.table_schema import Schema
from user_client.custody.scratch import Scratch
from user_client.rows import Rows
from user_client.sdk import PrivacyOptions, desk, draft_terms
from user_client.sdk.desk import Exposed, attack, decoded, level_of
from user_client.sdk.privacy import treat
from user_client.tables import encode_labels, encode_rows


def odd_columns(kind: str, count: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    match kind:
        case "one":
            return {"x": rng.integers(0, 5, count).tolist()}
        case "constant but for one":
            return {"x": [3] * count, "k": ["a"] * count, "z": rng.integers(0, 5, count).tolist()}
        case "of many scales":
            return {f"x{k}": (rng.standard_normal(count) * 10.0 ** (3 * k - 6)).tolist() for k in range(5)}
        case "of two rows":
            half, rest = count // 2, count - count // 2
            return {"x": [1] * half + [2] * rest, "z": [7] * half + [9] * rest}
        case "mostly empty":
            empty: list[Any] = [None if value else 1.5 for value in rng.integers(0, 2, count)]
            return {"x": empty, "z": rng.integers(0, 9, count).tolist()}
        case "dates":
            days = rng.integers(0, 900, (2, count)).astype("datetime64[D]")
            return {"x": [str(day) for day in days[0]], "z": [f"{day} 12:30" for day in days[1]]}
        case _:
            return {f"c{k}": rng.integers(0, 2, count).tolist() for k in range(12)}


@pytest.mark.parametrize("count", [4, 5, 12, 60])
@pytest.mark.parametrize(
    "kind",
    ["one", "constant but for one", "of many scales", "of two rows", "mostly empty", "dates", "yes and no"],
)
@pytest.mark.parametrize(
    "options",
    [PrivacyOptions(), PrivacyOptions(dither=0.5), PrivacyOptions(epsilon=1.0, delta=1e-5, clip=1.0)],
    ids=["undefended", "dither", "noise"],
)
def test_no_table_stops_the_attacks(
    monkeypatch: pytest.MonkeyPatch, kind: str, count: int, options: PrivacyOptions
) -> None:
    # a process of its own for each would take most of the time; `odc prepare` starts it in the tests below
    monkeypatch.setattr(desk, "apart", lambda function, *rows, **options: function(*rows, **options))
    labels = [["no", "yes"][row % 2] for row in range(count)]
    table = pa.table({**odd_columns(kind, count), "y": labels})
    drafted = draft_terms(table, label="y", parties=["a"], title="t", encoding="ranges")
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    rows, classes = encode_rows(table, schema), encode_labels(table, schema)
    treated = treat(Rows.of(rows), classes, drafted.latent_dim, options, Scratch(Path()))
    rep = decoded(*quantise(np.asarray(treated.rep)))
    labels_sent = treated.labels.astype(int)
    exposed = Exposed(table, schema, np.asarray(treated.original), rep, treated.secret_basis, labels_sent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = attack(exposed, "thorough")
    assert [tried.finds for tried in found] == ["rows", "relations", "columns", "links", "links"]
    assert all(0 <= tried.exact_rows <= 1 for tried in found if tried.exact_rows is not None)


def cells() -> pa.Table:
    """Twelve measurements of 569 tumours."""
    bundled = load_breast_cancer()
    columns = {f"x{k}": bundled.data[:, k].tolist() for k in range(12)}
    return pa.table({**columns, "y": [["no", "yes"][k] for k in bundled.target]})


def test_columns_of_two_values_are_not_looked_for_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started that could find nothing")

    monkeypatch.setattr(desk, "apart", refuse)
    table = cells()
    drafted = draft_terms(table, label="y", parties=["a"], title="t", latent_dim=8)
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    rows, labels = encode_rows(table, schema), encode_labels(table, schema).astype(int)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((rows.shape[1], 8)))[0]
    found = {tried.name: tried for tried in attack(Exposed(table, schema, rows, rows @ basis, basis, labels))}
    blind = found["independent components"]
    assert (blind.ran, blind.columns, blind.named, blind.is_complete) == (True, (), (), True)


@pytest.mark.parametrize(("dither", "least", "most"), [(0.0, 0.6, 1.0), (3.0, 0.0, 0.1)])
def test_thorough_attacks_recognise_rows_unless_noise_hides_them(
    dither: float, least: float, most: float
) -> None:
    table = cells()
    drafted = draft_terms(table, label="y", parties=["a"], title="t", latent_dim=8)
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    rows, labels = encode_rows(table, schema), encode_labels(table, schema)
    treated = treat(Rows.of(rows), labels, 8, PrivacyOptions(dither=dither or None), Scratch(Path()))
    exposed = Exposed(
        table,
        schema,
        rows,
        np.asarray(treated.rep),
        treated.secret_basis,
        labels.astype(int),
        dither=dither,
    )
    found = {tried.name: tried for tried in attack(exposed, "thorough")}
    for name in ("population matching", "known rows"):
        share = found[name].linked_rows
        assert share is not None
        assert least <= share <= most
    assert level_of(list(found.values())) == "thorough"
    assert level_of(attack(exposed)) == "quick"
    assert (attack(exposed, "none"), level_of(())) == ((), "none")


def test_a_row_is_recognised_by_its_exact_number_whatever_the_noise() -> None:
    table = cells().drop_columns(["y"]).add_column(0, "y", [np.random.default_rng(0).standard_normal(569)])
    drafted = draft_terms(table, label="y", parties=["a"], title="t", task="number", latent_dim=8)
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    rows, labels = encode_rows(table, schema), encode_labels(table, schema)
    treated = treat(Rows.of(rows), labels, 8, PrivacyOptions(dither=3.0), Scratch(Path()), "number")
    exposed = Exposed(table, schema, rows, np.asarray(treated.rep), treated.secret_basis, labels, dither=3.0)
    found = {tried.name: tried for tried in attack(exposed, "thorough")}
    assert found["known rows"].linked_rows == 1
    assert exposed.group_count == len(np.unique(exposed.groups)) == 4


def test_every_set_of_labels_is_a_group_as_it_is_for_the_analyst() -> None:
    other = np.random.default_rng(0).choice(["no", "yes"], len(cells()))
    table = cells().append_column("other", [other])
    drafted = draft_terms(
        table, label=["y", "other"], parties=["a"], title="t", task="multilabel", latent_dim=8
    )
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    rows, labels = encode_rows(table, schema), encode_labels(table, schema)
    treated = treat(Rows.of(rows), labels, 8, PrivacyOptions(), Scratch(Path()), "multilabel")
    exposed = Exposed(table, schema, rows, np.asarray(treated.rep), treated.secret_basis, labels)
    assert exposed.group_count == len(np.unique(exposed.groups)) == 4
    assert {tried.name: tried for tried in attack(exposed, "thorough")}["known rows"].ran
