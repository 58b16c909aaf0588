"""Documents stay true: every command, setting, error, endpoint and exit code has its place in docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import user_client.errors  # noqa: F401  # so that all_errors() knows the client's
from analyst_server import cli as analyst_cli
from analyst_server.api import problems
from analyst_server.settings import Settings
from protocol.alignment_terms import LEAST_SQUARES_METHODS, AlignmentMethod
from protocol.operations import OPERATIONS, Operation
from protocol.problems import all_errors
from runtime.terminal import exit_code
from tests.harness.tree import PACKAGES, REPOSITORY
from user_client.cli import main as client_cli
from user_client.sdk import PrivacyOptions

DOCS = REPOSITORY / "docs"
README = (DOCS.parent / "README.md").read_text()


def commands(program: str, app: click.Command) -> Iterator[str]:
    def walk(command: Any, words: tuple[str, ...]) -> Iterator[str]:
        children = getattr(command, "commands", None)
        if children is None:
            yield " ".join(words)
            return
        for name, child in children.items():
            yield from walk(child, (*words, name))

    yield from walk(app, (program,))


ALL_COMMANDS = [*commands("odc", client_cli.app), *commands("odc-analyst", analyst_cli.app)]


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_command_is_documented(command: str) -> None:
    text = (DOCS / "cli.md").read_text()
    *group, name = command.split()
    # `collaboration list`, `show ID` share a line, so the group and the name may stand apart
    assert re.search(rf"`{re.escape(' '.join(group))} {name}\b", text) or re.search(
        rf"^\| `{re.escape(' '.join(group))} .*`{name}\b", text, re.MULTILINE
    )


@pytest.mark.parametrize("words", ALL_COMMANDS)
def test_every_option_of_a_command_is_documented(words: str) -> None:
    program, *names = words.split()
    command: Any = client_cli.app if program == "odc" else analyst_cli.app
    for name in names:
        command = command.commands[name]
    sections = (DOCS / "options.md").read_text().split(f"\n### `{words}`\n")
    assert len(sections) == 2 or not command.params
    section = sections[-1].split("\n#")[0]
    for parameter in command.params:
        is_shown = parameter.param_type_name == "option" and not parameter.hidden
        for name in parameter.opts if is_shown else ():
            assert f"`{name}`" in section, name
            assert parameter.help, f"{words} {name} says nothing"


def variables(*packages: str) -> set[str]:
    """Return the environment variables of ours that stand in the code of some packages."""
    texts = (path.read_text() for name in packages for path in (REPOSITORY / name).rglob("*.py"))
    return {name for text in texts for name in re.findall(r'"(ODC_[A-Z_]+[A-Z])"', text)}


def test_every_environment_variable_is_documented() -> None:
    pages = {path.name: path.read_text() for path in DOCS.glob("*.md")}
    ours = variables("user_client")
    assert len(ours) >= 3
    assert all(f"| `{name}` |" in pages["cli.md"] for name in ours), ours
    for name in variables(*set(PACKAGES) - {"benchmarks", "manual", "tests"}):
        assert any(re.search(rf"\b{name}\b", text) for text in pages.values()), name


@pytest.mark.parametrize("field", [field.name for field in fields(PrivacyOptions)])
def test_privacy_option_is_documented(field: str) -> None:
    for name in ("cli.md", "privacy.md"):
        assert re.search(rf"`.*--{field.replace('_', '-')}\b", (DOCS / name).read_text())


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_setting_is_documented(field: str) -> None:
    assert f"`ODC_ANALYST_{field.upper()}`" in (DOCS / "operations.md").read_text()


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.code)
def test_error_has_a_section_with_its_title_docstring_status_exit_code_and_hint(cls: Any) -> None:
    sections = (DOCS / "errors.md").read_text().split(f"\n## {cls.code}\n")
    assert len(sections) == 2
    docstring = (vars(cls).get("__doc__") or "").split("\n")[0]
    about = f"{cls.title}: {docstring[:1].lower()}{docstring[1:]}" if docstring else f"{cls.title}."
    alone = "of either command" if cls.__module__ == "runtime.terminal" else "at the institution only"
    where = f"HTTP {problems.STATUS[cls]}" if cls in problems.STATUS else alone
    assert sections[1].split("\n## ")[0].strip() == (
        f"{about}\n\n`{cls.__name__}`, {where}, exit code {exit_code(cls)}. What to do: {cls.hint}."
    )


def test_every_slug_belongs_to_one_class() -> None:
    codes = [cls.code for cls in all_errors()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("code", sorted({exit_code(cls) for cls in all_errors()} | {0, 2}))
def test_exit_code_is_documented(code: int) -> None:
    assert f"| {code} |" in (DOCS / "cli.md").read_text()


def test_every_alignment_method_is_described() -> None:
    text = (DOCS / "methods.md").read_text()
    described = {
        name: matrices
        for name, matrices in re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE)
        if f"\n## {name}\n" in text
    }
    assert set(described) == set(get_args(AlignmentMethod))
    fitted = {name for name, matrices in described.items() if matrices == "all matrices"}
    assert fitted == LEAST_SQUARES_METHODS  # docs/protocol.md leaves it to this table


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_operation_is_specified(operation: Operation) -> None:
    assert f"`{operation.method} {operation.path}`" in (DOCS / "protocol.md").read_text()


def test_readme_names_only_commands_that_exist() -> None:
    known = {tuple(command.split()) for command in ALL_COMMANDS}
    typed = re.findall(r"^ +\w+\$ +(odc(?:-analyst)? .*)$", README, re.MULTILINE)
    assert len(typed) > 10
    for line in typed:
        words = tuple(line.split()[:3])
        assert words in known or words[:2] in known, line


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_readme_links_lead_somewhere(target: str) -> None:
    assert (DOCS.parent / target).exists()


def headings(document: str) -> set[str]:
    found = re.findall(r"^#+ (.+)$", document, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in found}


def test_the_officer_is_sent_to_places_that_exist() -> None:
    text = (DOCS / "dpia.md").read_text()
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith("http")]
    assert len(targets) > 10
    for target in targets:
        name, _, heading = target.partition("#")
        found = (DOCS / name).read_text() if name else text
        assert not heading or heading in headings(found), target


TOO_STRONG = (
    "keeps hidden at least",
    "keeps hidden (epsilon-DR)",
    "smaller latent dimension hides",
    "smaller one hides more",
    "except for the part that the latent dimension cuts off",
    "but for the part that the latent dimension cuts off",
    "unknown rotation and nothing more",
    "order that cannot be restored",
    "an order nobody can bring back",
    "nothing that leads from X~_i to rows",
    "rows of the same population could estimate it",
    "no meaningful information",
    "no row leaves its owner",
)
"""What attacks on real tables have refuted (docs/threat-model.md)."""
SAID = {
    str(path.relative_to(DOCS.parent)): " ".join(re.sub(r"[\"'`#]", " ", path.read_text()).split())
    for folder in ("docs", *PACKAGES)
    for path in sorted((DOCS.parent / folder).rglob("*"))
    if path.suffix in (".md", ".py", ".json", ".html", ".j2") and path != Path(__file__)
} | {path.name: " ".join(path.read_text().split()) for path in DOCS.parent.glob("*.md")}
SIGNED = "An analyst that has other rows of the same population could estimate it alone."
"""Too weak, but part of the text that was signed with terms of schema 1, which cannot change."""


@pytest.mark.parametrize("sentence", TOO_STRONG)
def test_no_sentence_promises_what_attacks_have_refuted(sentence: str) -> None:
    assert len(SAID) > 300
    for name, text in SAID.items():
        assert sentence not in text.replace(SIGNED, ""), f"{name} says: {sentence}"
