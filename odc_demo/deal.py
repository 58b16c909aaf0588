"""Split a table among hospitals that run in containers: each gets its rows in its own desk directory.

The output is the same every time, so splitting again changes nothing for a running hospital.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from odc_demo.tables import DemoTables, breast_cancer, own_table, source_of, write_csv
from protocol.errors import InputError, OdcError
from runtime.terminal import exit_code, for_terminal

MOUNTED_TABLE = Path("/own/table")
"""Where the compose file mounts the user's table, whatever its name is outside the container."""


def by_name(tables: DemoTables, hospitals: Sequence[str]) -> dict[str, pa.Table]:
    """Return the parts by hospital, in order; hospitals without a part get the columns and no rows.

    Raises `InputError` if there are more parts than hospitals.
    """
    parts = list(tables.by_hospital.values())
    if len(parts) > len(hospitals):
        raise InputError(
            f"the table has {len(parts)} sites and there are {len(hospitals)} hospitals here;"
            " `make demo` starts as many hospitals as there are sites"
        )
    parts += [parts[0].slice(0, 0)] * (len(hospitals) - len(parts))
    return dict(zip(hospitals, parts, strict=True))


def deal(tables: DemoTables, hospitals: Sequence[str], desks: Path, uplink: str = "rows") -> None:
    """Write each hospital's rows and the common hold-out; for the first, the options of the draft too."""
    for name, rows in by_name(tables, hospitals).items():
        write_csv(rows, desks / name / "rows.csv")
        write_csv(tables.hold_out, desks / name / "hold-out.csv")
    lead = desks / hospitals[0]
    words = ["--label", tables.label, "--title", f"Demo: {tables.name}", *tables.corrections]
    words += [word for column in tables.exclude for word in ("--exclude", column)]
    words += ["--uplink", uplink] if uplink != "rows" else []
    (lead / "draft-options").write_text("".join(f"{word}\n" for word in words))


def _under_its_name(mounted: Path, name: str, directory: Path) -> Path:
    """Return a link with the file's own name, because the suffix tells the format of the file."""
    link = directory / Path(name).name
    link.unlink(missing_ok=True)
    link.symlink_to(mounted)
    return link


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m odc_demo.deal", description=__doc__)
    parser.add_argument("hospitals", nargs="+", help="names, the lead first")
    parser.add_argument("--desks", type=Path, required=True, help="one directory for each hospital")
    parser.add_argument("--data", default="", help="name of the user's own table; empty for the bundled one")
    parser.add_argument("--label", default="", help="the column to predict")
    parser.add_argument("--site", default="", help="the column that names the site")
    parser.add_argument("--exclude", default="", help="columns to leave out, separated by commas")
    parser.add_argument("--missing", default="", help="texts of empty fields, separated by blanks")
    parser.add_argument("--uplink", choices=("rows", "sums"), default="rows", help="what they send")
    given = parser.parse_args()
    try:
        if given.data:
            if not (given.label and given.site):
                raise InputError("a table of your own needs ODC_DEMO_LABEL and ODC_DEMO_SITE")
            path = _under_its_name(MOUNTED_TABLE, given.data, Path("/tmp"))  # noqa: S108  # the container's own
            excluded = tuple(name for name in given.exclude.split(",") if name)
            tables = own_table(
                source_of(path), given.label, given.site, excluded, missing=given.missing.split()
            )
        else:
            tables = breast_cancer()
        deal(tables, given.hospitals, given.desks, given.uplink)
    except OdcError as error:
        sys.stderr.write(for_terminal("demo", error) + "\n")
        return exit_code(error)
    for name, rows in by_name(tables, given.hospitals).items():
        print(f"{name}: {len(rows)} rows of {tables.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
