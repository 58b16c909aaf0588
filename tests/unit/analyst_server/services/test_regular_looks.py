from __future__ import annotations

import threading

import pytest

from analyst_server.services.regular_looks import RegularLooks

LIMIT_S = 30


def test_a_look_that_fails_is_logged_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    again, second = threading.Event(), threading.Event()
    made = 0

    def look() -> None:
        nonlocal made
        made += 1
        if made == 1:
            raise RuntimeError("database disk image is malformed")
        again.set()

    looks = RegularLooks(look, second.set, every_s=0.01)
    looks.start()
    assert again.wait(LIMIT_S)
    assert second.wait(LIMIT_S)
    looks.stop()
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "malformed" in caplog.text


def test_an_error_that_lasts_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "analyst_server.services.regular_looks")
    works = threading.Event()
    made = 0

    def look() -> None:
        nonlocal made
        made += 1
        if made in (1, 2, 3):
            raise ConnectionError("connection to server failed")
        if made == 4:
            raise RuntimeError("database disk image is malformed")
        if made == 6:
            works.set()

    looks = RegularLooks(look, every_s=0.001)
    looks.start()
    assert works.wait(LIMIT_S)
    looks.stop()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO"]
    assert "works again" in caplog.records[-1].message
