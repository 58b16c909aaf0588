"""The commands that show what the total of sums tells."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.in_process import csv
from tests.harness.odc import Odc
from tests.harness.sums import SUMS, ThreeOfThem, stays


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreeOfThem]:
    found = ThreeOfThem(tmp_path, monkeypatch)
    yield found
    found.close()


def test_the_cohort_is_shown_as_a_table_and_whole_as_json(consortium: ThreeOfThem, odc: Odc) -> None:
    consortium.until_stays_are_received()
    lines = odc("cohort").out.splitlines()
    assert lines[0] == "180 rows of all institutions"
    assert lines[1].split() == ["mean", "deviation"]
    assert lines[2].startswith("  x0, value ")
    assert "the closest correlations of different columns" in lines
    assert any(line.startswith("  1: ") and "of the variance; " in line for line in lines)
    found = odc("cohort", "--json").json
    count = len(found["figures"])
    assert (count, found["features"]) == (11, 10)
    assert [len(row) for row in found["correlations"]] == [count] * count
    assert found["figures"][0].keys() == {"column", "number", "mean", "deviation"}
    assert len(found["components"][0]["loadings"]) == 10


def test_coefficients_of_all_rows_need_no_table(consortium: ThreeOfThem, odc: Odc) -> None:
    consortium.until_stays_are_received()
    lines = odc("coefficients").out.splitlines()
    assert lines[0] == "how far each change moves the days:"
    assert " to " in lines[1]
    assert any(line.startswith("R squared 0.") and "180 rows of all institutions" in line for line in lines)
    fit = odc("coefficients", "--json").json["fit"]
    assert (fit["rows"], fit["freedom"]) == (180, 172)


def test_terms_that_give_the_total_to_nobody_are_named(odc: Odc) -> None:
    odc.consortium.until_released(**SUMS)
    odc("receive")
    result = odc("cohort")
    assert (result.code, "--uplink sums --cohort" in result.err) == (3, True)


def test_a_draft_says_that_nobody_gets_the_total_unless_it_is_asked_for(odc: Odc) -> None:
    table = csv(odc.consortium.directory / "stays.csv", stays(0))
    parties = [word for name in SUMS["parties"] for word in ("--party", name)]
    words = ("terms", "draft", table, "--label", "days", "--task", "number", *parties, "--force", "--json")
    remarks = odc(*words, "--uplink", "sums").json["remarks"]
    assert any("no institution gets the total" in remark for remark in remarks)
    assert "cohort" not in Path("terms.toml").read_text()
    remarks = odc(*words, "--uplink", "sums", "--cohort").json["remarks"]
    assert not any("no institution gets the total" in remark for remark in remarks)
    assert "cohort = true" in Path("terms.toml").read_text()
    result = odc(*words, "--cohort")
    assert (result.code, "--cohort goes with --uplink sums" in result.err) == (3, True)


def test_a_draft_of_rows_says_that_sums_would_do(odc: Odc) -> None:
    table = csv(odc.consortium.directory / "stays.csv", stays(0))

    def remarks(*words: str) -> str:
        found = odc("terms", "draft", table, "--label", "sex", *words, "--force", "--json").json["remarks"]
        return " ".join(found)

    three = [word for name in SUMS["parties"] for word in ("--party", name)]
    assert "--uplink sums --model quadratic-discriminant drafts terms" in remarks(*three)
    assert "--uplink sums" not in remarks(*three[:4]), "two institutions would learn each other's"
    assert "--uplink sums" not in remarks(*three, "--late-consumer", SUMS["parties"][1])


def test_a_draft_of_a_discriminant_sums_by_class(odc: Odc) -> None:
    table = csv(odc.consortium.directory / "stays.csv", stays(0))
    parties = [word for name in SUMS["parties"] for word in ("--party", name)]
    words = ("terms", "draft", table, "--label", "sex", *parties, "--force", "--json", "--uplink", "sums")
    assert any("--model quadratic-discriminant" in remark for remark in odc(*words).json["remarks"])
    words += ("--model", "quadratic-discriminant")
    assert not any("quadratic-discriminant" in remark for remark in odc(*words).json["remarks"])
    drafted = tomllib.loads(Path("terms.toml").read_text())
    assert drafted["model"] == {"kind": "quadratic-discriminant"}
    of_rows = [word for word in words if word not in ("--uplink", "sums")]
    result = odc(*of_rows)
    assert (result.code, "goes with sums (--uplink sums)" in result.err) == (3, True)
    for option in (("--cohort",), ("--model-epsilon", "3")):
        result = odc(*words, *option)
        assert (result.code, "neither cohort nor noise" in result.err) == (3, True)


def test_a_draft_asks_for_noise_where_an_epsilon_is_given(odc: Odc) -> None:
    table = csv(odc.consortium.directory / "stays.csv", stays(0))
    parties = [word for name in SUMS["parties"] for word in ("--party", name)]
    words = ("terms", "draft", table, "--label", "days", "--task", "number", *parties, "--force", "--json")
    words += ("--uplink", "sums", "--model-epsilon")
    assert not any("institution gets the total" in remark for remark in odc(*words, "3").json["remarks"])
    noise = tomllib.loads(Path("terms.toml").read_text())["sums"]["noise"]
    assert (noise["epsilon"], noise["delta"], noise["colluding"]) == (3.0, 1e-5, 1)
    assert 0 < noise["clip"] < 10
    result = odc(*words, "3", "--cohort")
    assert (result.code, "cohort does not go with noise" in result.err) == (3, True)
    result = odc(*words, "0.01")
    assert (result.code, "model_epsilon" in result.err) == (3, True)
