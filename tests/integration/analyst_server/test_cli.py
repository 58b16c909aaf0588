from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from click.testing import CliRunner

from analyst_server import __main__, cli, serving
from analyst_server.installation import note_stores
from analyst_server.services.stored import blob_key
from analyst_server.settings import Settings
from protocol import __version__
from protocol.errors import (
    CertificateRequiredError,
    InputError,
    NotFoundError,
    UnreadableFileError,
)
from runtime.terminal import exit_code
from tests.harness.certificates import NOW
from tests.harness.computing import claim, finish
from tests.harness.enrolments import invitation
from tests.harness.world import DRAFT, HOSPITAL, LEAD, World, make_terms, make_uplink

Run = Callable[..., Any]


def commands(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    command = command or cli.app
    found = [path]
    for name, inner in getattr(command, "commands", {}).items():
        found += commands(inner, (*path, name))
    return found


def leaves() -> set[tuple[str, ...]]:
    """Return the commands that do something, and not those that hold others."""
    found = commands()
    return {path for path in found if not any(other[: len(path)] == path for other in found if other != path)}


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli.app, [*path, "--help"])
    assert (result.exit_code, "Usage" in result.output) == (0, True)


RUN_UNTIL_INTERRUPTED = {("serve",), ("compute-worker",)}


@pytest.mark.parametrize("path", sorted(leaves() - RUN_UNTIL_INTERRUPTED), ids=" ".join)
def test_every_command_answers_machines(path: tuple[str, ...]) -> None:
    assert "--json" in CliRunner().invoke(cli.app, [*path, "--help"], env={"COLUMNS": "200"}).output


