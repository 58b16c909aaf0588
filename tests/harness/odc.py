"""Runs `odc` in this process, as a person would, against the analyst of a `Consortium`."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness.in_process import PASSPHRASE, Consortium
from user_client import __main__ as command
from user_client.cli import options
from user_client.sdk import Session


class Result:
    """How a command ended and what it printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Odc:
    """The command, with the clock and the line of a consortium."""

    def __init__(
        self,
        consortium: Consortium,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.consortium = consortium
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(options, "Session", partial(Session, clock=consortium.clock))
        monkeypatch.chdir(consortium.directory)
        self.passphrase = consortium.directory / "passphrase"
        self.passphrase.write_text(PASSPHRASE + "\n")
        monkeypatch.setenv("ODC_PASSPHRASE_FILE", str(self.passphrase))

    def at_terminal(self, *arguments: str | Path, typed: str = "", home: str = "hospital-a") -> Result:
        """Run the command where a person sits, who types these lines."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", _Terminal(typed + "\n"))
            return self(*arguments, home=home)

    def __call__(self, *arguments: str | Path, home: str = "hospital-a") -> Result:
        self._monkeypatch.setenv("ODC_HOME", str(self.consortium.directory / home))
        self._monkeypatch.setattr(sys, "argv", ["odc", *map(str, arguments)])
        self._capsys.readouterr()
        try:
            command.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        printed = self._capsys.readouterr()
        return Result(code, printed.out, printed.err)
