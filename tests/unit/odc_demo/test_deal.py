"""Who gets which rows when the demo's hospitals are containers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odc_demo.deal import by_name, deal
from odc_demo.tables import DemoTables
from protocol.errors import InputError
from user_client.tables import read_table

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")


def tables(sites: int) -> DemoTables:
    parts = {
        f"hospital-site-{index}": pa.table({"x": [index] * 3, "ill": ["no", "yes", "no"]})
        for index in range(sites)
    }
    hold_out = pa.concat_tables(parts.values())
    return DemoTables("t.csv", "ill", parts, hold_out, ("site",), ("--class", "dead"))


def test_the_largest_site_is_the_first_hospital() -> None:
    assert by_name(tables(3), HOSPITALS)["hospital-a"].column("x").to_pylist() == [0, 0, 0]


def test_a_hospital_without_a_site_has_the_columns_and_no_rows() -> None:
    left_over = by_name(tables(2), HOSPITALS)["hospital-c"]
    assert (left_over.column_names, len(left_over)) == (["x", "ill"], 0)


def test_more_sites_than_hospitals_are_refused() -> None:
    with pytest.raises(InputError, match="4 sites and there are 3 hospitals"):
        by_name(tables(4), HOSPITALS)


def test_the_lead_gets_the_words_to_draft_the_terms_with(tmp_path: Path) -> None:
    deal(tables(3), HOSPITALS, tmp_path)
    words = (tmp_path / "hospital-a" / "draft-options").read_text().splitlines()
    assert words == ["--label", "ill", "--title", "Demo: t.csv", "--class", "dead", "--exclude", "site"]
    assert not (tmp_path / "hospital-b" / "draft-options").exists()


def test_dealing_again_disturbs_nobody(tmp_path: Path) -> None:
    deal(tables(2), HOSPITALS, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    deal(tables(2), HOSPITALS, tmp_path)
    assert {path: path.read_bytes() for path in before} == before
    assert len(read_table(tmp_path / "hospital-c" / "rows.csv")) == 0
