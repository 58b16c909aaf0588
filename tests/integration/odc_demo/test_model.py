"""`odc-demo --model`: the demo as a person starts it, up to the terms that its lead proposes."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from analyst_server.services import prepare
from odc_demo import play
from odc_demo.actors import Analyst
from tests.harness.world import World


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "averaged"),
        (("--model", "logistic"), "logistic"),
        (("--model", "svm"), "svm"),
        (("--model", "auto"), "auto"),
    ],
)
def test_the_chosen_kind_of_model_is_in_the_terms_the_lead_proposes(
    words: tuple[str, ...], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead drafts with its real command; the analyst completes the draft, and then it is enough."""
    proposed: list[dict[str, Any]] = []

    def create(_analyst: Analyst, *asked: str) -> str:
        assert asked[:2] == ("collaboration", "create")
        proposed.append(tomllib.loads(Path(asked[2]).read_text()))
        raise RuntimeError("the terms have been proposed")

    monkeypatch.setattr(play, "found_consortium", lambda *_: None)
    monkeypatch.setattr(play, "join_all", lambda *_: None)
    monkeypatch.setattr(Analyst, "run", create)
    monkeypatch.setattr(sys, "argv", ["odc-demo", "--out", str(tmp_path / "out"), *words])
    assert play.main() == 1
    (draft,) = proposed
    world = World(tmp_path)
    terms = prepare.complete_terms(world.analyst, draft)
    world.records.dispose()
    assert terms.model.kind == kind
