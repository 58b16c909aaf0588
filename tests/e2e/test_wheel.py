"""What a person gets who installs the wheel: the commands run outside the checkout, and so does the demo."""

from __future__ import annotations

import email
import json
import tomllib
import zipfile
from pathlib import Path

from protocol import __version__
from tests.harness.tree import REPOSITORY
from tests.harness.wheel import run

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PACKAGES = (
    "protocol",
    "metering",
    "runtime",
    "pages",
    "analyst_server",
    "user_client",
    "orthonormal_data_collaboration",
    "odc_demo",
    "fake_analyst",
)
DIST_INFO = "orthonormal_data_collaboration-{version}.dist-info"


def files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_product_and_the_demo_and_nothing_else(wheel: Path) -> None:
    expected = {
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    dist_info = DIST_INFO.format(version=PROJECT["project"]["version"])
    found = files(wheel)
    assert {name for name in found if not name.startswith(f"{dist_info}/")} == expected
    assert f"{dist_info}/licenses/LICENSE" in found


def test_the_wheel_carries_types_and_the_steps_of_the_database(wheel: Path) -> None:
    found = files(wheel)
    assert {f"{package}/py.typed" for package in PACKAGES} <= found
    steps = (REPOSITORY / "analyst_server" / "store" / "migrations" / "versions").glob("*.py")
    names = {str(path.relative_to(REPOSITORY)) for path in steps}
    assert names
    assert names <= found


def test_the_metadata_name_the_distribution_its_extras_and_its_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        dist_info = DIST_INFO.format(version=PROJECT["project"]["version"])
        metadata = email.message_from_bytes(archive.read(f"{dist_info}/METADATA"))
    assert metadata["Name"] == "orthonormal-data-collaboration"
    assert metadata["Version"] == PROJECT["project"]["version"] == __version__
    assert {"client", "server", "demo"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_checkout_is_out_of_reach(programs: Path, tmp_path: Path) -> None:
    program = f"""
import {", ".join(PACKAGES)}
for package in ({", ".join(PACKAGES)}):
    print(package.__file__)
"""
    found = run(programs / "python", "-c", program, cwd=tmp_path).splitlines()
    assert len(found) == len(PACKAGES)
    assert all(Path(path).is_relative_to(programs.parent) for path in found), found


def test_the_commands_answer(programs: Path, tmp_path: Path) -> None:
    assert "consortium" in run(programs / "odc", "--help", cwd=tmp_path)
    assert run(programs / "odc-analyst", "version", cwd=tmp_path).startswith(f"odc-analyst {__version__}")


def test_the_fake_analyst_tries_the_installed_client(programs: Path, tmp_path: Path) -> None:
    shown = run(programs / "odc-fake-analyst", "--only", "forked-ledger", cwd=tmp_path)
    assert "passed   forked-ledger" in shown
    assert list(tmp_path.iterdir()) == []


def test_the_demo_runs_in_an_empty_directory(programs: Path, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    rows = [f"{index % 2},{index % 7},{index % 5},{'yes' if index % 7 > 3 else 'no'}" for index in range(140)]
    table.write_text("\n".join(["site,x,y,label", *rows]) + "\n")
    directory = tmp_path / "empty"
    directory.mkdir()
    words = ("--data", table, "--label", "label", "--site", "site")
    shown = run(programs / "odc-demo", *words, cwd=directory)
    report = json.loads((directory / "build" / "demo" / "report.json").read_text())
    assert report["state"] == "released"
    assert [party["name"] for party in report["parties"]] == ["hospital-0", "hospital-1"]
    assert "hospital-1" in shown
    assert [path.name for path in directory.iterdir()] == ["build"]


def test_the_demo_knows_its_own_data(programs: Path, tmp_path: Path) -> None:
    program = "from odc_demo.tables import breast_cancer\nprint(len(breast_cancer().by_hospital))"
    assert run(programs / "python", "-c", program, cwd=tmp_path).strip() == "5"
