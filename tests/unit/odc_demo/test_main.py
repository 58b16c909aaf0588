"""The command `odc-demo` where something is missing."""

from __future__ import annotations

import sys

import pytest

from odc_demo import __main__ as command


def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "odc_demo.play", raising=False)
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "odc-demo: error: the library tomli_w is not installed here",
        "odc-demo: hint: install the package with its extra: [demo]",
    ]


def test_a_table_needs_its_label_and_its_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["odc-demo", "--data", "t.csv", "--label", "ill"])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 2
    assert "--data needs --label and --site" in capsys.readouterr().err


@pytest.mark.parametrize(("model", "consents"), [("knn", True), ("logistic", False), ("auto", False)])
def test_all_hospitals_consent_to_a_model_with_rows_inside(model: str, consents: bool) -> None:
    play = pytest.importorskip("odc_demo.play")
    terms = {"table_schema": {"label_column": {}}, "model": {"kind": model}}
    assert play.consent_to(terms) == (["--accept-row-revealing-model"] if consents else [])
