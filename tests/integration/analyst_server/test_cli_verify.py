"""`odc-analyst verify`: what it says of records that it cannot read, and how long it waits for a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from analyst_server import cli_options, cli_verify
from analyst_server.store.revisions import earlier_tables
from protocol.errors import InputError, StorageBusyError, UnreadableFileError
from runtime.waiting import look_until
from tests.harness.world import HOSPITAL, World

Run = Callable[..., Any]


def test_verify_names_what_it_cannot_read_and_checks_the_rest(run: Run, world: World) -> None:
    world.until_sealed()
    assert run("verify").exit_code == 0
    with world.records.begin(write=True) as unit:
        (uplink,) = unit.uplinks_of(world.id, HOSPITAL)
        uplink.manifest = uplink.manifest[:100]
    found = run("verify")
    assert "read 3 arrays" in found.output
    assert f"not checked, because it cannot be read here: {world.id}  uplink of {HOSPITAL}\n" in found.output
    assert found.exception.code == "older-server"
    assert "all else was checked; upgrade this server" in found.exception.hint


def fail(monkeypatch: pytest.MonkeyPatch, world: World, *errors: Exception) -> list[float]:
    """Let the analyst open only after some errors; return the pauses that are made meanwhile."""
    left, pauses = list(errors), list[float]()

    def opened(_settings: Any, **_options: Any) -> Any:
        if left:
            raise left.pop(0)
        return world.analyst

    monkeypatch.setattr(cli_options, "open_analyst", opened)
    monkeypatch.setattr(cli_verify, "look_until", partial(look_until, pause=pauses.append))
    return pauses


def test_verify_waits_for_a_server_that_upgrades_the_records(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.until_sealed()
    pauses = fail(monkeypatch, world, earlier_tables("0017"), StorageBusyError("the records are busy"))
    found = run("verify", "--wait", "300")
    assert (found.exit_code, len(pauses)) == (0, 2)
    assert "0 damaged" in found.output


def test_verify_waits_no_longer_than_it_was_told(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = fail(monkeypatch, world, *[earlier_tables("0017")] * 100)
    assert isinstance(run("verify", "--wait", "10").exception, InputError)
    assert sum(pauses) == 10
    pauses.clear()
    assert isinstance(run("verify").exception, InputError)
    assert pauses == []


def test_verify_does_not_wait_for_damage_to_go_away(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = fail(monkeypatch, world, UnreadableFileError("stores.json", "it is not what was written"))
    assert isinstance(run("verify", "--wait", "10").exception, UnreadableFileError)
    assert pauses == []
