"""A sample of the crash points; `make campaign` plays all of them.

The same seed draws the same sample, as far as the points are the same: ``ODC_CAMPAIGN_SEED`` sets another.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign.campaign import Campaign, Outcome, campaign, drawn, runs
from tests.faults.campaign.disk import Disk
from tests.faults.campaign.play import Game
from tests.faults.campaign.points import Point
from tests.faults.campaign.report import Report
from tests.faults.campaign.world import ANALYST

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="what stands between a process and its disk is compiled, for Linux",
)


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[Campaign]:
    with campaign() as found:
        yield found


@needs_compiler
def test_a_fault_at_any_point_loses_doubles_leaves_and_blocks_nothing(undisturbed: Campaign) -> None:
    seed = int(os.environ.get("ODC_CAMPAIGN_SEED", "16"))
    outcomes = [undisturbed.run(point, fault) for point, fault in drawn(undisturbed.points, seed)]
    failed = [str(outcome) for outcome in outcomes if outcome.reached and not outcome.is_well]
    assert not failed, "\n".join([f"seed {seed}", *failed])
    assert sum(outcome.reached for outcome in outcomes) >= len(outcomes) / 2


@needs_compiler
def test_the_points_are_those_of_every_library_in_all_three_places(undisturbed: Campaign) -> None:
    found = {(point.place, point.kind, point.name) for point in undisturbed.points}
    assert {
        ("server", "commit", "odc.sqlite-wal"),  # SQLite's
        ("server", "rename", "blobs/*/uplinks/*"),
        ("server", "answer", "server"),
        ("client", "request", "client"),  # OpenSSL's
        ("client", "fsync", "collaborations/*"),
        ("compute", "fsync", "blobs/*/work-*"),
    } <= found


@needs_compiler
def test_the_folder_of_uplinks_is_durable_before_a_request_is_taken(undisturbed: Campaign) -> None:
    """Otherwise a power cut takes it away, and every uplink in it whose receipt was signed."""
    with Game(undisturbed.world) as game:
        game.start("accept-lead")
        assert Path("blobs") in undisturbed.world.controller.disks[ANALYST].durable()


def test_a_point_is_read_as_it_was_printed() -> None:
    point = Point("server", "contribute", "rename", "blobs/*/uplinks/*", 2)
    assert Point.parse(str(point)) == point


def test_a_stopped_campaign_goes_on_with_what_is_missing_and_what_did_not_end_well(tmp_path: Path) -> None:
    points = [Point("server", "contribute", "answer", "server", nth) for nth in (1, 2)]
    stopped = Report(set(points))
    well, lost, unreached = (Outcome(str(points[0]), fault) for fault in ("kill-before", "cut", "torn"))
    for outcome in (well, lost):
        outcome.reached = outcome.finished = True
    lost.acknowledged_lost.append("a receipt")
    for outcome in (well, lost, unreached):
        stopped.add(outcome)
    stopped.write(tmp_path / "campaign.json")

    report = Report.read(tmp_path / "campaign.json")
    assert report.summary() == stopped.summary()
    assert report.summary()["rounds_begun"] == 2
    assert report.failed == [lost]
    missing = report.missing(runs(points))
    assert missing == [run for run in runs(points) if run != (points[0], "kill-before")]

    mended = Outcome(lost.point, lost.fault, reached=True, finished=True)
    report.add(mended)
    assert report.failed == []
    assert report.summary()["rounds_begun"] == 2


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    path.write_text('{"points": 3}')
    with pytest.raises(ValueError, match="no report of a campaign"):
        Report.read(path)


def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    disk = Disk(tmp_path)
    (tmp_path / "old").write_bytes(b"new")
    for name in ("synced", "nameless"):
        (tmp_path / name).write_bytes(b"content")
        disk.note("create", tmp_path / name)
    disk.note("fsync", tmp_path / "synced")
    (tmp_path / "nameless").unlink()
    disk.note("fsync", tmp_path)
    (tmp_path / "nameless").write_bytes(b"content")
    disk.note("create", tmp_path / "nameless")
    disk.note("fsync", tmp_path / "nameless")
    disk.cut()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "old": b"old",
        "synced": b"content",
    }


def test_a_power_cut_brings_back_a_name_whose_removal_was_not_synced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    disk = Disk(tmp_path)
    path.unlink()
    path.write_bytes(b"new")  # perhaps with the inode of the old one
    disk.note("create", path)
    disk.note("fsync", path)
    disk.cut()
    assert path.read_bytes() == b"old"
    path.unlink()
    disk.note("fsync", tmp_path)
    disk.cut()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_durable_stays_so_on_a_copy_of_the_disk(tmp_path: Path) -> None:
    first = tmp_path / "first"
    (first / "folder").mkdir(parents=True)
    (first / "folder" / "removed").write_bytes(b"still there")
    (first / "changed").write_bytes(b"old")
    disk = Disk(first)
    (first / "folder" / "removed").unlink()
    (first / "changed").write_bytes(b"new")
    (first / "unsynced").mkdir()
    disk.note("mkdir", first / "unsynced")
    (first / "unsynced" / "file").write_bytes(b"content")
    for path in (first / "unsynced" / "file", first / "unsynced"):
        disk.note("fsync", path)
    shutil.copytree(first, tmp_path / "second")

    copy = Disk(tmp_path / "second", disk.durable())
    copy.cut()
    found = {path.relative_to(tmp_path / "second"): path for path in (tmp_path / "second").rglob("*")}
    assert {name: path.read_bytes() for name, path in found.items() if path.is_file()} == {
        Path("folder/removed"): b"still there",
        Path("changed"): b"old",
    }
    assert Path("unsynced") not in found


def test_a_directory_without_its_name_takes_its_files_with_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    disk.note("mkdir", inner)
    (inner / "file").write_bytes(b"content")
    disk.note("create", inner / "file")
    disk.note("fsync", inner / "file")
    disk.note("fsync", inner)
    disk.cut()
    assert list(tmp_path.iterdir()) == []


def test_a_torn_disk_has_every_name_and_of_each_file_what_it_got_to(
    tmp_path: Path,
) -> None:
    seen = set()
    for seed in range(20):
        path = tmp_path / str(seed) / "file"
        path.parent.mkdir()
        path.write_bytes(b"durable")
        disk = Disk(path.parent)
        path.write_bytes(b"durable and not")
        disk.tear(random.Random(seed))
        seen.add(path.read_bytes())
    assert seen == {b"durable", b"durable and not", b"durable and", b"durable" + bytes(8)}