@pytest.mark.parametrize(
    "words",
    [
        *(("audit",), ("notify",), ("verify",), ("token", "list")),
        *(("collaboration", "list"), ("collaboration", "show", "0" * 32)),
    ],
    ids=" ".join,
)
def test_no_command_answers_from_other_records_than_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (tmp_path / "secret").write_text("whsec_" + "A" * 32)
    monkeypatch.setenv("ODC_ANALYST_WEBHOOK_URL", "https://hooks.example")
    monkeypatch.setenv("ODC_ANALYST_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    note_stores(Settings(data_dir=tmp_path, database_url="postgresql://db/odc"))
    result = CliRunner().invoke(cli.app, [*words, "--data-dir", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "records are in postgresql://db/odc" in result.exception.detail


def test_the_promised_commands_are_there() -> None:
    promised = {("collaboration", name) for name in ("create", "list", "show", "seal", "release", "report")}
    assert promised | {("serve",), ("join",), ("install",)} <= set(commands())


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(cli.app, ["version"]).output == f"odc-analyst {__version__}\n"
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"odc-analyst {__version__}\n"
    found = json.loads(CliRunner().invoke(cli.app, ["version", "--json"]).output)
    assert found == {"program": "odc-analyst", "version": __version__}


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_collaboration_is_created_from_a_file(run: Run, world: World, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"terms.{kind}"
    world.enrol(HOSPITAL)
    dump = {"toml": tomli_w.dumps, "json": json.dumps}[kind]
    draft = {name: value for name, value in json.loads(json.dumps(DRAFT)).items() if value is not None}
    for column in draft["table_schema"]["columns"]:
        del column["impute"]  # TOML has no null
    path.write_text(dump(draft))
    created = json.loads(run("collaboration", "create", path, "--json").output)
    assert created["state"] == "enrolling"
    (row,) = json.loads(run("collaboration", "list", "--json").output)
    assert row["collaboration_id"] == created["collaboration_id"]


def test_a_second_collaboration_of_the_same_title_is_noticed(run: Run, world: World, tmp_path: Path) -> None:
    path = tmp_path / "terms.json"
    world.enrol(HOSPITAL)
    path.write_text(json.dumps(DRAFT))
    first = run("collaboration", "create", path)
    assert "same title" not in first.output
    (row,) = json.loads(run("collaboration", "list", "--json").output)
    assert f"{row['collaboration_id']} has the same title" in run("collaboration", "create", path).output
    replaced = run("collaboration", "create", path, "--replaces", row["collaboration_id"]).output
    assert row["collaboration_id"] not in replaced


def test_a_file_that_is_no_draft_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "terms.toml"
    path.write_text("= nothing")
    assert run("collaboration", "create", path).exception.code == "unreadable-file"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_refused(run: Run, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "terms.toml"
    if content is not None:
        path.write_bytes(content)
    assert run("collaboration", "create", path).exception.code == "unreadable-file"


def test_without_collaborations_the_list_says_so(run: Run) -> None:
    assert run("collaboration", "list").output == "no collaborations yet\n"


def test_the_list_counts_the_uplinks(run: Run, world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    assert "collecting" in run("collaboration", "list").output
    assert " 1/2  Readmission" in run("collaboration", "list").output


def test_the_list_marks_terms_that_cannot_be_read_any_more(run: Run, world: World) -> None:
    world.until_anchored()
    assert "cannot be read" not in run("collaboration", "list").output
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(world.id)
        assert row is not None
        row.terms = row.terms[:100] + bytes(len(row.terms) - 100)  # as a bad disk gives it
    listed = run("collaboration", "list")
    assert listed.exit_code == 0
    assert f"{world.id}  anchored " in listed.output
    assert "Readmission (its terms cannot be read: upgrade this server" in listed.output
    assert "else restore a backup)" in listed.output
    assert json.loads(run("collaboration", "list", "--json").output)[0]["unreadable"] is True


def test_one_collaboration_is_shown_with_whom_it_waits_for(run: Run, world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    shown = run("collaboration", "show", world.id).output
    assert "uplink received, 30 rows" in shown
    assert f"waiting for {HOSPITAL}: odc contribute" in shown


def test_the_first_digits_of_an_id_are_enough(run: Run, world: World) -> None:
    world.until_anchored()
    assert run("collaboration", "show", world.id[:8]).output.startswith("Readmission: ")
    assert run("collaboration", "show", "0000").exception.code == "not-found"


def test_the_report_is_for_people_and_machines(run: Run, world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world)
    words = run("collaboration", "report", world.id).output
    assert "formula (3)" in words
    assert "concordance gap" in words
    assert json.loads(run("collaboration", "report", world.id, "--json").output)["state"] == "released"


def test_joining_writes_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "unix_now", lambda: NOW)
    (tmp_path / "i.json").write_text(invitation().to_json())
    out = tmp_path / "request.odc"
    arguments = ["join", str(tmp_path / "i.json"), "--data-dir", str(tmp_path / "d"), "--out", str(out)]
    result = CliRunner().invoke(cli.app, arguments)
    assert (result.exit_code, out.exists()) == (0, True)
    assert "odc consortium approve --request request.odc" in result.output


def test_a_setting_that_cannot_be_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["odc-analyst", "serve", "--data-dir", str(tmp_path), "--port", "70000"])
    with pytest.raises(SystemExit) as caught:
        __main__.main()
    assert caught.value.code == 3
    assert capsys.readouterr().err.startswith("odc-analyst: error: settings: ODC_ANALYST_PORT")


def test_a_server_may_be_started_before_its_certificate_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    certificate = tmp_path / "identity" / "certificate.pem"
    monkeypatch.setattr(serving, "serve", lambda _: found.append(certificate.exists()))
    certificate.parent.mkdir()

    def serve(wait: str) -> None:
        assert (
            CliRunner().invoke(cli.app, ["serve", "--data-dir", str(tmp_path), "--wait", wait]).exit_code == 0
        )

    serve("0.01")
    installing = threading.Timer(0.3, certificate.touch)
    installing.start()
    serve("60")
    installing.join()
    assert found == [False, True]


def test_a_server_in_the_wrong_directory_leaves_nothing_there(run: Run, tmp_path: Path) -> None:
    away = tmp_path / "away"
    refused = run("serve", "--data-dir", away)
    assert isinstance(refused.exception, CertificateRequiredError)
    assert not away.exists()


def test_an_error_ends_with_two_lines_and_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["odc-analyst", "collaboration", "list", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        __main__.main()
    assert caught.value.code == exit_code(CertificateRequiredError)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("odc-analyst: error: there is no certificate in")
    assert second.startswith("odc-analyst: hint: name the directory of an analyst with --data-dir, or begin")


PLAN = ("plan", "--parties", 100, "--rows", 1000, "--anchor-rows", 1000, "--features", 784,
        "--latent-dim", 100, "--model-parameters", "25e6", "--bits", 32)  # fmt: skip


def test_the_worked_example_of_the_paper_is_planned(run: Run) -> None:
    shown = run(*PLAN).output
    for figure in ("10,087,136,000", "10.1 GB", "p = 1: 20.0 GB a round", "p = 0.1: 5.044"):
        assert figure in shown


def test_a_plan_is_written_for_machines_and_as_a_page(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    found = json.loads(
        run(*PLAN, "--participation", 0.2, "--rep-dtype", "i1", "--html", page, "--json").output
    )
    assert found["total"]["formula_bytes"] == 10_087_136_000
    assert [one["participation"] for one in found["federated_averaging"]] == [0.2]
    assert "<svg" in page.read_text()


def test_a_plan_without_anchor_rows_takes_as_many_as_features(run: Run) -> None:
    found = json.loads(run(*PLAN[:5], *PLAN[7:], "--json").output)
    assert found["scenario"]["anchor_rows"] == 784


@pytest.mark.parametrize(
    "wrong", [("--latent-dim", 785), ("--model-parameters", "inf"), ("--rep-dtype", "i2")]
)
def test_a_plan_that_cannot_be_is_refused(run: Run, wrong: tuple[Any, ...]) -> None:
    assert run(*PLAN, *wrong).exception.code == "input-error"


PLAN_OF_SUMS = ("plan", "--uplink", "sums", "--parties", 5, "--features", 30)


def test_sums_are_planned_without_rows(run: Run) -> None:
    shown = run(*PLAN_OF_SUMS, "--random-features", 256, "--model-parameters", "1e5").output
    for figure in ("c 4 p (p + 1)", "1,676,200", "p = 289", "p = 1: 4.00 MB a round"):
        assert figure in shown
    found = json.loads(run(*PLAN_OF_SUMS, "--cohort", "--json").output)
    assert found["terms"][0]["ours_bytes"] == 5 * 4488
    assert found["scenario"]["cohort"]


def test_options_of_the_other_uplink_are_refused(run: Run) -> None:
    assert run(*PLAN_OF_SUMS, "--latent-dim", 3).exception.code == "input-error"
    assert run(*PLAN, "--cohort").exception.code == "input-error"


def test_a_plan_of_rows_names_what_it_needs(run: Run) -> None:
    found = run("plan", "--parties", 5, "--features", 30)
    assert (found.exit_code, "needs --rows" in found.output) == (2, True)


def test_a_page_that_cannot_be_written_is_said(run: Run, tmp_path: Path) -> None:
    found = run(*PLAN, "--html", tmp_path / "missing" / "plan.html")
    assert found.exception.code == "input-error"


def test_a_report_is_written_as_a_page(run: Run, world: World, tmp_path: Path) -> None:
    world.until_sealed()
    claim(world)
    finish(world)
    page = tmp_path / "report.html"
    assert world.terms.title in run("collaboration", "report", world.id, "--html", page).output
    assert f"<h1>{world.terms.title}</h1>" in page.read_text()


@pytest.mark.parametrize("replaced", ["ffff", "nonsense"])
def test_what_is_no_collaboration_is_not_replaced(run: Run, tmp_path: Path, replaced: str) -> None:
    (tmp_path / "terms.json").write_text(json.dumps(DRAFT))
    error = run("collaboration", "create", tmp_path / "terms.json", "--replaces", replaced).exception
    assert isinstance(error, NotFoundError)
    assert "collaboration list" in error.hint


@pytest.mark.parametrize(
    ("kind", "text"), [("json", "[1]"), ("json", "[" * 100_000), ("toml", "a = " + "[" * 9_000)]
)
def test_a_file_that_holds_no_terms_is_refused(run: Run, tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / f"terms.{kind}"
    path.write_text(text)
    assert isinstance(run("collaboration", "create", str(path)).exception, UnreadableFileError)


def test_the_operator_checks_what_is_stored(run: Run, world: World) -> None:
    world.until_sealed()
    assert run("verify").output == f"read 6 arrays, {2 * (240 + 32 + 30)} bytes: 0 damaged\n"
    with world.records.begin() as unit:
        key = blob_key(unit.uplinks_of(world.id, HOSPITAL)[0])
    (world.directory / "blobs" / key).write_bytes(b"")
    result = run("verify", "--json")
    assert isinstance(result.exception, UnreadableFileError)
    assert exit_code(result.exception) == 3
    assert {one["name"] for one in json.loads(result.output)["damaged"]} == {"rep", "anchor_rep", "labels"}
    assert f"uplink of {HOSPITAL}: labels, in blobs/{key}" in run("verify").output


def test_what_may_be_kept_no_longer_is_shown_and_erased(run: Run, world: World) -> None:
    assert "no terms limit" in run("purge").output
    world.terms = make_terms(retention_days=1)
    world.until_sealed()
    assert "sealed, kept: its terms say until" in run("purge", "--dry-run").output
    world.clock.forward(86_400)
    assert json.loads(run("purge", "--dry-run", "--json").output)[0]["ended"] is False
    assert world.state == "sealed"
    assert "cancelled, erased" in run("purge").output
    assert world.state == "cancelled"


def test_the_audit_names_the_user_of_a_command_and_has_a_line_for_each_step(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    world.publish()
    assert run("collaboration", "cancel", world.id).exit_code == 0
    lines = [json.loads(line) for line in run("audit", "--json").output.splitlines()]
    assert [(line["kind"], line["event"]) for line in lines] == [
        ("ledger", "publish terms"),
        ("ledger", "cancel"),
        ("act", "cancel"),
    ]
    assert lines[-1]["actor_kind"] == "host"
    assert lines[-1]["actor"] == "alice"
    assert "host alice" in run("audit").output


def test_a_time_that_is_none_is_refused_with_the_form_of_one(world: World, run: Run) -> None:
    refused = run("audit", "--since", "yesterday").exception
    assert isinstance(refused, InputError)
    assert "2026-11-24T08:00:00Z" in str(refused)
