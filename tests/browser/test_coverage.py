"""No page, form or box of either side without a test that goes there in a browser."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.page_coverage import all_of
from tests.harness.pages_covered import COVERED

HERE = Path(__file__).parent


def test_a_test_visits_every_page_sends_every_form_and_ticks_every_box() -> None:
    assert set(COVERED) == all_of()


def test_every_test_that_is_named_exists() -> None:
    text = "\n".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert set(COVERED.values()) <= set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
