"""A member whose basis is not of the law in docs/protocol.md: what it, and everybody else, is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analyst_server.services import rounds
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.cli.main import app
from user_client.secret.basis import draw_secret_basis


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch, consortium: Consortium) -> Consortium:
    """A round in which the hospital's client halves its basis."""
    consortium.until_anchored()
    consortium.lead_round.prepare(consortium.table(0))
    consortium.lead_round.contribute()

    def halved(*given: Any, **options: Any) -> Any:
        return draw_secret_basis(*given, **options) / 2

    monkeypatch.setattr("user_client.sdk.privacy.draw_secret_basis", halved)
    consortium.hospital_round.prepare(consortium.table(1))
    consortium.hospital_round.contribute()
    consortium.compute()
    return consortium


def test_the_status_names_the_right_cause_first(half: Consortium) -> None:
    home = str(half.lead.home.path)
    half.lead.close()
    shown = CliRunner().invoke(app, ["--home", home, "status"])
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.output.split())
    assert f"suspected by the analyst: {HOSPITAL}: its basis does not have orthonormal columns" in said
    assert "its anchor representation has singular values from 0.5 to 0.5" in said
    assert "the model is trained without its rows" in said


def test_a_member_whose_rows_were_left_out_is_told_so_when_it_receives(
    half: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    rounds.release(half.analyst, half.id)
    with caplog.at_level(logging.WARNING):
        half.lead_round.receive()
    assert "without our rows" not in caplog.text
    with caplog.at_level(logging.WARNING):
        half.hospital_round.receive()
    assert "trained without our rows" in caplog.text


def test_every_member_finds_whose_rows_trained_the_model_in_the_signed_ledger(
    half: Consortium, tmp_path: Path
) -> None:
    assert half.lead_round.fetch_ledger()[1].trained_on is None
    rounds.release(half.analyst, half.id)
    for session in half.sessions:
        data, checked = session.round(half.id).fetch_ledger()
        assert checked.trained_on == (LEAD,)
        assert session.round(half.id).verify_ledger(data).trained_on == (LEAD,)
