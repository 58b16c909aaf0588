"""Every command that stands in the documents could be typed: programs, commands, options and values exist."""

from __future__ import annotations

import io
import re
import shlex
import sys
import tomllib
from contextlib import redirect_stdout, suppress
from functools import cache
from itertools import pairwise
from typing import Any, Final

import click
import pytest

from analyst_server import cli as analyst_cli
from odc_demo import play as demo
from protocol.operations import OPERATIONS
from tests.harness.tree import REPOSITORY
from tests.harness.written_commands import (
    PAGES,
    PROGRAMS,
    Written,
    inline_commands,
    without_variables,
    written_in,
)
from user_client.cli import main as client_cli

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
MAKEFILE = (REPOSITORY / "Makefile").read_text()
SERVICE_PATHS = ("/v1/predictions", "/v1/model", "/healthz", "/metrics", "/openapi.json")
COMMANDS: Final[dict[str, Any]] = {
    "odc": client_cli.app,
    "odc-analyst": analyst_cli.app,
}
WRITTEN = [command for page in PAGES for command in written_in(page)]
INLINE = [command for page in PAGES for command in inline_commands(page)]


def leaf(program: str, words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words name, and the words that are left for it."""
    command, rest = COMMANDS[program], list(words)
    while rest and (children := getattr(command, "commands", None)) and rest[0] in children:
        command = children[rest.pop(0)]
    return command, rest


def options(command: Any) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    } | {"--help", "-h"}


@cache
def demo_options() -> set[str]:
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown), suppress(SystemExit):
        patch.setattr(sys, "argv", ["odc-demo", "--help"])
        demo.main()
    return set(re.findall(r"--[a-z-]+", shown.getvalue()))


def parse(program: str, words: list[str]) -> None:
    """Raise if the program would refuse the words before it does anything."""
    if program == "odc-demo":
        assert {word for word in words if word.startswith("-")} <= demo_options()
        return
    command, rest = leaf(program, words)
    if not rest and getattr(command, "commands", None):
        assert not words, f"{words} is no command of {program}"
        return  # alone it says where one is
    assert getattr(command, "commands", None) is None, f"{program} has no command {rest[:1]}"
    group = COMMANDS[program]
    with command.make_context(words[0], rest, parent=click.Context(group, **group.context_settings)):
        pass


def check_make(words: list[str]) -> None:
    for word in words:
        name, is_variable, _ = word.partition("=")
        known = rf"\$\({name}\)|^{name} \?=" if is_variable else rf"^{name}:"
        assert re.search(known, MAKEFILE, re.MULTILINE), f"the Makefile has no {name}"


def check_pip(words: list[str]) -> None:
    assert words[0] == "install"
    for extras in re.findall(r"\[([a-z,]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), extras
    for name in re.findall(r"(\S+)-py3-none-any\.whl", " ".join(words)):
        assert name == f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}"


def check_curl(line: str) -> None:
    (path,) = re.findall(r"https?://[^/\s]+(/[^\s'\"]*)", line.replace("/ID", f"/{'0' * 32}"))
    of_analyst = [operation for operation in OPERATIONS if operation.match(path) is not None]
    assert of_analyst or path in SERVICE_PATHS, path
    if "-X POST" in line:
        assert "POST" in {operation.method for operation in of_analyst}


def check_python(words: list[str]) -> None:
    if words[0] == "-m" and words[1] not in ("venv", "pytest"):
        module = REPOSITORY / words[1].replace(".", "/").removesuffix("/NAME")
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), words[1]
    for word in words[1:]:
        if word.startswith("tests/"):
            assert (REPOSITORY / word).exists(), word


def check_docker(words: list[str]) -> None:
    for option, value in pairwise(words):
        if option == "-f":
            assert (REPOSITORY / value).exists(), value


def check(line: str) -> None:
    """Raise if a line of shell names something that does not exist."""
    for part in re.split(r"\s+&&\s+|\s+\|\s+", line):
        program, *words = without_variables(shlex.split(part))
        program = program.rpartition("/")[2].replace("odc_analyst", "odc-analyst")
        match program:
            case "odc" | "odc-analyst" | "odc-demo":
                parse(program, words)
            case "make":
                check_make(words)
            case "pip":
                check_pip(words)
            case "curl":
                check_curl(part)
            case "python" | "python3":
                check_python(words)
            case "docker":
                check_docker(words)
            case "export" if words[0].startswith(("ODC_HOME=", "ODC_ANALYST_DATA_DIR=", "PGPASSFILE=")):
                pass
            case _:
                assert program in PROGRAMS | {".", "sudo", "cd"}, program


@pytest.mark.parametrize("command", WRITTEN, ids=str)
def test_a_command_could_be_typed(command: Written) -> None:
    check(command.line.replace("--party ...", "--party a --party b"))


@pytest.mark.parametrize("command", INLINE, ids=str)
def test_a_command_in_a_sentence_exists_with_its_options(command: Written) -> None:
    program, *words = command.line.split()
    if program == "odc-demo":
        known = demo_options()
    else:
        found, rest = leaf(program, words)
        known = options(found) | options(COMMANDS[program])
        is_group = getattr(found, "commands", None) is not None
        assert not (is_group and rest and re.fullmatch("[a-z][a-z-]*", rest[0])), f"no command {rest[0]}"
    named = [word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)]
    assert set(named) <= known


def test_there_are_many() -> None:
    assert len(WRITTEN) > 100
    assert len(INLINE) > 200


@pytest.mark.parametrize(
    "wrong",
    [
        "odc terms draft rows.csv --lable x --party a",
        "odc consortium found Study",
        "odc predict",
        "odc-analyst collaboration seal",
        "odc-analyst serve --port many",
        "odc-demo --table rows.csv",
        "make everything",
        "pip install 'orthonormal_data_collaboration-0.2.0.dev0-py3-none-any.whl[clients]'",
        "pip install 'orthonormal_data_collaboration-0.0.9-py3-none-any.whl[client]'",
        "curl https://analyst.example:8443/v1/nothing",
        "python -m benchmarks.nothing",
        "docker compose -f deploy/compose/nothing.yml up",
        "rm -rf /",
    ],
)
def test_a_wrong_command_is_found(wrong: str) -> None:
    with pytest.raises((Exception, SystemExit)):  # each program has errors of its own
        check(wrong)
