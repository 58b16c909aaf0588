"""The notebooks of examples/ run as they are, and are stored without what they printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.harness.tree import REPOSITORY

FOLDER = REPOSITORY / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PAGE = (REPOSITORY / "docs" / "research.md").read_text()
LIMIT_S = 600
"""Of one cell; it only ends a notebook that would hang."""


def ids(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
# how Jupyter talks to its own kernel, on the loopback of this machine
@pytest.mark.filterwarnings("default::ResourceWarning", "default::DeprecationWarning")
def test_every_cell_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # it has no types
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", resources=resources).execute()


def test_the_ten_lines_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    (lines, *others) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in lines.splitlines() if line.strip()]) <= 10
    known: dict[str, Any] = {}
    exec(lines, known)  # noqa: S102  # our own page
    assert float(capsys.readouterr().out.splitlines()[0]) > 0.9
    exec(others[0], known)  # noqa: S102


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_nothing_that_was_printed_is_stored(path: Path) -> None:
    notebook: Any = json.loads(path.read_text())
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_a_notebook_checks_what_it_says(path: Path) -> None:
    notebook: Any = json.loads(path.read_text())
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert "assert " in code
    assert f"examples/{path.name}" in PAGE


def test_a_cell_of_table_v_takes_ten_lines() -> None:
    notebook: Any = json.loads((FOLDER / "table_v.ipynb").read_text())
    (cell,) = [cell for cell in notebook["cells"] if "simulate(" in "".join(cell["source"])]
    assert len([line for line in "".join(cell["source"]).splitlines() if line.strip()]) <= 10
