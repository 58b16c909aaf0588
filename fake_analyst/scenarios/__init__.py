"""Every scenario, in the order in which a client meets them."""

from __future__ import annotations

from typing import Final

from fake_analyst.scenario import Scenario
from fake_analyst.scenarios import anchors, downlinks, joining, ledgers, lines, receipts, terms

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *joining.SCENARIOS,
    *terms.SCENARIOS,
    *lines.BEFORE_ANYTHING_IS_SIGNED,
    *ledgers.SCENARIOS,
    *anchors.SCENARIOS,
    *lines.WHILE_ROWS_ARE_SENT,
    *receipts.SCENARIOS,
    *downlinks.SCENARIOS,
    *lines.WHILE_THE_MODEL_COMES,
)
