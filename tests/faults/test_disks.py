"""Disks that are full and disks that cannot be written, for real: file systems of a server of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odc_demo.actors import CommandError
from protocol.errors import DiskFullError, StorageError
from protocol.messages import UplinkManifest
from protocol.operations import BEGIN_UPLINK
from tests.harness.consortium import Consortium, consortium, rows
from user_client.sdk import Session

IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
LARGE = {"features": 20, "latent_dim": 20, "anchor": {"kind": "haar", "rows": 20}}


def can_mount() -> bool:
    tried = [*IN_A_NAMESPACE, "mount -t tmpfs none /mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(
    not can_mount(), reason="file systems can only be mounted on Linux, in a namespace"
)


def after(mount: str) -> tuple[str, ...]:
    """Return what is put before a command, so that it runs with a file system of its own."""
    return (*IN_A_NAMESPACE, f'{mount}; exec "$@"', "sh")


def read_only(directory: Path) -> str:
    return f"mount --bind '{directory}' '{directory}'; mount -o remount,bind,ro '{directory}'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("disks"), "lead-hospital", "hospital-b") as found:
        yield found


@pytest.fixture(autouse=True)
def put_in_order(made: Consortium) -> Iterator[None]:
    """Whatever became of a test, the next one finds a server on a disk that works."""
    yield
    made.analyst.stop()
    made.analyst.prefix = ()
    made.analyst.start()


def small(blobs: Path, size: str) -> str:
    """Return what puts a small disk in the place of the arrays, with the id that tells it from no disk."""
    mount = f"mount -t tmpfs -o size={size} none '{blobs}'"
    return f"id=$(cat '{blobs}/store-id'); {mount}; printf %s \"$id\" > '{blobs}/store-id'"


def serve_on(made: Consortium, mount: str) -> None:
    made.analyst.stop()
    made.analyst.log_path.unlink(missing_ok=True)  # where the server says that it is up
    made.analyst.prefix = after(mount)
    made.analyst.start()


def test_a_full_disk_at_the_analyst_is_told_and_the_uplink_goes_on_when_there_is_space(
    made: Consortium,
) -> None:
    found, blobs = made.anchored(**LARGE), made.analyst.data_dir / "blobs"
    blobs.mkdir(exist_ok=True)
    hospital = made.sessions["hospital-b"]
    hospital.round(found).prepare(rows(3, 85_000, features=20))
    serve_on(made, small(blobs, "80m"))
    _, manifest = hospital.round(found).directory.load_signed(UplinkManifest)
    hospital.connection.ask(BEGIN_UPLINK, manifest, collaboration_id=found)  # while there is space
    as_the_server_sees_it = Path(f"/proc/{made.analyst.server.pid}/root{blobs}")  # type: ignore[union-attr]  # it runs
    (as_the_server_sees_it / "something-else").write_bytes(bytes(77 * 2**20))
    with pytest.raises(CommandError) as caught:
        made.institution("hospital-b").odc("contribute", "--yes", "-c", found)
    assert caught.value.exit_code == 8
    assert "odc: error: the analyst's disk is full" in caught.value.stderr
    assert f"odc: hint: {DiskFullError.hint}" in caught.value.stderr
    assert "No space left on device" in made.log()
    assert "Traceback" not in made.log()
    made.analyst.stop()
    made.analyst.prefix = ()
    made.analyst.start()
    made.sessions["hospital-b"].round(found).contribute()
    made.contribute("lead-hospital", found, rows(0, 40, features=20))
    made.wait_for(found, "released")


def test_an_uplink_that_finds_no_space_is_refused_before_it_begins(made: Consortium) -> None:
    found, blobs = made.anchored(**LARGE), made.analyst.data_dir / "blobs"
    blobs.mkdir(exist_ok=True)
    made.sessions["hospital-b"].round(found).prepare(rows(3, 1000, features=20))
    serve_on(made, small(blobs, "3m"))
    home = made.sessions["hospital-b"].home.path
    with (
        Session(home, attempts=1) as once,
        pytest.raises(DiskFullError) as caught,
    ):  # it would ask for a minute
        once.round(found).contribute()
    assert "this uplink has 0.1 MB, and the analyst's disk has 3.1 MB left" in caught.value.detail
    assert made.state(found) == "anchored"


def test_a_server_on_a_disk_that_cannot_be_written_ends_with_two_lines(made: Consortium) -> None:
    made.analyst.stop()
    directory = made.analyst.data_dir
    made.analyst.prefix = after(read_only(directory))
    with pytest.raises(CommandError) as caught:
        made.analyst.run("serve", "--port", str(made.analyst.port))
    assert caught.value.exit_code == 8
    first, second = caught.value.stderr.splitlines()[-2:]
    assert first.startswith(f"odc-analyst: error: the disk of {directory}")
    assert "cannot be used: read-only file system" in first
    assert second == f"odc-analyst: hint: {StorageError.hint}"
    assert "Traceback" not in caught.value.stderr


def test_a_server_whose_workers_cannot_lock_their_files_ends_with_two_lines(made: Consortium) -> None:
    made.analyst.stop()
    workers = made.analyst.data_dir / "workers"
    made.analyst.prefix = after(f"mount -t tmpfs -o ro none '{workers}'")
    with pytest.raises(CommandError) as caught:
        made.analyst.run("serve", "--port", str(made.analyst.port))
    assert caught.value.exit_code == 8
    first, second = caught.value.stderr.splitlines()[-2:]
    assert first.startswith(f"odc-analyst: error: the disk of {workers}")
    assert "cannot be used: read-only file system" in first
    assert second == f"odc-analyst: hint: {StorageError.hint}"
    assert "Traceback" not in caught.value.stderr


def test_a_command_of_the_operator_on_such_a_disk_does_too(made: Consortium) -> None:
    found = made.publish()
    made.analyst.stop()
    directory = made.analyst.data_dir
    made.analyst.prefix = after(read_only(directory))
    with pytest.raises(CommandError) as caught:
        made.analyst.run("collaboration", "cancel", found, "--yes")
    assert caught.value.exit_code == 8
    assert "Traceback" not in caught.value.stderr
    assert "odc-analyst: error: the analyst's database cannot be used" in caught.value.stderr


def test_an_institution_whose_own_disk_cannot_be_written_is_told(made: Consortium) -> None:
    found = made.anchored(**LARGE)
    home = made.sessions["hospital-b"].home.path
    hospital = made.institution("hospital-b")
    hospital.prefix = after(read_only(home))
    with pytest.raises(CommandError) as caught:
        hospital.odc("terms", "accept", "-c", found)
    assert caught.value.exit_code == 8
    assert "cannot be used: read-only file system" in caught.value.stderr
