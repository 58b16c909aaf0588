from __future__ import annotations

import pytest

from benchmarks.conformance import running
from benchmarks.conformance.mutants import MUTANTS, Mutant
from tests.harness.node_institution import require_node

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


def test_every_file_of_the_clients_tests_is_run() -> None:
    there = {path.name for path in (running.CLIENT / "test").glob("*.test.js")}
    about_the_tests = {"files.test.js"}
    assert there - about_the_tests == set(running.TESTS)


def test_a_sample_of_bugs_dies_and_a_harmless_change_lives() -> None:
    require_node()
    harmless = Mutant("http", "another pause", "2 ** attempt / 10", "2 ** attempt / 11")
    chosen = [mutant for mutant in MUTANTS if mutant.name in SAMPLE]
    assert len(chosen) == len(SAMPLE)
    found = running.measure([*chosen, harmless], workers=1)
    assert [row["bug"] for row in found.rows if not row["killed"]] == ["another pause"]
    (claim,) = found.claims
    assert (claim.id, round(claim.value * 6), claim.holds) == ("conformance_mutants_killed", 5, False)
