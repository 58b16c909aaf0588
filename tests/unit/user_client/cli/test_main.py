from __future__ import annotations

import errno
import json
import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from protocol import __version__
from protocol.errors import (
    DiskFullError,
    InputError,
    MalformedMessageError,
    NotFoundError,
    OdcError,
    OutOfOrderError,
    SignatureError,
)
from protocol.problems import all_errors
from runtime.terminal import exit_code
from user_client import __main__ as command
from user_client import errors
from user_client.cli import main as main_module
from user_client.cli.main import app
from user_client.custody.home import Home


def commands(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group there is."""
    command = command or app
    found = [path]
    for name, inner in getattr(command, "commands", {}).items():
        found += commands(inner, (*path, name))
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_says_what_it_does(path: tuple[str, ...]) -> None:
    command: Any = app
    for name in path:
        command = command.commands[name]
    assert command.help


def test_the_help_has_each_command_once_and_its_whole_sentence() -> None:
    under_headings = [name for names in type(app).sections.values() for name in names]
    assert sorted(under_headings) == sorted(app.commands)
    said = CliRunner().invoke(app, ["--help"]).output
    assert "..." not in said.partition("A round:")[2]
    assert "Walk a round: read and sign the terms, anchor (the lead), prepare" in " ".join(said.split())


def test_the_promised_commands_are_there() -> None:
    promised = {
        ("consortium", "create"),
        ("consortium", "invite"),
        ("consortium", "approve"),
        ("join",),
        ("terms", "draft"),
        ("terms", "show"),
        ("terms", "accept"),
        ("anchor", "create"),
        ("prepare",),
        ("contribute",),
        ("status",),
        ("receive",),
        ("predict",),
        ("version",),
    }
    assert promised <= set(commands())


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["version"])
    assert (result.exit_code, result.output) == (0, f"odc {__version__}\n")
    assert CliRunner().invoke(app, ["--version"]).output == f"odc {__version__}\n"
    found = json.loads(CliRunner().invoke(app, ["version", "--json"]).output)
    assert found == {"program": "odc", "version": __version__}


def end_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(main_module, "app", fail)
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no"), 3),
        (errors.OutOfRangeError("age", np.array([3]), 0, 1), 3),
        (errors.PassphraseError("no"), 3),
        (errors.ChoiceNeededError("no"), 3),
        (MalformedMessageError("Receipt", "no"), 4),
        (SignatureError("no"), 5),
        (errors.NotJoinedError("no"), 5),
        (OutOfOrderError("draft", "seal"), 6),
        (NotFoundError("no"), 6),
        (errors.NotPreparedError("no"), 6),
        (errors.ConnectionFailedError("no"), 7),
        (errors.TlsFailedError("no"), 7),
        (OdcError("no"), 1),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else "",
)
def test_an_error_ends_with_two_lines_and_its_exit_code(
    error: OdcError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_with(error, monkeypatch) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"odc: error: {error.detail}\nodc: hint: {error.hint}\n"


def test_the_unexpected_ends_with_one_and_without_its_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_with(KeyError("patient-4711"), monkeypatch) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("odc: error: unexpected KeyError\nodc: hint: ")
    assert "4711" not in printed.err


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[ONNXRuntimeError] : 6 : Exception during initialization: std::bad_alloc")],
)
def test_too_little_memory_is_no_fault_of_the_software(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_with(error, monkeypatch) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "too little memory" in first
    assert "a machine with more" in second


def test_a_full_disk_of_ours_is_no_fault_of_the_software(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_with(OSError(errno.ENOSPC, "No space left on device", "/home/odc/x"), monkeypatch) == 8
    first, second = capsys.readouterr().err.splitlines()
    assert first == "odc: error: the disk of /home/odc/x is full"
    assert second == f"odc: hint: {DiskFullError.hint}"


@pytest.mark.parametrize(
    "cls", [cls for cls in all_errors() if cls.__module__ == errors.__name__], ids=lambda cls: cls.__name__
)
def test_every_error_of_the_client_has_a_slug_a_title_and_a_hint(cls: type[OdcError]) -> None:
    assert cls.code.replace("-", "").isalpha()
    assert cls.title[0].isupper()
    assert cls.hint
    assert not cls.hint.endswith(".")
    assert 0 < exit_code(cls) < 126


def test_every_slug_of_either_side_is_used_once() -> None:
    ours = [cls.code for cls in all_errors() if cls.__module__ in ("protocol.errors", errors.__name__)]
    assert len(set(ours)) == len(ours)


def test_the_tree_of_client_errors_names_every_class() -> None:
    assert errors.__doc__ is not None
    for cls in all_errors():
        if cls.__module__ == errors.__name__:
            assert cls.__name__ in errors.__doc__


def test_the_home_may_come_from_the_command_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["odc", "--home", str(tmp_path / "mine"), "status"])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 5
    assert str(tmp_path / "mine") in capsys.readouterr().err


def test_without_a_word_the_home_is_below_the_persons_own(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ODC_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["odc", "status"])
    with pytest.raises(SystemExit):
        command.main()
    assert str(Home(tmp_path / ".odc").path) in capsys.readouterr().err


def options(command: Any) -> list[Any]:
    below = [option for each in getattr(command, "commands", {}).values() for option in options(each)]
    return [*command.params, *below]


def run(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["odc", *words])
    with pytest.raises(SystemExit) as caught:
        command.main()
    printed = capsys.readouterr()
    return caught.value.code, printed.out, printed.err


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_shows_what_stands_in_brackets(asked: str) -> None:
    shown = " ".join(CliRunner().invoke(app, ["join", asked]).output.split())
    assert "[env: ODC_KEY_PASSPHRASE_FILE]" in shown
    assert "[env: ODC_HOME; default: ~/.odc]" in " ".join(CliRunner().invoke(app, [asked]).output.split())


def test_the_version_may_be_asked_for_as_an_option() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"odc {__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete_commands(shell: str) -> None:
    result = CliRunner().invoke(app, ["--completion", shell])
    assert result.exit_code == 0
    assert "_ODC_COMPLETE" in result.output


def test_options_of_every_command_may_stand_behind_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["status", "--verbose", "--home", str(tmp_path / "mine")]
    code, _, said = run(words, monkeypatch, capsys)
    assert (code, str(tmp_path / "mine") in said) == (5, True)
    assert main_module.options_first(["a", "--", "--verbose"]) == ["a", "--", "--verbose"]
    assert main_module.options_first(["a", "--home=x", "b"]) == ["--home=x", "a", "b"]


def test_who_interrupts_a_command_is_told_that_it_can_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "open_session", interrupted)
    code, out, said = run([], monkeypatch, capsys)
    assert (code, out) == (130, "")
    assert said.strip() == "odc: stopped; run it again, and it continues"


@pytest.mark.parametrize(("typed", "completed"), [("pre", "predict"), ("predict --sk", "--skip-unfit")])
def test_a_shell_is_told_what_may_follow(typed: str, completed: str) -> None:
    words = f"odc {typed}"
    asked = {"_ODC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert f"plain,{completed}" in CliRunner().invoke(app, [], prog_name="odc", env=asked).output


def test_a_shell_completes_the_name_of_a_table() -> None:
    asked = {"_ODC_COMPLETE": "bash_complete", "COMP_WORDS": "odc predict heart", "COMP_CWORD": "2"}
    assert CliRunner().invoke(app, [], prog_name="odc", env=asked).output.strip() == "file,heart"


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["predict", "--json"], "Missing argument 'TABLE'."),
        (["predictt", "--json"], "No such command 'predictt'."),
        (["wait", "--timeout", "soon", "--json"], "'soon' is not a valid float"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_wrong_command_line_is_json_for_who_asked_for_json(
    words: list[str], detail: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = run(words, monkeypatch, capsys)
    told = json.loads(said)["error"]
    assert (code, out, told["type"], told["exit_code"]) == (2, "", "wrong-command-line", 2)
    assert detail in told["detail"]
    assert "Usage: odc" in run(words[:-1], monkeypatch, capsys)[2]


def test_an_error_is_json_for_who_asked_for_json(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = run(["--home", str(tmp_path), "status", "--json"], monkeypatch, capsys)
    told = json.loads(said)["error"]
    assert (code, out) == (5, "")
    assert (told["type"], told["exit_code"]) == ("not-joined", 5)
    assert told["hint"] == errors.NotJoinedError.hint
