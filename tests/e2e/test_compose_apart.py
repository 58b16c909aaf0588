"""One compose file per institution: each a project and a network of its own, meeting at an address."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from odc_demo.actors import free_port
from tests.harness.compose import Project, docker, until
from tests.harness.consortium import rows

pytestmark = pytest.mark.compose


class Place(Project):
    """A project with the one directory of its machine that its container sees."""

    def __init__(self, name: str, file: str, directory: Path, **settings: str) -> None:
        variable = "ODC_DROP" if file.startswith("analyst") else "ODC_DESK"
        super().__init__(name, (f"deploy/compose/{file}",), {variable: str(directory), **settings})
        self.service, self.directory = file.removesuffix(".yml"), directory
        directory.mkdir()
        directory.chmod(0o777)

    def __call__(self, *words: str, ends: int = 0) -> str:
        """Run a command of this place's image, and return what it printed."""
        options = ("--rm", "--no-deps", "--interactive=false")
        done = self.run("run", *options, self.service, *words, check=False)
        assert done.returncode == ends, done.stderr.decode()
        return done.stdout.decode()


def carry(name: str, source: Place, target: Place) -> None:
    """What an e-mail does in life; the file may be read by whoever has the directory."""
    shutil.copyfile(source.directory / name, target.directory / name)
    (target.directory / name).chmod(0o644)


@pytest.fixture(scope="module")
def round_between_places(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    top = tmp_path_factory.mktemp("apart")
    gateway = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
    port = str(free_port())
    analyst = Place(
        "odc-test-analyst", "analyst.yml", top / "drop", ODC_ANALYST_BIND=gateway, ODC_ANALYST_PORT=port
    )
    lead = Place("odc-test-lead", "hospital.yml", top / "lead")
    other = Place("odc-test-other", "hospital.yml", top / "other")
    try:
        for place in (analyst, lead, other):
            place.down()
            place.run("build")
        yield _play(analyst, lead, other, f"https://{gateway}:{port}")
    finally:
        for place in (analyst, lead, other):
            place.down()


def _play(analyst: Place, lead: Place, other: Place, address: str) -> dict[str, Any]:
    for seed, place in enumerate((lead, other)):
        pyarrow.csv.write_csv(rows(seed, 80), place.directory / "rows.csv")
    (lead.directory / "passphrase").write_text("only a test has this one")
    secret = ("--passphrase-file", "passphrase")

    lead("consortium", "create", "Apart", "--analyst", address, "--party", "hospital-a", *secret)
    carry("analyst.invitation.json", lead, analyst)
    analyst("join", "analyst.invitation.json")
    carry("analyst-request.odc", analyst, lead)
    lead("consortium", "approve", "--request", "analyst-request.odc", "--yes", *secret)
    carry("analyst-certificate.pem", lead, analyst)
    analyst("install", "analyst-certificate.pem")
    analyst.run("up", "--detach", "--wait")

    lead("consortium", "invite", "hospital-b")
    carry("hospital-b.invitation.json", lead, other)
    other("join", "hospital-b.invitation.json", ends=6)
    lead("consortium", "approve", "--yes", *secret)
    other("join")
    lead("terms", "draft", "rows.csv", "--label", "label", "--party", "hospital-a", "--party", "hospital-b")
    carry("terms.toml", lead, analyst)
    analyst("collaboration", "create", "terms.toml")
    for place in (lead, other):
        place("terms", "accept")
    lead("anchor", "create")
    for place in (lead, other):
        place("contribute", "--yes", "rows.csv")
    analyst.run("restart")  # as an operator may at any time
    until(lambda: '"released"' in analyst("collaboration", "list", "--json"), "the round is released")
    for place in (lead, other):
        place("receive")
        place("predict", "rows.csv")
        place("evaluate", "rows.csv", "--send")
    return {
        "predictions": [(place.directory / "predictions.csv").read_text() for place in (lead, other)],
        "networks": [one["NetworkSettings"]["Networks"] for one in analyst.containers().values()],
        "status": json.loads(other("status", "--json")),
        "report": json.loads(other("report", "--json")),
    }


def test_institutions_elsewhere_play_a_round_with_their_own_compose_files(
    round_between_places: dict[str, Any],
) -> None:
    assert [len(text.splitlines()) for text in round_between_places["predictions"]] == [81, 81]
    status = round_between_places["status"]
    assert status["party"] == "hospital-b"
    assert status["collaborations"][0]["state"] == "released"


def test_each_reads_what_the_other_has_gained(round_between_places: dict[str, Any]) -> None:
    scores = round_between_places["report"]["report"]["member_scores"]
    assert [score["party"] for score in scores] == ["hospital-a", "hospital-b"]
    assert {score["rows"] for score in scores} == {16}


def test_the_analyst_shares_no_network_with_them(round_between_places: dict[str, Any]) -> None:
    assert [list(networks) for networks in round_between_places["networks"]] == [["odc-test-analyst_default"]]
