"""The units of systemd, as systemd itself reads and rates them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analyst_server.settings import Settings

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
MOST_EXPOSED = 2.0
"""Of 10, which is a service without any protection."""


def systemd_analyze(*words: str) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["odc-analyst.service", "odc-serve.service"])
def test_a_unit_leaves_little_open(name: str) -> None:
    found = systemd_analyze("security", "--offline=true", "--no-pager", str(UNITS / name))
    rated = re.search(r"exposure level for \S+: ([0-9.]+)", found)
    assert rated is not None, found
    assert float(rated[1]) < MOST_EXPOSED


@pytest.mark.parametrize("name", ["odc-analyst.service", "odc-serve.service"])
def test_systemd_understands_every_line_of_a_unit(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    # programs and users of the machine that it is for are not on this one
    elsewhere = re.sub(r"(?m)^(User|Group|ExecStart)=.*\n", "", (UNITS / name).read_text())
    unit.write_text(f"{elsewhere}\n[Service]\nExecStart=/bin/true\n")
    assert systemd_analyze("verify", "--man=no", str(unit)).strip() == ""


def test_the_analyst_may_listen_where_its_settings_say() -> None:
    allowed = re.findall(r"(?m)^SocketBindAllow=ipv4:tcp:(\d+)$", (UNITS / "odc-analyst.service").read_text())
    assert str(Settings().port) in allowed


def test_a_compute_process_that_the_kernel_kills_ends_no_server() -> None:
    assert "OOMPolicy=continue" in (UNITS / "odc-analyst.service").read_text().splitlines()


def test_requests_may_end_before_the_server_is_killed() -> None:
    given = re.search(r"(?m)^TimeoutStopSec=(\d+)$", (UNITS / "odc-analyst.service").read_text())
    assert given is not None
    assert int(given[1]) > 2 * Settings().drain_s
