"""What a member is told and asked where the leading axes of its rows say little about the label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.in_process import Consortium, rows
from user_client.custody.round_directory import RECEIPT_FILE
from user_client.errors import SignalLossError


def faint(seed: int) -> dict[str, list[Any]]:
    """A table whose label follows the column that varies least."""
    rng = np.random.default_rng(seed)
    table = rows(seed, 200)
    sign = np.where(np.array(table["y"]) == "yes", 1, -1)
    table["x0"] = list(rng.uniform(-4, 4, 200))
    table["x1"] = list(rng.uniform(-3, 3, 200))
    table["x2"] = list(0.2 * sign + 0.05 * rng.standard_normal(200))
    return table


@pytest.fixture
def asked(consortium: Consortium) -> Consortium:
    return consortium.until_anchored(latent_dim=1, least_signal=0.6)


def test_rows_whose_leading_axes_say_little_about_the_label_are_not_sent_unasked(asked: Consortium) -> None:
    prepared = asked.hospital_round.prepare(asked.table(1, **faint(1)))
    assert prepared.signal is not None
    assert prepared.signal.kept < 0.3
    with pytest.raises(SignalLossError, match=r"hold 0\.\d\d of what our rows say") as caught:
        asked.hospital_round.contribute()
    assert "--accept-signal-loss" in caught.value.hint
    assert not (asked.directory_of(asked.hospital) / RECEIPT_FILE).exists()


def test_it_is_sent_if_a_person_accepts_that(asked: Consortium) -> None:
    asked.hospital_round.prepare(asked.table(1, **faint(1)))
    asked.hospital_round.contribute(accept_signal_loss=True)
    assert (asked.directory_of(asked.hospital) / RECEIPT_FILE).exists()
    asked.hospital_round.contribute()  # it is sent: nothing is asked any more


@pytest.mark.parametrize(
    ("terms", "table"),
    [
        ({"latent_dim": 1}, faint(1)),  # terms that do not ask
        ({"latent_dim": 2, "least_signal": 0.6}, rows(1)),
        ({"latent_dim": 1, "least_signal": 0.6}, {**rows(1), "y": ["no"] * 40}),  # it cannot tell
    ],
    ids=["no threshold", "enough is left", "one class"],
)
def test_otherwise_nobody_is_asked(consortium: Consortium, terms: Any, table: Any) -> None:
    consortium.until_anchored(**terms)
    consortium.hospital_round.prepare(consortium.table(1, **table))
    consortium.hospital_round.contribute()
    assert (consortium.directory_of(consortium.hospital) / RECEIPT_FILE).exists()


def test_what_was_measured_is_read_again(asked: Consortium) -> None:
    prepared = asked.hospital_round.prepare(asked.table(1, **faint(1)))
    assert asked.hospital_round.prepared == prepared
