from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.ingest import experiment

TOTAL_BYTES = 8 * 10**6


def test_every_server_gets_the_same_uplinks_in_every_pair(tmp_path: Path) -> None:
    found = experiment.measure(tmp_path, TOTAL_BYTES, 2)
    turns = [(row["pair"], row["server"]) for row in found.rows if "server" in row]
    assert turns == [
        (0, "discarding"),
        (0, "storing"),
        (0, "checking"),
        (0, "analyst"),
        (1, "analyst"),
        (1, "checking"),
        (1, "storing"),
        (1, "discarding"),
    ]
    for row in found.rows[:-1]:
        assert row["mb_per_s"] * row["seconds"] == pytest.approx(TOTAL_BYTES / 1e6, rel=0.01)
        assert row["server_processor_s"] > 0
    assert [claim.id for claim in found.claims] == [
        "ingest_vs_tls_sink",
        "ingest_vs_checking_sink",
        "ingest_vs_discarding_sink",
        "checking_vs_tls_sink",
        "server_rss_growth_mb",
    ]
    for kind in ("checking", "storing"):
        assert not list((tmp_path / kind).iterdir())  # what was stored is removed between the turns


def test_the_claims_are_medians_of_pairs_and_the_growth_to_the_peak() -> None:
    found = report.Report("ingest")
    for pair, (analyst, storing) in enumerate([(2.0, 1.0), (4.0, 3.0), (10.0, 9.0)]):
        servers = {"analyst": analyst, "checking": 2 * storing, "storing": storing, "discarding": 1.0}
        for server, seconds in servers.items():
            found.rows.append({"pair": pair, "server": server, "seconds": seconds})
    found.rows.append({"server_rss_mb": 100.0, "server_peak_mb": 150.0})
    experiment.add_claims(found)
    assert {claim.id: claim.value for claim in found.claims} == pytest.approx(
        {
            "ingest_vs_tls_sink": 0.75,
            "ingest_vs_checking_sink": 1.5,
            "ingest_vs_discarding_sink": 0.25,
            "checking_vs_tls_sink": 0.5,
            "server_rss_growth_mb": 52.4288,
        }
    )
    assert [claim.holds for claim in found.claims] == [False, True, True, True, True]
