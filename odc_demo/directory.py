"""The directory of a demo: what an earlier demo made in it is removed, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.errors import InputError

MARKER: Final = ".odc-demo.json"
"""Lists what a demo makes in its directory, from before it makes it."""
_REPORT: Final = "report.json"
_FILES: Final = ("analyst", "passphrase-of-the-root", "hold-out.csv", "terms.toml", _REPORT)


def begin(out: Path, hospitals: Sequence[str]) -> None:
    """Make the directory of a demo, without what an earlier one left in it.

    Raises `InputError` for a directory that has something in it and is none of a demo.
    """
    names = [*_FILES, *hospitals]
    before = _of_an_earlier_demo(out)
    if strange := sorted(name for name in names if name not in before and _is_there(out / name)):
        raise _not_ours(out, f"'{strange[0]}' in it is not of an earlier demo")
    for name in before:
        _remove(out / name)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text(json.dumps(names) + "\n")
    except OSError as error:
        raise _not_ours(out, f"it cannot be written: {error.strerror}") from None


def _of_an_earlier_demo(out: Path) -> Sequence[str]:
    """Return the names of what an earlier demo made; raises `InputError` if there is something else only."""
    if not out.exists():
        return ()
    if not out.is_dir():
        raise _not_ours(out, "it is not a directory")
    try:
        if (out / MARKER).exists():
            names = list(json.loads((out / MARKER).read_text()))
        elif (out / _REPORT).exists():  # of a version that left no marker
            parties = json.loads((out / _REPORT).read_text())["parties"]
            names = [*_FILES, *(party["name"] for party in parties)]
        elif any(out.iterdir()):
            raise _not_ours(out, "it is not empty, and no earlier demo was run there")
        else:
            names = []
        if any(name in ("", ".", "..") or Path(name).name != name for name in names):
            raise ValueError("a name with a path in it")
    except (OSError, ValueError, TypeError, KeyError):
        raise _not_ours(out, "what an earlier demo made there cannot be told") from None
    return names


def _not_ours(out: Path, reason: str) -> InputError:
    error = InputError(f"{out} is not used for the demo: {reason}")
    error.hint = "name another directory with --out, or empty this one yourself"
    return error


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
