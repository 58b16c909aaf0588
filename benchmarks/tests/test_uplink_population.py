from __future__ import annotations

import pytest

from benchmarks.report import Report
from benchmarks.uplink.population import DEFAULT, UNDEFENDED, Job, Population, add_claims, run
from user_client.privacy import lattices

WINE = Population("wine", 3, 2, 30)


@pytest.mark.skipif(not lattices.available(), reason="fpylll is not installed")
def test_dither_takes_from_every_attacker() -> None:
    bare, dithered = (run(Job(WINE, sent, 0), folder=None) for sent in (UNDEFENDED, DEFAULT))
    assert min(bare["duplicates_found"], bare["known_rows_located"]) >= 80
    for name in ("duplicates_found", "known_rows_located", "values_collusion"):
        assert dithered[name] < bare[name]
    report = Report("uplink", rows=[bare, dithered])
    add_claims(report)
    values = {claim.id: claim.value for claim in report.claims}
    assert values["duplicates_found_default"] == dithered["duplicates_found"]
    assert values["exact_rows_collusion_undefended"] == bare["exact_rows_collusion"]
