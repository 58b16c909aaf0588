"""What a member of five exchanges besides its uplink, downlink and anchor, in a round as people play it."""

from __future__ import annotations

import pytest

from odc_demo.sitting import Exchanged, one_sitting

MOST_OF_A_ROUND = 16_384
MOST_WITH_JOINING = 32_768


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exchanged]:
    return one_sitting(tmp_path_factory.mktemp("sitting"))


@pytest.mark.parametrize("name", ["hospital-b", "hospital-c", "hospital-d", "hospital-e"])
def test_a_member_of_five_needs_few_bytes_for_control(exchanged: dict[str, Exchanged], name: str) -> None:
    assert exchanged[name].round_bytes <= MOST_OF_A_ROUND
    assert exchanged[name].total_bytes <= MOST_WITH_JOINING
