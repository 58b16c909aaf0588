from __future__ import annotations

from typing import get_args

import pytest

from analyst_server.alignment.suspicion import Assumption
from analyst_server.pages.drawn import alignment_charts
from analyst_server.pages.report import findings
from analyst_server.services.report_answers import AlignmentReport, Suspicion
from protocol.suspicions import LIKELY_CAUSE

ALIGNMENT: AlignmentReport = {
    "concordance_gap": 0.25,
    "party_gaps": {"hospital-a": 0.25, "hospital-b": 0.125},
    "span_angles": {"hospital-a": (10.2, 80.4), "hospital-b": (5.0, 30.0)},
    "suspicions": [],
    "left_out": [],
}


def suspected(rows: int = 40, left_out: bool = True) -> AlignmentReport:
    suspicion: Suspicion = {
        "party": "hospital-b",
        "assumption": "orthonormal",
        "evidence": "has singular values from 2 to 2, all 1 expected",
        "rows": rows,
    }
    return {**ALIGNMENT, "suspicions": [suspicion], "left_out": ["hospital-b"] * left_out}


def test_the_likeliest_cause_of_every_assumption_is_a_basis_of_another_law() -> None:
    assert all(cause.startswith("its basis ") for cause in LIKELY_CAUSE.values())
    assert all('docs/protocol.md, "The secret basis"' in cause for cause in LIKELY_CAUSE.values())


def test_every_assumption_has_its_words() -> None:
    assert set(LIKELY_CAUSE) == set(get_args(Assumption))


def test_the_party_furthest_from_the_others_is_named_with_its_angles() -> None:
    (line,) = findings(ALIGNMENT)
    assert line == (
        "concordance gap: 2.50e-01; furthest from the others: hospital-a"
        " (2.50e-01, principal angles: median 10, largest 80 degrees)"
    )


def test_where_all_agree_nobody_is_furthest() -> None:
    assert findings({**ALIGNMENT, "concordance_gap": 0.0}) == ["concordance gap: 0.00e+00"]


def test_a_round_of_an_earlier_version_has_no_angles() -> None:
    earlier: AlignmentReport = {
        "concordance_gap": ALIGNMENT["concordance_gap"],
        "party_gaps": ALIGNMENT["party_gaps"],
    }
    assert findings(earlier) == ["concordance gap: 2.50e-01"]


def test_a_suspicion_names_party_evidence_and_assumption() -> None:
    assert findings(suspected())[1] == (
        "suspected: hospital-b: its anchor representation has singular values from 2 to 2, all 1 expected;"
        ' its basis does not have orthonormal columns (docs/protocol.md, "The secret basis"),'
        " or what it sent is damaged"
    )


@pytest.mark.parametrize(
    ("alignment", "says"),
    [
        (suspected(), "its 40 rows did not train the model"),
        (suspected(left_out=False), "its 40 rows trained the model, as the settings allow"),
        (suspected(rows=0, left_out=False), "it sent no rows"),
    ],
    ids=["left out", "kept", "without rows"],
)
def test_a_suspicion_says_what_it_costs(alignment: AlignmentReport, says: str) -> None:
    cost = findings(alignment)[2]
    assert cost.startswith("  cost: it did not shape the common representation")
    assert says in cost
    assert cost.endswith("its predictions may be worthless")


def test_the_spectrum_of_each_party_is_drawn_those_of_suspected_ones_first_and_apart() -> None:
    spectra = {f"clinic-{number:02}": [1.0, 1.0] for number in range(12)} | {"hospital-b": [2.0, 1.5]}
    (drawn,) = [one for one in alignment_charts({**suspected(), "spectra": spectra}) if "Spectrum" in one]
    assert "3 more parties are not drawn" in drawn
    assert drawn.index("hospital-b from 2 to 1.5") < drawn.index("clinic-00 from 1 to 1")
    assert drawn.count("<polyline") == 2 * 10  # a sample in the legend, and the curve
    assert drawn.count('stroke="var(--one)"') == 2
    assert "share of 2" in drawn
    assert not any("Spectrum" in one for one in alignment_charts(suspected()))
