"""How a person's own table is divided into hospitals and a common hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from odc_demo.tables import HOLD_OUT, own_table, source_of
from protocol.errors import InputError


def written(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    path.write_text("\n".join(["x,site,label", *(",".join(row) for row in rows)]) + "\n")
    return path


def test_more_classes_of_sites_than_held_out_rows_are_divided_by_sites(tmp_path: Path) -> None:
    rows = [(str(index), "ab"[index % 2], f"c{index % 20}") for index in range(80)]
    found = own_table(source_of(written(tmp_path / "t.csv", rows)), "label", "site", ())
    assert [len(part) for part in found.by_hospital.values()] == [28, 28]
    assert len(found.hold_out) == HOLD_OUT * 80


def test_more_sites_than_held_out_rows_are_divided_at_random(tmp_path: Path) -> None:
    rows = [(str(index), f"s{index // 2}", "yn"[index % 2]) for index in range(30)]
    found = own_table(source_of(written(tmp_path / "t.csv", rows)), "label", "site", ())
    assert (len(found.by_hospital), len(found.hold_out)) == (15, HOLD_OUT * 30)


def test_one_site_is_told(tmp_path: Path) -> None:
    rows = [("1", "a", "y"), ("2", "a", "n")]
    with pytest.raises(InputError, match="column 'site' names fewer than two sites"):
        own_table(source_of(written(tmp_path / "t.csv", rows)), "label", "site", ())


def test_how_a_file_is_written_is_guessed(tmp_path: Path) -> None:
    lines = ["größe;site;label", *(f"1,{n};{'ab'[n % 2]};{'yn'[n // 2 % 2]}" for n in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    found = own_table(source_of(tmp_path / "t.csv"), "label", "site", ())
    assert found.hold_out.column_names == ["größe", "site", "label"]
    assert len(found.hold_out) == HOLD_OUT * 40


def test_texts_of_empty_fields_go_into_the_draft(tmp_path: Path) -> None:
    rows = [("n.d." if n % 9 == 0 else str(n), "ab"[n % 2], "yn"[n // 2 % 2]) for n in range(60)]
    source = source_of(written(tmp_path / "t.csv", rows))
    with pytest.raises(InputError, match="column 'x' holds numbers in"):
        own_table(source, "label", "site", ())
    found = own_table(source, "label", "site", (), missing=("n.d.", "-999"))
    assert found.corrections == ("--missing", "n.d.", "--missing", "-999")
