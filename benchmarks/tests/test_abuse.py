from __future__ import annotations

from pathlib import Path

from benchmarks.abuse import campaign, members
from benchmarks.abuse.attacks import ATTACKS


def test_under_every_attack_at_once_the_rounds_end_and_health_is_answered(tmp_path: Path) -> None:
    """Counts alone: times and memory are the claims of the benchmark, on a machine that does nothing else."""
    found = campaign.measure(tmp_path, 20)
    tried = {row["attack"]: row["tried"] for row in found.rows if "attack" in row}
    assert set(tried) == {*ATTACKS, *members.ATTACKS}
    assert min(tried.values()) > 0
    (rounds,) = (row for row in found.rows if "rounds" in row)
    assert rounds["rounds"] >= 2
    assert rounds["why"] == []
    (abused,) = (row for row in found.rows if row.get("server") == "abused")
    assert abused["questions"] > 0
    assert abused["longest_ms"] < 1000 * campaign.PATIENCE_S  # each was answered, however late
    claims = {claim.id: claim for claim in found.claims}
    assert set(claims) == {"abuse_health_p99_s", "abuse_rss_growth_mb", "abuse_rounds_failed"}
    assert claims["abuse_rounds_failed"].holds
