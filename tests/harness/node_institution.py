"""The institution in Node of examples/node-institution, driven by its command as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray

from odc_demo.actors import CommandError
from tests.harness.tree import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "node-institution"


def require_node() -> None:
    """Skip the test where the example cannot run; with ``ODC_REQUIRE_NODE`` set, as CI does, fail it."""
    why = missing_node()
    if why is not None and os.environ.get("ODC_REQUIRE_NODE"):
        pytest.fail(f"ODC_REQUIRE_NODE is set, but {why}")
    if why is not None:
        pytest.skip(why)


def missing_node() -> str | None:
    """Return why the example cannot run here, or None."""
    node = shutil.which("node")
    if node is None:
        return "there is no `node` (Debian: apt install nodejs)"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    major = int(version.removeprefix("v").split(".")[0])
    return None if major >= 18 else f"node is {version}, and the example needs 18"


def commands_of_the_example() -> list[str]:
    """Return the options by which `odc-fake-analyst` tries the example."""
    rest = "--collaboration {collaboration}"
    steps = {
        "join": "join {invitation} --yes",
        "accept": f"accept --yes {rest}",
        "contribute": f"contribute {{table}} --yes {rest}",
        "receive": f"receive {rest}",
        "predict": f"predict {{table}} --out {{out}} {rest}",
    }
    program = EXAMPLE / "src" / "main.js"
    given = [f"--{step}=node {program} {words}" for step, words in steps.items()]
    return [*given, "--env=ODC_NODE_HOME={home}"]


@dataclass
class NodeInstitution:
    """An institution whose software is not ours: a state directory and the command of the example."""

    name: str
    home: Path
    source: Path = EXAMPLE
    said: str = ""
    """What the last command has said to a person, beside its answer."""

    def shown(self, *words: str | Path) -> str:
        """Run a command and return what it printed; raise `CommandError` if it fails."""
        self.home.mkdir(parents=True, exist_ok=True)
        command = ["node", str(self.source / "src" / "main.js"), *map(str, words)]
        environment = {"PATH": os.environ["PATH"], "ODC_NODE_HOME": str(self.state)}
        done = subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != 0:
            raise CommandError(["odc-node", *map(str, words)], done)
        self.said = done.stderr
        return done.stdout

    def run(self, *words: str | Path) -> Any:
        """Run a command whose answer is JSON, and return that."""
        return json.loads(self.shown(*words).splitlines()[-1])

    @property
    def state(self) -> Path:
        return self.home / "state"

    def go_through(self, port: int) -> None:
        """Reach the analyst by another port of this machine."""
        path = self.state / "member.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "analyst_url": f"https://localhost:{port}"})
        )

    def table(self, name: str, content: pa.Table) -> Path:
        """Write a table that it has on its disk."""
        self.home.mkdir(parents=True, exist_ok=True)
        pyarrow.csv.write_csv(content, self.home / name)
        return self.home / name

    def basis(self, secret_basis: NDArray[np.float64]) -> Path:
        """Write a basis that it is to use in the place of one that it draws."""
        path = self.home / "given.f64"
        path.write_bytes(np.ascontiguousarray(secret_basis, "<f8").tobytes())
        return path

    def predict(self, collaboration_id: str, table: pa.Table) -> pa.Table:
        """Return what it writes for a table: `prediction`, and a probability for each class."""
        out = self.home / "predictions.csv"
        self.run("predict", self.table("new.csv", table), "--out", out, "--collaboration", collaboration_id)
        return pyarrow.csv.read_csv(out)
