from __future__ import annotations

import pytest

from analyst_server.services import revoke
from protocol.errors import CertificateRefusedError, NotFoundError, NotPermittedError
from protocol.identity import TrustRoot
from tests.harness import certificates as fakes
from tests.harness.world import HOSPITAL, LEAD, World, identity


def revocations(*, number: int = 1) -> bytes:
    return fakes.revoke(fakes.shared_root(), fakes.shared_member().certificate, number=number)


def test_a_list_is_kept_and_shown(world: World) -> None:
    revoke.publish(world.analyst, identity(LEAD), revocations())
    assert revoke.newest(world.analyst) == revocations_of(world)


def revocations_of(world: World) -> bytes:
    with world.analyst.records.begin() as unit:
        row = unit.revocations()
    assert row is not None
    return row.der


def test_without_a_list_there_is_none_to_show(world: World) -> None:
    with pytest.raises(NotFoundError):
        revoke.newest(world.analyst)


def test_a_process_that_starts_again_holds_to_the_newest_list(world: World) -> None:
    for number in (1, 2):
        revoke.publish(world.analyst, identity(LEAD), revocations(number=number))
    world.analyst.root.revocations = None
    revoke.load(world.analyst)
    held: TrustRoot = world.analyst.root
    assert held.revocations is not None
    assert held.revocations.number == 2


def test_an_older_list_is_refused_and_the_newer_kept(world: World) -> None:
    revoke.publish(world.analyst, identity(LEAD), revocations(number=2))
    with pytest.raises(CertificateRefusedError, match="older"):
        revoke.publish(world.analyst, identity(LEAD), revocations(number=1))
    assert world.analyst.root.revocations is not None
    assert world.analyst.root.revocations.number == 2


@pytest.mark.parametrize("sender", [HOSPITAL, "analyst"])
def test_the_lead_alone_publishes_a_list(world: World, sender: str) -> None:
    with pytest.raises(NotPermittedError):
        revoke.publish(world.analyst, identity(sender), revocations())
    assert world.analyst.root.revocations is None
