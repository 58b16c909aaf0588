"""Clients before a fake analyst: a sample of its scenarios, and a client that believes everything.

``ODC_FAKE_ANALYST_SEED`` draws another sample; `make conformance` plays all scenarios with both clients.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.harness.node_institution import commands_of_the_example, missing_node

SAMPLE = 8
SEED = os.environ.get("ODC_FAKE_ANALYST_SEED", "17")


def tried(*words: str) -> tuple[int, dict[str, Any]]:
    """Run the command and return its exit code and what it found."""
    command = [sys.executable, "-m", "fake_analyst", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def passes(*words: str) -> None:
    code, found = tried("--sample", str(SAMPLE), "--seed", SEED, *words)
    wrong = [one for one in found["scenarios"] if one["outcome"] == "failed"]
    assert (code, wrong) == (0, [])
    assert found["passed"] + found["advised"] + found["skipped"] == SAMPLE
    assert found["passed"] >= SAMPLE - 2


def test_odc_believes_no_lie_of_a_sample() -> None:
    passes()


@pytest.mark.skipif(missing_node() is not None, reason=missing_node() or "")
def test_nor_does_the_client_in_node() -> None:
    passes(*commands_of_the_example())


def test_a_client_that_believes_everything_is_found_out() -> None:
    """It joins by `odc`, and takes for done what it never asks for."""
    join = f"--join={sys.executable} -m user_client join {{invitation}}"
    home, steps = "--env=ODC_HOME={home}", [f"--{step}=true" for step in ("accept", "contribute", "receive")]
    only = ("--only", "terms-by-an-institution", "--only", "forked-ledger")
    code, found = tried(join, home, *steps, *only)
    assert code == 4
    details = {one["name"]: one["detail"] for one in found["scenarios"]}
    assert details["terms-by-an-institution"] == "it never asked for what was lied about, only for: nothing"
    assert details["forked-ledger"] == ("`accept` ended with 0, and nothing came of it, although nobody lied")
