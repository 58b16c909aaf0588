"""Disks and databases that fail: clients are told what to do, the operator is told where, nothing is lost."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from analyst_server.blobs import DirectoryBlobs
from analyst_server.store import Records, sqlite
from tests.harness.app import Api, slug
from tests.harness.world import HOSPITAL, make_uplink

MEDIA = {"content-type": "application/vnd.odc.v1+msgpack"}


def begin(api: Api) -> tuple[Any, str]:
    uplink = make_uplink(api.world.until_anchored().terms, HOSPITAL)
    path = f"/v1/collaborations/{api.world.id}/uplinks"
    opened = api.as_party(HOSPITAL).post(path, content=uplink.body, headers=MEDIA)
    return uplink, opened.headers["location"]


def append(api: Api, uplink: Any, location: str) -> Any:
    headers = {"content-type": "application/partial-upload", "upload-offset": "0", "upload-complete": "?0"}
    return api.as_party(HOSPITAL).patch(location, content=uplink.stream, headers=headers)


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        (errno.ENOSPC, 507, "disk-full"),
        (errno.EDQUOT, 507, "disk-full"),
        (errno.EROFS, 503, "storage-error"),
        (errno.EIO, 503, "storage-error"),
    ],
)
def test_a_disk_that_fails_is_told_to_the_client_and_its_path_to_the_operator(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    status: int,
    name: str,
) -> None:
    uplink, location = begin(api)

    def fail(*_: object) -> None:
        raise OSError(code, "the system's words", "/srv/blobs/x.part")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryBlobs, "append", fail)
        answer = append(api, uplink, location)
    assert (answer.status_code, slug(answer)) == (status, name)
    assert answer.headers.get("retry-after") == ("10" if status == 507 else None)
    assert "/srv" not in answer.text
    assert "/srv/blobs/x.part" in caplog.text
    assert "Traceback" not in caplog.text
    assert append(api, uplink, location).status_code == 204  # once there is space, it goes on


def test_another_error_of_the_system_is_still_unexpected(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    uplink, location = begin(api)

    def fail(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", "/srv/secret")

    monkeypatch.setattr(DirectoryBlobs, "append", fail)
    answer = append(api, uplink, location)
    assert (answer.status_code, slug(answer)) == (500, "unexpected")
    assert "secret" not in answer.text


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock of a database, as a backup or another program may."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def test_a_locked_database_is_busy_and_says_when_to_ask_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0)
    path = api.world.directory / "odc.sqlite"
    api.world.publish()
    api.world.records.dispose()  # connections that are open wait for longer
    accept = f"/v1/collaborations/{api.world.id}/acceptance"
    body = api.world.acceptance(HOSPITAL)
    with locked(path):
        answer = api.as_party(HOSPITAL).put(accept, content=body, headers=MEDIA)
    assert (answer.status_code, slug(answer)) == (503, "storage-busy")
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["retry_after_s"] == 5
    assert "database is locked" in caplog.text
    assert "Traceback" not in caplog.text
    assert api.as_party(HOSPITAL).put(accept, content=body, headers=MEDIA).status_code == 204


def test_a_question_that_is_wrong_is_a_fault_of_ours(tmp_path: Path) -> None:
    made = Records(f"sqlite:///{tmp_path / 'empty.sqlite'}")
    with pytest.raises(Exception, match="no such table") as caught, made.begin() as unit:
        unit.collaborations()
    assert not caught.type.__module__.startswith("protocol")
    made.dispose()
