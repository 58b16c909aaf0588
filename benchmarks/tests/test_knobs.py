from __future__ import annotations

from typing import Any

import pytest

from analyst_server.training.logistic import Logistic
from analyst_server.training.models import Model, fit
from benchmarks import knobs
from benchmarks.data import digits
from user_client.sdk.privacy import PrivacyOptions


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    def logistic(_model: Model, *given: Any) -> Any:
        return fit(Logistic(), *given)

    monkeypatch.setattr(knobs, "fit", logistic)


@pytest.mark.usefixtures("quick")
def test_each_option_costs_and_hides_what_it_is_said_to() -> None:
    plain, dropped, noisy = (
        knobs.play(digits(), options, 0)
        for options in (
            PrivacyOptions(),
            PrivacyOptions(drop_below=0.15),
            PrivacyOptions(epsilon=100, delta=1e-5, clip=6),
        )
    )
    assert plain["rows_left"] == noisy["rows_left"] == 1 > dropped["rows_left"] > 0.5
    assert plain["collusion_error"] < dropped["collusion_error"] < noisy["collusion_error"]
    assert plain["accuracy"] > 0.9
    assert plain["accuracy"] > noisy["accuracy"]
