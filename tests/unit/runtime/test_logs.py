from __future__ import annotations

import json
import logging
import sys

from runtime.logs import FIELDS, JsonLines, Lines

FORGED = "party \u200bhospital\n2026-01-01 INFO all is well\t\x1b[2J"


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord(
        "analyst_server.api", logging.WARNING, "x.py", 1, "refused: %s", (message,), None
    )
    setattr(made, FIELDS, fields)
    return made


def test_no_message_writes_a_line_of_its_own() -> None:
    line = Lines("%(levelname)s %(message)s").format(record(FORGED))
    assert line == (
        "WARNING refused: party <U+200B>hospital<U+000A>2026-01-01 INFO all is well<U+0009><U+001B>[2J"
    )


def test_a_traceback_stays_below_its_line() -> None:
    made = record("x")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert Lines("%(message)s").format(made).startswith("refused: x\nTraceback")
    assert Lines("%(message)s").format(made).endswith("\nValueError: why")
    assert "ValueError: why" in json.loads(JsonLines().format(made))["traceback"]


def test_a_record_is_one_json_object_with_its_fields() -> None:
    line = JsonLines().format(record(FORGED, party="hospital-a", status=403))
    assert "\n" not in line
    assert "\u200b" not in line
    content = json.loads(line)
    assert content.pop("time").endswith("+00:00")
    assert content == {
        "level": "warning",
        "logger": "analyst_server.api",
        "message": f"refused: {FORGED}",
        "party": "hospital-a",
        "status": 403,
    }
