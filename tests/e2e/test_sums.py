"""A round of masked sums, by the commands that people type, on a real table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import load_breast_cancer

from odc_demo.actors import CommandError, Institution
from tests.harness.consortium import WAIT_S, Consortium, consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")


def diagnoses() -> pa.Table:
    """569 tumours with 30 measurements each (Wolberg et al., 1995)."""
    found = load_breast_cancer()
    columns = {
        name.replace(" ", "_"): column for name, column in zip(found.feature_names, found.data.T, strict=True)
    }
    return pa.table({**columns, "diagnosis": np.array(["malignant", "benign"])[found.target]})


@dataclass
class Played:
    """What the commands of a round gave."""

    made: Consortium
    drafted: Any
    shown: str
    prepared: Any
    evaluated: list[Any]
    report: Any
    page: str
    right: dict[str, float]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    table = diagnoses()
    *parts, held_out = np.array_split(np.random.default_rng(0).permutation(len(table)), len(NAMES) + 1)
    with consortium(tmp_path_factory.mktemp("sums"), *NAMES) as made:
        for name, part in zip(NAMES, parts, strict=True):
            pyarrow.csv.write_csv(table.take(part), made.institution(name).home / "rows.csv")
            pyarrow.csv.write_csv(table.take(held_out), made.institution(name).home / "new.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        drafted = lead.odc("terms", "draft", "rows.csv", "--label", "diagnosis", *parties, "--uplink", "sums")
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        (row,) = json.loads(made.analyst.run("collaboration", "list", "--json"))
        shown = lead.odc("terms", "show")["plain_words"]
        made.play_by_command(row["collaboration_id"], "rows.csv")
        prepared = json.loads(
            (lead.home / "collaborations" / row["collaboration_id"] / "prepared.json").read_text()
        )
        truth = np.array(table.take(held_out).column("diagnosis").to_pylist())
        right = {}
        for name in NAMES:
            institution = made.institution(name)
            institution.odc("predict", "new.csv", "--out", "new-predictions.csv")
            predicted = pyarrow.csv.read_csv(institution.home / "new-predictions.csv").column("prediction")
            right[name] = float(np.mean(np.array(predicted.to_pylist()) == truth))
        evaluated = made.run_all(NAMES, "evaluate", "rows.csv", "--send")
        report = lead.odc("report")["report"]
        page = made.analyst.run("collaboration", "report", row["collaboration_id"])
        yield Played(made, drafted, shown, prepared, evaluated, report, page, right)


def test_all_institutions_get_the_same_good_model(played: Played) -> None:
    assert len(set(played.right.values())) == 1, "what it says depends on nobody's basis"
    assert min(played.right.values()) > 0.9


def test_the_terms_say_that_no_row_leaves(played: Played) -> None:
    assert "no row and no label, but sums over all its rows" in played.shown
    assert "The analyst learns the total" in played.shown


def test_what_left_has_a_size_that_does_not_depend_on_the_rows(played: Played) -> None:
    order = 1 + played.drafted["features"] + 2
    assert played.prepared["payload_bytes"] == 4 * order * (order + 1)
    assert played.prepared["uplink"] == "sums"


def test_each_compares_it_with_a_model_of_its_own_rows(played: Played) -> None:
    for found in played.evaluated:
        assert found["kept_back"]
        assert found["local_fit"]["kind"] == "averaged"
    # Which rows are kept back depends on secrets, and each keeps back some twenty: all of them are looked at
    # together. Of these tumours 63 % are benign.
    assert np.mean([found["together"] for found in played.evaluated]) > 0.8


def test_the_report_tells_neither_rows_of_an_institution_nor_scores_of_rows_nobody_sent(
    played: Played,
) -> None:
    assert {party["rows"] for party in played.report["parties"]} == {None}
    assert played.report["results"]["judgement"]["headline"] is None
    assert "masked sums" in played.page
    assert "unknown rows" in played.page
    for party in played.report["parties"]:
        assert party["uplink_formula_bytes"] == played.prepared["payload_bytes"]


def test_options_that_are_about_rows_are_refused_in_words(played: Played) -> None:
    lead = played.made.institution(NAMES[0])
    parties = [word for name in NAMES for word in ("--party", name)]
    drafting = ("terms", "draft", "rows.csv", "--label", "diagnosis", *parties, "--out", "other.toml")
    for words, reason in [
        (("--uplink", "sums", "--latent-dim", "5"), "all features are summed"),
        (("--uplink", "sums", "--nri"), "downlink does not go with sums"),
        (("--random-features", "64"), "goes with --uplink sums"),
        (("--uplink", "sums", "--model", "mlp"), "model does not go with sums"),
        (("--uplink", "sums", "--alignment", "odc"), "alignment does not go with sums"),
        (("--uplink", "sums", "--class-weight", "balanced"), "model does not go with sums"),
        (("--uplink", "sums", "--dither", "0"), "dither does not go with sums"),
    ]:
        with pytest.raises(CommandError, match=reason):
            lead.odc(*drafting, *words)


def counted_downlink(institution: Institution, *chosen: str) -> dict[str, Any]:
    """Return an institution's own downlink as the report explains it, once the server has counted it."""
    deadline = time.monotonic() + WAIT_S
    while True:
        parties = institution.odc("report", *chosen)["report"]["wire"]["parties"]
        (own,) = (party for party in parties if party["party"] == institution.name)
        if own["downlink"]["measured_bytes"] or time.monotonic() > deadline:
            found: dict[str, Any] = own["downlink"]
            return found
        time.sleep(0.2)


def test_each_institution_reads_the_cohort_from_the_total(played: Played) -> None:
    made, lead = played.made, played.made.institution(NAMES[0])
    parties = [word for name in NAMES for word in ("--party", name)]
    label = ("--label", "worst_area", "--task", "number", "--label-range", "0:5000", "--exclude", "diagnosis")
    lead.odc(
        "terms", "draft", "rows.csv", *label, *parties, "--uplink", "sums", "--cohort", "--out", "cohort.toml"
    )
    created = made.analyst.run("collaboration", "create", str(lead.home / "cohort.toml"), "--json")
    (_, collaboration_id) = chosen = ("--collaboration", json.loads(created)["collaboration_id"])
    made.run_all(NAMES, "terms", "accept", *chosen)
    lead.odc("anchor", "create", *chosen)
    made.run_all(NAMES, "contribute", "--yes", "rows.csv", *chosen)
    made.wait_for(collaboration_id, "released")
    made.run_all(NAMES, "receive", *chosen)
    first, *others = made.run_all(NAMES, "cohort", *chosen)
    assert others == [first, first]
    report = lead.odc("report", *chosen)["report"]
    assert first["rows"] == report["results"]["rows"]
    areas = diagnoses().column("worst_area").to_numpy()
    (area,) = (figure for figure in first["figures"] if figure["column"] == "worst_area")
    assert abs(area["mean"] - areas.mean()) < 3 * areas.std() / first["rows"] ** 0.5
    first, *others = made.run_all(NAMES, "coefficients", *chosen)
    assert others == [first, first]
    assert len(first["coefficients"]) == 29
    assert first["fit"]["r_squared"] > 0.8, "of the ranks of 29 other measurements"
    assert all(each["low"] < each["value"] < each["high"] for each in first["coefficients"])
    assert counted_downlink(lead, *chosen)["formula_bytes"] == 4 * 31 * 32 + 4 * 30, (
        "the total, and 30 weights"
    )
