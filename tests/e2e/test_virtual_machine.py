"""docs/deploy-vm.md, typed on a machine with systemd and without a network: installed, joined, and a round.

The machine is a container in which systemd runs, since no test can start a virtual machine everywhere.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv
import pytest

from odc_demo.actors import Institution, join_all
from tests.harness.compose import docker, missing_engine
from tests.harness.consortium import PASSPHRASE, rows
from tests.harness.tree import REPOSITORY
from tests.harness.written_commands import blocks

pytestmark = pytest.mark.compose
PAGE = REPOSITORY / "docs" / "deploy-vm.md"
IMAGE = "odc-test-virtual-machine"
HERE = Path(__file__).parent / "virtual_machine"
# `--wait` of systemctl does not wait for the bus, which a loaded machine may not have yet.
BOOTED = """
for _ in $(seq 240); do
  state=$(systemctl is-system-running 2>&1 || true)
  case "$state" in running|degraded) exit 0 ;; esac
  sleep 0.5
done
echo "systemd is not up after two minutes: $state"
exit 1
"""


@dataclass
class Machine:
    """A container with systemd, driven by its root."""

    container: str

    def run(self, script: str) -> str:
        """Run lines of a shell; the first that fails ends the test with what was printed."""
        done = subprocess.run(
            ["docker", "exec", "--interactive", "--workdir", "/wheelhouse", self.container, "sh", "-e"],
            input=script,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def put(self, path: Path) -> None:
        """Carry a file into its /tmp, where everybody can read it."""
        docker("cp", "--quiet", str(path), f"{self.container}:/tmp/{path.name}")
        self.run(f"chmod 644 /tmp/{path.name}")

    def get(self, path: str, to: Path) -> Path:
        docker("cp", "--quiet", f"{self.container}:{path}", str(to))
        return to

    @property
    def address(self) -> str:
        found = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return docker("inspect", "--format", found, self.container).strip()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the machine has Python 3.11, and the wheelhouse is for the Python of the tests")
    if reason := missing_engine():
        pytest.skip(f"no Docker engine: {reason}")
    wheelhouse = tmp_path_factory.mktemp("built") / "wheelhouse"
    programs = Path(sys.executable).parent
    words = ["sh", "deploy/wheelhouse.sh", sys.executable, str(programs), str(wheelhouse)]
    subprocess.run(words, cwd=REPOSITORY, check=True, timeout=600)
    docker("build", "--quiet", "--tag", IMAGE, str(HERE))
    started = docker("run", "--detach", "--privileged", "--cgroupns=private", "--tmpfs=/run", IMAGE).strip()
    try:
        found = Machine(started)
        docker("cp", "--quiet", str(wheelhouse), f"{started}:/wheelhouse")
        found.run(BOOTED)
        yield found
    finally:
        docker("rm", "--force", "--volumes", started)


def typed(first_word: str) -> str:
    """Return the block of the page that begins with a word."""
    texts = ("\n".join(line for _, line in lines) for _, lines in blocks(PAGE))
    (found,) = [text for text in texts if text.lstrip().startswith(first_word)]
    return found


def test_a_round_is_played_with_an_analyst_that_was_installed_by_the_page(
    machine: Machine, tmp_path: Path
) -> None:
    machine.run(typed("umask 022"))

    lead, other = Institution("lead", tmp_path / "lead"), Institution("b", tmp_path / "b")
    passphrase = tmp_path / "passphrase"
    passphrase.write_text(PASSPHRASE)
    secret = ("--passphrase-file", str(passphrase))
    url = f"https://{machine.address}:8443"
    lead.odc("consortium", "create", "On a machine", "--analyst", url, "--party", "lead", *secret)
    machine.put(lead.home / "analyst.invitation.json")

    operator, join, install, start, create = typed("odc_analyst() (").splitlines()
    machine.run(f"{operator}\n{join}")
    request = machine.get("/var/lib/odc-analyst/analyst-request.odc", tmp_path / "analyst-request.odc")
    lead.odc("consortium", "approve", "--request", str(request), "--yes", *secret)
    machine.put(lead.home / "analyst-certificate.pem")
    machine.run(f"{operator}\n{install}\n{start}")
    until_ready = "for _ in $(seq 60); do systemctl is-active odc-analyst && break; sleep 0.5; done"
    machine.run(until_ready)

    join_all(lead, [other], passphrase)
    for seed, one in enumerate((lead, other)):
        _write(one.home / "rows.csv", seed, 200)
    draft = lead.home / "terms.toml"
    drafting = ("terms", "draft", "rows.csv", "--label", "label", "--party", "lead", "--party", "b")
    lead.odc(*drafting, "--out", str(draft))
    machine.put(draft)
    machine.run(f"{operator}\n{create}")
    playing = [(one, one.start("round", "rows.csv", "--yes")) for one in (lead, other)]
    for one, process in playing:
        one.finish(("round", "rows.csv"), process)
    other.odc("predict", "rows.csv", "--out", "predictions.csv")
    assert (other.home / "predictions.csv").stat().st_size > 0

    log = machine.run("journalctl --unit odc-analyst --no-pager")
    assert "Landlock" not in log  # which the server warns of where it is not allowed
    rated = machine.run("systemd-analyze security odc-analyst --no-pager | tail -1")
    assert "OK" in rated


def _write(path: Path, seed: int, count: int) -> None:
    pyarrow.csv.write_csv(rows(seed, count), path)
