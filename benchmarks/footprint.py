"""What an institution installs: how many packages, how many megabytes, and whether anything of the server.

`python -m benchmarks.footprint` builds the wheel and installs it with the extra ``client`` into a fresh
virtual environment, so it needs an index of packages. pip and setuptools, which come with the environment, do
not count. Then ``deploy/trim.sh`` removes what no process loads, as it does for the images.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.report import Options, Report, main

MOST_PACKAGES: Final = 24
"""With our own."""
MOST_MEGABYTES: Final = 250
SERVER_LIBRARIES: Final = frozenset({"fastapi", "onnx", "scikit-learn", "scipy", "sqlalchemy", "uvicorn"})
_OF_THE_ENVIRONMENT: Final = frozenset({"pip", "setuptools"})
_LIST: Final = """
import importlib.metadata, json
found = {}
for one in importlib.metadata.distributions():
    files = [one.locate_file(file) for file in one.files or []]
    found[one.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.is_file())
print(json.dumps(found))
"""


def measure(_options: Options) -> Report:
    """Install, count, remove what no process loads, and count again."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = install(Path(folder), "client")
        installed = sizes(fresh)
        _run(["sh", "deploy/trim.sh", "client", str(fresh)])
        return report_of(installed, sizes(fresh))


def report_of(installed: Mapping[str, int], trimmed: Mapping[str, int]) -> Report:
    """Return the claims about packages, by name with their size in bytes before and after trimming."""
    report = Report("footprint", {"extra": "client", "bytecode": "compiled, as pip does"})
    report.rows += [
        {"package": name, "megabytes": round(size / 1e6, 1), "trimmed": round(trimmed[name] / 1e6, 1)}
        for name, size in sorted(installed.items(), key=lambda one: -one[1])
    ]
    report.claim("footprint_packages", len(installed), "packages", "<=", MOST_PACKAGES)
    report.claim("footprint_megabytes", sum(installed.values()) / 1e6, "MB", "<=", MOST_MEGABYTES)
    report.claim("footprint_trimmed_megabytes", sum(trimmed.values()) / 1e6, "MB", "<=", MOST_MEGABYTES)
    report.claim("footprint_server_libraries", len(SERVER_LIBRARIES & set(installed)), "packages", "==", 0)
    return report


def install(folder: Path, extra: str) -> Path:
    """Return a fresh environment with our wheel in it.

    Raises
    ------
    subprocess.CalledProcessError
        If the wheel cannot be built, or no index has what it needs.
    """
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")])
    (wheel,) = (folder / "wheel").iterdir()
    venv.create(folder / "fresh", with_pip=True)
    python = str(folder / "fresh" / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extra}]"])
    return folder / "fresh"


def sizes(environment: Path) -> dict[str, int]:
    """Return the packages of an environment, and how many bytes their files have."""
    found: dict[str, int] = json.loads(_run([str(environment / "bin" / "python"), "-I", "-c", _LIST]))
    return {name: size for name, size in found.items() if name not in _OF_THE_ENVIRONMENT}


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(measure))
