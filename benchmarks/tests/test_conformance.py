from __future__ import annotations

import shutil

import pytest

from benchmarks.conformance import running
from benchmarks.conformance.mutants import MUTANTS, Mutant

SAMPLE = (
    "certificates: an older revocation list brings back",
    "downlink: parts of two versions are joined",
    "layout: marks of direction are allowed",
    "ledger: another ledger than before",
    "uplink: after a break from the start",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.name))
def test_each_bug_has_its_place_in_the_client(mutant: Mutant) -> None:
    source = (running.CLIENT / "src" / f"{mutant.module}.js").read_text()
    assert mutant.planted(source) != source


def test_a_bug_without_a_place_is_named() -> None:
    with pytest.raises(ValueError, match="http: gone: 0 places"):
        Mutant("http", "gone", "no such text", "").planted("")


def test_the_names_of_bugs_are_distinct() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no `node` (Debian: apt install nodejs)")
def test_a_sample_of_bugs_dies_and_a_harmless_change_lives() -> None:
    harmless = Mutant("http", "another pause", "2 ** attempt / 10", "2 ** attempt / 11")
    chosen = [mutant for mutant in MUTANTS if mutant.name in SAMPLE]
    assert len(chosen) == len(SAMPLE)
    found = running.measure([*chosen, harmless], workers=1)
    assert [row["bug"] for row in found.rows if not row["killed"]] == ["another pause"]
    (claim,) = found.claims
    assert (claim.id, round(claim.value * 6), claim.holds) == ("conformance_mutants_killed", 5, False)
