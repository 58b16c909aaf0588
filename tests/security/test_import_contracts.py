"""The walls between the packages stand, and would be seen to fall."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = (
    "protocol",
    "metering",
    "runtime",
    "pages",
    "analyst_server",
    "user_client",
    "orthonormal_data_collaboration",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            REPOSITORY / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def lint(directory: Path) -> tuple[int, str]:
    """Run import-linter on the packages of a directory; return its exit code and what it said."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(
        command,
        cwd=directory,
        env={"PYTHONPATH": str(directory), "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_contracts_hold(copy: Path) -> None:
    exit_code, said = lint(copy)
    assert exit_code == 0, said
    assert "0 broken" in said


def test_every_wall_that_is_climbed_is_named(copy: Path) -> None:
    """One forbidden import for each wall, all at once: each run takes seconds."""
    planted = {
        "analyst_server/services/rounds.py": "import user_client.secret.expansion",
        "analyst_server/services/views.py": "import fastapi",
        "analyst_server/alignment/odc.py": "import protocol.messages",
        "analyst_server/training/models.py": "import analyst_server.store",
        "analyst_server/compute/sequence.py": "import sqlalchemy",
        "analyst_server/compute/judging.py": "import cryptography",
        "user_client/secret/expansion.py": "import httpx",
        "user_client/transport/upload.py": "import user_client.sdk.anchor",
        "user_client/onnx_model/child.py": "import user_client.custody.home",
        "user_client/sdk/predictor.py": "import fastapi",
        "protocol/states.py": "import scipy",
        "metering/explanation.py": "import odc_demo.scores",
        "analyst_server/blobs/stores.py": "import analyst_server.services",
        "metering/formulas.py": "import runtime.files",
        "metering/client_traffic.py": "import metering.server",
        "metering/server.py": "import httpx",
        "analyst_server/services/meter.py": "import metering.client_traffic",
        "user_client/transport/connection.py": "import metering.private_parts",
        "orthonormal_data_collaboration/members.py": "import httpx",
        "pages/guard.py": "import protocol.tokens",
    }
    for path, line in planted.items():
        file = copy / path
        text = file.read_text()
        after = "from __future__ import annotations\n"
        assert after in text, path
        file.write_text(text.replace(after, f"{after}\n{line}\n", 1))
    exit_code, said = lint(copy)
    assert exit_code == 1, said
    broken = {line.split(" BROKEN")[0] for line in said.splitlines() if " BROKEN" in line}
    assert broken >= {
        "protocol stands alone",
        "a simulation has no network, no records and no commands",
        "what pages are made of knows neither side and no web framework",
        "the product stands without its demo, its benchmarks and its tests",
        "the analyst cannot build an anchor or a basis, an institution cannot reach the analyst",
        "alignment is arrays only",
        "training is arrays only",
        "what computes a round sees blobs, but no keys or network",
        "what computes a round, or plays one in one process, has no database",
        "secrets are arrays only",
        "what evaluates the analyst's model knows no secret and nobody to tell",
        "use cases know neither HTTP nor SQL",
        "metering knows the protocol alone",
        "the client's meter stands on httpx, without the server's",
        "the server's meter stands on uvicorn, without the client's",
        "the analyst does without the client's meter",
        "an institution does without the server's meter",
        "only the local service and the pages know a web framework",
        "inside the server imports point down",
        "inside the client imports point down",
    }
    assert "user_client.secret.expansion" in said


def test_one_import_of_the_anchor_at_the_analyst_is_enough(copy: Path) -> None:
    (copy / "analyst_server" / "peek.py").write_text("import user_client.secret.expansion\n")
    exit_code, said = lint(copy)
    assert exit_code == 1
    assert "analyst_server.peek -> user_client.secret.expansion" in said


def test_the_analyst_cannot_be_made_to_load_what_builds_an_anchor(tmp_path: Path) -> None:
    """Whatever a linter thinks: with everything of the server loaded, no module of the client is."""
    program = (
        "import pkgutil, sys, importlib, analyst_server\n"
        "for found in pkgutil.walk_packages(analyst_server.__path__, 'analyst_server.'):\n"
        "    if '.migrations' not in found.name:\n"
        "        importlib.import_module(found.name)\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'user_client'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
