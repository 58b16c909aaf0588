"""What the analyst's OpenAPI document says is so, for everybody: schemathesis finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.described import CALLERS, run

EXAMPLES = 3
"""Of each operation, besides those at the edges of its schemas; `make openapi` tries more."""
ANSWERED = {"nobody": 4, "lead-hospital": 20, "hospital-a": 22, "operator": 10}
"""How many operations at least have answered with success: a run that is only refused would find nothing."""


@pytest.mark.parametrize("caller", CALLERS)
def test_every_answer_is_described_whoever_asks(tmp_path: Path, caller: str) -> None:
    outcome = run(tmp_path, caller, EXAMPLES)
    assert not outcome.findings, "\n\n".join(outcome.findings)
    assert outcome.requests > 500
    assert len(outcome.answered) >= ANSWERED.get(caller, 4), sorted(outcome.answered)
