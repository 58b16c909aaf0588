"""How a person's own table is divided into hospitals and a common hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from odc_demo.tables import HOLD_OUT, own_table
from protocol.errors import InputError


def written(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    path.write_text("\n".join(["x,site,label", *(",".join(row) for row in rows)]) + "\n")
    return path


def test_more_classes_of_sites_than_held_out_rows_are_divided_by_sites(tmp_path: Path) -> None:
    rows = [(str(index), "ab"[index % 2], f"c{index % 20}") for index in range(80)]
    found = own_table(written(tmp_path / "t.csv", rows), "label", "site", ())
    assert [len(part) for part in found.by_hospital.values()] == [28, 28]
    assert len(found.hold_out) == HOLD_OUT * 80


def test_more_sites_than_held_out_rows_are_divided_at_random(tmp_path: Path) -> None:
    rows = [(str(index), f"s{index // 2}", "yn"[index % 2]) for index in range(30)]
    found = own_table(written(tmp_path / "t.csv", rows), "label", "site", ())
    assert (len(found.by_hospital), len(found.hold_out)) == (15, HOLD_OUT * 30)


def test_one_site_is_told(tmp_path: Path) -> None:
    rows = [("1", "a", "y"), ("2", "a", "n")]
    with pytest.raises(InputError, match="column 'site' names fewer than two sites"):
        own_table(written(tmp_path / "t.csv", rows), "label", "site", ())
