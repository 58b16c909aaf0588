"""The wheel, built and installed as a person installs it: its programs see nothing of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

from tests.harness.tree import REPOSITORY

_OURS: Final = ("ODC_", "PYTHON", "COV_")


def bare_environment() -> dict[str, str]:
    """Return the environment of somebody who has neither the checkout nor settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command that sees neither the checkout nor a person's settings; return what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def build_wheel(directory: Path) -> Path:
    """Build the wheel into an empty directory, and return where it is."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory, cwd=REPOSITORY)
    (built,) = directory.iterdir()
    return built


def install_wheel(wheel: Path, environment: Path) -> Path:
    """Install a wheel into a new environment that has the libraries of this one; return its programs."""
    venv.create(environment)
    programs = environment / "bin"
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=environment)
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # a line in a .pth file adds a directory, but not the .pth files in it, one of which names the checkout
    (site_packages / "libraries.pth").write_text("".join(f"{path}\n" for path in sorted(libraries)))
    return programs
