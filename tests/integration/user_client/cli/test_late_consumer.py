"""A late consumer by its commands: what it is told to do next, from the release to its predictions."""

from __future__ import annotations

from analyst_server.services import latecomers
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc


def next_step(odc: Odc) -> str:
    """Return what the status tells the late consumer to do."""
    (line,) = (line for line in odc("status").out.splitlines() if line.startswith("  next: "))
    return line.removeprefix("  next: ")


def test_the_status_leads_a_late_consumer_to_its_predictions(odc: Odc) -> None:
    odc.consortium.until_joined().release_without(HOSPITAL)
    assert next_step(odc) == "odc terms accept"
    assert odc("terms", "accept").code == 0
    assert next_step(odc) == "wait until the lead has sealed the anchor for us: odc anchor share"
    odc("receive", home=LEAD)
    assert "  next: odc anchor share, for which a late consumer waits; then odc predict" in odc(home=LEAD).out
    assert f"anchor sealed for {HOSPITAL}" in odc("anchor", "share", home=LEAD).out
    assert "nobody" in odc("anchor", "share", home=LEAD).out
    assert next_step(odc).startswith("odc contribute TABLE")
    table = odc.consortium.table(5)
    assert odc("contribute", "--yes", table).code == 0
    assert next_step(odc) == "odc receive --wait 600"
    uplink = latecomers.claim(odc.consortium.analyst, "worker", 10)
    assert uplink is not None
    latecomers.compute(odc.consortium.analyst, uplink, "worker")
    assert next_step(odc).startswith("odc receive, then odc predict TABLE")
    assert odc("receive").code == 0
    assert odc("predict", table).code == 0


def test_a_member_that_is_no_lead_cannot_share_the_anchor(odc: Odc) -> None:
    odc.consortium.until_joined().release_without(HOSPITAL)
    odc("terms", "accept")
    assert f"only {LEAD} seals the anchor" in odc("anchor", "share").err
