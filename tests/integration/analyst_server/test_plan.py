"""`odc-analyst plan` with a draft of terms; it opens no analyst."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analyst_server import cli


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_a_plan_names_what_no_draft_has_said() -> None:
    found = run("plan", "--rows", 5, "--latent-dim", 3, "--model-parameters", 10)
    assert (found.exit_code, "needs --parties, or --terms" in found.output) == (2, True)


NUMERIC = [{"kind": "numeric", "name": f"x{i}", "low": 0, "high": 1} for i in range(30)]


def draft_file(directory: Path, **changed: Any) -> Path:
    """Write a draft of terms for five institutions and thirty features."""
    parties = [f"hospital-{i}" for i in range(5)]
    schema = {"columns": NUMERIC, "label_column": {"name": "y", "classes": ["a", "b", "c"]}}
    anchor = {"kind": "haar", "rows": 30}
    content = {"title": "Five", "parties": parties, "lead": parties[0], "anchor": anchor, **changed}
    path = directory / "terms.json"
    path.write_text(json.dumps({"terms_schema": 2, "table_schema": schema, **content}))
    return path


OF_A_DRAFT = ("plan", "--rows", 400, "--model-parameters", 100, "--json")


def test_a_draft_of_terms_is_planned_as_it_is_and_with_fewer_dimensions(tmp_path: Path) -> None:
    path = draft_file(tmp_path, latent_dim=20, rep_dtype="f2", model={"kind": "averaged"})
    symbols = ("--parties", 5, "--features", 30, "--classes", 3, "--rep-dtype", "f2")
    for latent_dim, option in ((20, ()), (10, ("--latent-dim", 10))):
        found = json.loads(run(*OF_A_DRAFT, "--terms", path, *option).output)
        assert found == json.loads(run(*OF_A_DRAFT, *symbols, "--latent-dim", latent_dim).output)
        assert found["scenario"]["latent_dim"] == latent_dim


@pytest.mark.parametrize("labels", [8, 9])
def test_several_labels_are_bits_and_a_number_has_four_bytes(tmp_path: Path, labels: int) -> None:
    several = [{"name": f"y{number}", "absent": "0", "present": "1"} for number in range(labels)]
    for label, label_bytes in (
        ({"kind": "multilabel", "labels": several}, 1 if labels <= 8 else 2),
        ({"kind": "number", "name": "y", "low": 0, "high": 1}, 4),
    ):
        schema = {"columns": NUMERIC, "label_column": label}
        path = draft_file(tmp_path, latent_dim=20, model={"kind": "averaged"}, table_schema=schema)
        found = json.loads(run(*OF_A_DRAFT, "--terms", path).output)
        (line,) = (each for each in found["terms"] if each["what"] == "labels")
        assert line["ours_bytes"] == 5 * 400 * label_bytes


def test_a_draft_of_sums_is_planned(tmp_path: Path) -> None:
    sums = {"random_features": 16, "kernel_width": 1.5, "min_rows": 5, "max_rows": 99, "cohort": True}
    path = draft_file(tmp_path, latent_dim=46, model={"kind": "ridge"}, sums=sums)
    symbols = ("--uplink", "sums", "--parties", 5, "--features", 30, "--classes", 3)
    expected = run("plan", *symbols, "--random-features", 16, "--cohort", "--json")
    assert run("plan", "--terms", path, "--json").output == expected.output
    assert run("plan", "--terms", path, "--latent-dim", 3).exception.code == "input-error"


OF_A_ROUND = (*OF_A_DRAFT, "--parties", 5, "--features", 30, "--latent-dim", 12)


def took(*arguments: Any) -> dict[str, float | None]:
    return {each["name"]: each["seconds"] for each in predicted(*arguments)["phases"]}


def predicted(*arguments: Any) -> Any:
    return json.loads(run(*arguments).output)["predicted"]


def test_a_plan_predicts_time_and_memory_and_says_of_which_machine() -> None:
    found, measured = predicted(*OF_A_ROUND), predicted(*OF_A_ROUND, "--measure")
    assert all(each["seconds"] > 0 for each in found["phases"])
    assert all(each["mebibytes"] > 0 for each in found["peaks"])
    assert (found["rests_on"], measured["rests_on"]) == (
        "constants of the benchmarks' machine",
        "this machine, as measured now",
    )
    assert measured["probes"] != found["probes"]
    assert measured["peaks"] == found["peaks"]


def test_a_draft_is_predicted_as_far_as_there_are_laws(tmp_path: Path) -> None:
    drafts: list[tuple[dict[str, Any], set[str]]] = [
        ({}, set()),
        ({"model": {"kind": "logistic"}}, set()),
        ({"model": {"kind": "random-forest"}}, {"prepare", "train"}),
        ({"alignment": {"method": "odc"}}, {"align"}),
    ]
    for changed, without in drafts:
        path = draft_file(tmp_path, latent_dim=12, **{"model": {"kind": "averaged"}, **changed})
        found = took(*OF_A_DRAFT, "--terms", path)
        assert {name for name, seconds in found.items() if seconds is None} == without
    longer = {"kind": "averaged", "epochs": 40}
    short, long = (
        took(*OF_A_DRAFT, "--terms", draft_file(tmp_path, latent_dim=12, model=model))["train"]
        for model in ({"kind": "averaged"}, longer)
    )
    assert short is not None
    assert long is not None
    assert long > short


def test_a_plan_of_sums_predicts_nothing() -> None:
    assert predicted("plan", "--uplink", "sums", "--parties", 5, "--features", 30, "--json") is None


@pytest.mark.parametrize("said", [("--features", 30), ("--rep-dtype", "i1"), ("--cohort",), ("--classes", 2)])
def test_what_a_draft_says_is_not_said_twice(tmp_path: Path, said: tuple[Any, ...]) -> None:
    path = draft_file(tmp_path, latent_dim=20)
    assert run(*OF_A_DRAFT, "--terms", path, *said).exception.code == "input-error"
