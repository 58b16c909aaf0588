"""Run a function in a process of its own: what it loads, and the memory that takes, end with it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from protocol.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")
_PROGRAM: Final = """
import pickle, sys
function, arguments, options = pickle.load(sys.stdin.buffer)
pickle.dump(function(*arguments, **options), sys.stdout.buffer)
"""
"""It imports nothing but what the function needs."""


def apart(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a function of ours without side effects returns.

    The standard library's pools would import the program that calls us a second time.

    Raises
    ------
    InputError
        If the process cannot start or has ended without an answer.
    """
    packages = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        with subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(packages)},
        ) as process:
            try:
                given, answer = process.stdin, process.stdout
                if given is None or answer is None:
                    raise EOFError
                with given:
                    pickle.dump((function, arguments, options), given)
                found: T = pickle.load(answer)  # noqa: S301  # our own process wrote it
            except BaseException:
                process.kill()
                raise
    except (OSError, EOFError, pickle.UnpicklingError):  # the last: killed in the midst of its answer
        error = InputError("a process that attacks our own rows has ended unexpectedly")
        error.hint = "it may have run out of memory: free some, or leave the attacks out with --no-attacks"
        raise error from None
    return found
