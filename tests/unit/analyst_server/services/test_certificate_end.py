from __future__ import annotations

import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from analyst_server.services.certificate_end import CertificateEnd
from tests.harness.certificates import NOW

DAY = 86_400


@pytest.mark.parametrize(
    ("days", "says"),
    [(31, []), (29, ["ends in 29 days"]), (1, ["ends in 1 days"]), (-1, ["has ended"])],
)
def test_it_is_said_in_the_last_month_and_afterwards(
    caplog: pytest.LogCaptureFixture, days: int, says: list[str]
) -> None:
    analyst: Any = SimpleNamespace(clock=lambda: NOW, certificate=ending(NOW + days * DAY))
    with caplog.at_level(logging.WARNING):
        CertificateEnd(analyst).look()
    assert len(caplog.messages) == len(says)
    assert all(words in said for words, said in zip(says, caplog.messages, strict=True))


def test_it_is_said_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([NOW, NOW + DAY - 1, NOW + DAY])
    analyst: Any = SimpleNamespace(clock=lambda: next(times), certificate=ending(NOW + 9 * DAY))
    found = CertificateEnd(analyst)
    for _ in range(3):
        found.look()
    assert len(caplog.messages) == 2


def ending(at: int) -> SimpleNamespace:
    return SimpleNamespace(not_valid_after_utc=datetime.fromtimestamp(at, UTC))
