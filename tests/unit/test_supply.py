"""What the images are built on is recorded, and what is known of the libraries is asked for truthfully."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "ab" * 32
DOCKER = """#!/bin/sh
echo "$@" >>"$0.asked"
case "$*" in
  "image inspect python:x") test -e "$0.pulled" ;;
  "pull --quiet python:x") touch "$0.pulled" ;;
  *RepoDigests*) printf '%s\\n' "$REPOSITORY_DIGEST" ;;
  *.Id*) echo "$IMAGE_ID" ;;
esac
"""
"""Stands for an engine."""


def base(
    tmp_path: Path, *, of_a_registry: str = "", image_id: str = DIGEST
) -> subprocess.CompletedProcess[str]:
    fake = tmp_path / "docker"
    fake.write_text(DOCKER)
    fake.chmod(0o700)
    path = f"{tmp_path}:{os.environ['PATH']}"
    engine = {"PATH": path, "REPOSITORY_DIGEST": of_a_registry, "IMAGE_ID": image_id}
    return subprocess.run(
        ["sh", str(ROOT / "deploy/docker/base.sh"), "python:x"],
        env=engine,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_image_of_a_registry_is_built_on_by_its_digest(tmp_path: Path) -> None:
    found = base(tmp_path, of_a_registry=f"python@{DIGEST}")
    assert found.stdout.split() == [
        *("--build-arg", f"PYTHON_IMAGE=python@{DIGEST}"),
        *("--build-arg", "BASE_NAME=python:x"),
        *("--build-arg", f"BASE_DIGEST={DIGEST}"),
    ]
    assert "pull --quiet python:x" in (tmp_path / "docker.asked").read_text()


def test_a_local_image_is_recorded_by_its_id_and_that_is_said(tmp_path: Path) -> None:
    found = base(tmp_path)
    assert f"BASE_DIGEST={DIGEST}" in found.stdout.split()
    assert "PYTHON_IMAGE=python:x" in found.stdout.split()
    assert "has no digest of a registry" in found.stderr


def test_an_engine_that_names_no_digest_builds_nothing(tmp_path: Path) -> None:
    found = base(tmp_path, image_id="")
    assert (found.returncode, found.stdout) == (1, "")


def test_the_dockerfile_records_what_it_was_given() -> None:
    text = (ROOT / "deploy/docker/Dockerfile").read_text()
    assert 'org.opencontainers.image.base.digest="${BASE_DIGEST}"' in text
    assert 'note_base.py /parts.cdx.json "${BASE_NAME}" "${BASE_DIGEST}"' in text


def test_the_list_of_parts_names_the_base(tmp_path: Path) -> None:
    parts = tmp_path / "parts.json"
    parts.write_text('{"metadata": {"properties": [{"name": "a", "value": "b"}]}, "components": []}')
    note = str(ROOT / "deploy/docker/note_base.py")
    subprocess.run([sys.executable, note, str(parts), "python:x", DIGEST], check=True)
    noted = json.loads(parts.read_text())["metadata"]["properties"]
    assert {one["name"]: one["value"] for one in noted} == {
        "a": "b",
        "org.opencontainers.image.base.name": "python:x",
        "org.opencontainers.image.base.digest": DIGEST,
    }


AUDITOR = """
import pathlib, sys
if not {report!r}:
    sys.exit("no such host")
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text({report!r})
"""
"""Stands for pip-audit: it writes a report, or complains."""
KNOWN = {"name": "numpy", "version": "2.0", "vulns": []}
UNKNOWN = {"name": "scipy", "skip_reason": "not found"}
WEAK = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "PYSEC-1"}]}


def audit(tmp_path: Path, *rows: object) -> subprocess.CompletedProcess[str]:
    report = json.dumps({"dependencies": rows}) if rows else ""
    (tmp_path / "pip_audit.py").write_text(AUDITOR.format(report=report))
    program = str(ROOT / "deploy/audit.py")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(
        [sys.executable, program, "a.lock"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("rows", "code", "says"),
    [
        ([KNOWN], 0, "a.lock: 1 libraries, no known weakness"),
        ([KNOWN, UNKNOWN], 0, "1 libraries, no known weakness; 1 are unknown to the index"),
        ([KNOWN, WEAK], 1, "jinja2 2.4.1: PYSEC-1"),
        ([UNKNOWN], 0, "NOT RUN: the index of advisories knows none of the libraries"),
        ([], 0, "NOT RUN: the index of advisories did not answer (no such host)"),
    ],
)
def test_an_audit_says_what_the_index_knew(tmp_path: Path, rows: list[object], code: int, says: str) -> None:
    found = audit(tmp_path, *rows)
    assert says in found.stdout
    assert found.returncode == code
