"""The one round that several modules search, while its server still runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.needles import Needles
from tests.harness.played import Played, needles_of, whole_round


@pytest.fixture(scope="package")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with whole_round(tmp_path_factory.mktemp("learns")) as found:
        yield found


@pytest.fixture(scope="package")
def must_stay(played: Played) -> Needles:
    """Every pattern that must not be at the analyst, nor in a log."""
    return needles_of(played)
