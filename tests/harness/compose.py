"""The compose file of the demo, driven as a person does: by `docker compose`."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
HOSPITALS = tuple(f"hospital-{letter}" for letter in "abcde")
HOME = "/var/lib/odc"
WAIT_S = 600


def missing_engine() -> str:
    """Return why there is no engine to run containers, or nothing."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    for words in (("version", "--format", "{{.Server.Version}}"), ("compose", "version")):
        asked = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=60)
        if asked.returncode != 0:
            return f"`docker {' '.join(words)}` says: {asked.stderr.strip()[:200]}"
    return ""


@dataclass
class Project:
    """One compose project: its name, its files, and the environment the files are read with."""

    name: str
    files: Sequence[str] = ("docker-compose.yml",)
    settings: dict[str, str] = field(default_factory=dict)
    profiles: Sequence[str] = ()

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run `docker compose`; a failure is told with what it printed."""
        files = [word for name in self.files for word in ("--file", str(REPOSITORY / name))]
        files += [word for name in self.profiles for word in ("--profile", name)]
        done = subprocess.run(
            ["docker", "compose", "--project-name", self.name, *files, *words],
            env={**os.environ, **self.settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{_end(done.stderr)}")
        return done

    def up(self, *services: str) -> None:
        """Start services; when something fails, its words are in the error."""
        done = self.run("up", "--detach", *services, check=False)
        if done.returncode != 0:
            logs = self.run("logs", "--no-color", "--tail", "15", check=False).stdout
            raise AssertionError(f"{_end(done.stderr)}\n{logs.decode()}")

    def down(self) -> None:
        self.run("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def left_over(self) -> list[str]:
        """Containers, volumes and networks of this project that there still are."""
        label = f"label=com.docker.compose.project={self.name}"
        kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [
            line
            for kind in kinds
            for line in docker(*kind, "--filter", label, "--format", "{{json .}}").splitlines()
        ]

    def containers(self) -> dict[str, dict[str, Any]]:
        """What `docker inspect` says, by service."""
        found = self.run("ps", "--all", "--quiet").stdout.decode().split()
        inspected = json.loads(docker("inspect", *found))
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in inspected}

    def exit_code(self, service: str) -> int:
        """Wait until a service has ended, and return how."""
        (container,) = self.run("ps", "--all", "--quiet", service).stdout.decode().split()
        return int(docker("wait", container))

    def log(self, service: str) -> str:
        words = ("logs", "--no-color", "--no-log-prefix", service)
        return self.run(*words).stdout.decode()

    def file(self, service: str, path: str) -> bytes:
        """Read a file in a service's container or volume, whether it runs or not."""
        with tarfile.open(fileobj=io.BytesIO(self.run("cp", f"{service}:{path}", "-").stdout)) as archive:
            content = archive.extractfile(archive.next() or path)
        assert content is not None
        return content.read()

    def files_under(self, service: str, path: str) -> dict[str, bytes]:
        """Read all files below a directory of a service."""
        with tarfile.open(fileobj=io.BytesIO(self.run("cp", f"{service}:{path}", "-").stdout)) as archive:
            found = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
            return {name: content.read() for name, content in found.items() if content is not None}

    def python(self, service: str, source: str) -> subprocess.CompletedProcess[bytes]:
        """Run a little Python in a fresh container of a service, with its volumes and networks."""
        words = ("run", "--rm", "--no-deps", "--interactive=false", "--entrypoint", "python")
        return self.run(*words, service, "-c", source, check=False)


def _end(text: bytes) -> str:
    return text.decode(errors="replace")[-3000:]


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def until(is_so: Callable[[], bool], what: str, *, pause_s: float = 0.5) -> None:
    """Look until something is so; where looking itself takes a processor's time, seldom."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(pause_s)
