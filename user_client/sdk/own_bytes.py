"""Where the bytes of our part of a round went."""

from __future__ import annotations

from metering.client_traffic import Recorded, recorded
from metering.counts import Counts
from metering.explanation import (
    RoundExplanation,
    Transfer,
    anchor_transfer,
    downlink_transfer,
    explain_party,
    uplink_transfer,
)
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.terms import Terms
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk.session import Session


def explain_bytes(
    session: Session, directory: RoundDirectory, counts: Recorded | None = None
) -> RoundExplanation | None:
    """Return where they went, or None before we have the terms.

    ``counts`` is what stands in the traffic file, if somebody has read it: it grows with every round.
    """
    if not directory.holds(Terms):
        return None
    found = recorded(session.home.traffic_path) if counts is None else counts
    if found.counter is None:
        return None
    agreed = directory.load(Terms)
    up = down = Transfer()
    if directory.holds(UplinkManifest):
        up = uplink_transfer(agreed, *directory.load_signed(UplinkManifest))
    if directory.holds(DownlinkManifest):
        down = downlink_transfer(agreed, *directory.load_signed(DownlinkManifest))
    counted, party = found.of(directory.collaboration_id), session.membership.party
    explained = explain_party(
        party,
        counted,
        sum(found.of("").values(), Counts()),
        uplink=up,
        downlink=down,
        anchor=anchor_transfer(agreed, party, counted.get("anchor", Counts())),
    )
    return RoundExplanation((explained,), found.counter)
