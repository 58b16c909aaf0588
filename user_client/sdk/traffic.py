"""Where our own bytes went: what this institution counted, beside the paper's formulas."""

from __future__ import annotations

from metering.client_traffic import recorded
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
from user_client.custody.inventory import DOWNLINK_FILE, MANIFEST_FILE, TERMS_FILE
from user_client.sdk.session import Session


def explain_our_bytes(session: Session, collaboration_id: str) -> RoundExplanation | None:
    """Return where the bytes of our part of a round went, or None before we have its terms."""
    directory = session.home.collaboration(collaboration_id)
    found = recorded(session.home.traffic_path)
    if found.counter is None or not (directory / TERMS_FILE).exists():
        return None
    terms, _ = session.stored(collaboration_id, Terms, TERMS_FILE, "odc terms show")
    uplink = downlink = Transfer()
    if (directory / MANIFEST_FILE).exists():
        sent, signed = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
        uplink = uplink_transfer(terms, sent, signed)
    if (directory / DOWNLINK_FILE).exists():
        received, signed = session.stored(collaboration_id, DownlinkManifest, DOWNLINK_FILE, "odc receive")
        downlink = downlink_transfer(terms, received, signed)
    counted, party = found.of(collaboration_id), session.membership.party
    explained = explain_party(
        party,
        counted,
        sum(found.of("").values(), Counts()),
        uplink=uplink,
        downlink=downlink,
        anchor=anchor_transfer(terms, party, counted.get("anchor", Counts())),
    )
    return RoundExplanation((explained,), found.counter)
