"""Every file has a subject and stays short; files of tests share through tests/harness alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.tree import PACKAGES, REPOSITORY

TESTS = REPOSITORY / "tests"
MAX_LINES = 450
"""A longer file has a second subject, which deserves a file and a name of its own."""
MAX_BODY_LINES = 60
"""Of a function, without its signature and docstring. A longer one does more than its name says."""
GENERATED = "migrations"
SHARED = ("tests.harness", "tests.vectors", "tests.faults.campaign", "tests.fuzz")
"""What a file of tests may import from the tests."""


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def imported(source: str) -> Iterator[str]:
    """Yield the full name of everything that a module imports, also inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_imports(source: str) -> list[str]:
    """Return what a file of tests imports and must not: another test, a benchmark, an example."""
    return [
        name
        for name in imported(source)
        if any(is_within(name, package) for package in ("benchmarks", "examples"))
        or (is_within(name, "tests") and not any(is_within(name, package) for package in SHARED))
    ]


def test_every_package_is_measured() -> None:
    assert {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} == set(PACKAGES)


@pytest.mark.parametrize("folder", [*PACKAGES, "deploy"])
def test_no_file_is_too_long(folder: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (REPOSITORY / folder).rglob("*.py")}
    assert {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def bodies(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function, and the lines of its body without the docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *others = node.body
            is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            begin = others[0] if is_docstring and others else first
            yield node.name, (node.end_lineno or 0) - begin.lineno + 1


@pytest.mark.parametrize("folder", sorted({*PACKAGES, "deploy"} - {"tests"}))
def test_no_function_is_too_long(folder: str) -> None:
    files = (path for path in (REPOSITORY / folder).rglob("*.py") if GENERATED not in path.parts)
    found = {f"{path}:{name}": lines for path in files for name, lines in bodies(path.read_text())}
    assert {name: lines for name, lines in found.items() if lines > MAX_BODY_LINES} == {}


def test_the_lines_of_a_function_are_counted_without_its_signature_and_docstring() -> None:
    source = 'def f(\n    x,\n):\n    """One.\n\n    Two."""\n    a = x\n\n    return a\n'
    assert list(bodies(source)) == [("f", 3)]
    assert list(bodies("async def g():\n    pass\n")) == [("g", 1)]


def jointed(source: str) -> list[str]:
    """Return the docstrings, of names too, in which a formatter has left the quotes of two joined strings."""
    alone = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    texts = [each.value for each in alone if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [text for text in texts if re.search(r'"\s*\n\s*"', text)]


@pytest.mark.parametrize("folder", PACKAGES)
def test_no_docstring_has_quotes_where_its_lines_meet(folder: str) -> None:
    found = {path: jointed(path.read_text()) for path in (REPOSITORY / folder).rglob("*.py")}
    assert {str(path): texts for path, texts in found.items() if texts} == {}


def test_quotes_where_lines_meet_are_found() -> None:
    assert jointed('x = 1\n"""Run "\n    "apart."""\n') == ['Run "\n    "apart.']
    assert jointed('def f():\n    """Say "no"\n    to it."""\n') == []


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_of_tests_imports_no_other_and_no_benchmark(path: Path) -> None:
    assert wrong_imports(path.read_text()) == []


@pytest.mark.parametrize("path", sorted((TESTS / "unit").rglob("*.py")), ids=lambda path: path.stem)
def test_a_unit_test_opens_no_socket(path: Path) -> None:
    names = set(imported(path.read_text()))
    assert not [name for name in names for door in ("socket", "uvicorn") if is_within(name, door)]


def private_names(source: str) -> list[str]:
    """Return what a file of tests touches although another module, or its object, keeps it to itself."""
    found = [name for name in imported(source) if any(map(is_private, name.split(".")))]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name("self" | "cls") | ast.Call(func=ast.Name("super"))):
                continue
            case (
                ast.Attribute(attr=name)
                | ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(str(name)), _])
            ):
                names = [name]
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(str(path)), _]):
                names = path.split(".")
            case _:
                continue
        if any(map(is_private, names)):
            found.append(ast.unparse(node))
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_of_tests_touches_nothing_private(path: Path) -> None:
    """Except for the private modules of alignment, which are tested by themselves."""
    if "alignment" not in str(path.relative_to(TESTS)):
        assert private_names(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from protocol._codec import decode",
        "from protocol.codec import _head",
        "records._engine.dispose()",
        'monkeypatch.setattr(module, "_key", None)',
        'monkeypatch.setattr("user_client.sdk.uplink._check", None)',
    ],
)
def test_a_private_name_is_found(source: str) -> None:
    assert private_names(source)


def test_what_a_test_keeps_to_itself_is_its_own() -> None:
    assert private_names("from protocol import __version__\nself._threads = super()._middle\n_rows = 3") == []


def test_the_benchmarks_tests_import_no_other_test_either() -> None:
    for path in (REPOSITORY / "benchmarks" / "tests").glob("*.py"):
        assert not [name for name in imported(path.read_text()) if is_within(name, "benchmarks.tests")], path


@pytest.mark.parametrize(
    "source",
    [
        "from tests.e2e.test_round import flat",
        "import tests.unit.test_docs",
        "from tests.unit import test_docs",
        "def late():\n    from benchmarks import data",
        "import benchmarks.data as data",
        "from tests import security",
    ],
)
def test_an_import_that_ties_two_files_together_is_found(source: str) -> None:
    assert len(wrong_imports(source)) == 1


def test_the_harness_and_the_product_may_be_imported() -> None:
    source = "from tests.harness import relay\nfrom tests.vectors import generate\nimport odc_demo.actors"
    assert wrong_imports(source) == []
