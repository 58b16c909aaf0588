"""The demo with `--profile scale`: two analysts behind a balancer, PostgreSQL, S3 and Dask, in containers."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from odc_demo.actors import free_port
from tests.harness.compose import HOME, HOSPITALS, Project, docker, until

pytestmark = pytest.mark.compose

ANALYSTS = ("analyst", "analyst-2")
COMPUTE = ("compute-1", "compute-2")
ADDED = (
    "analyst-2",
    "balancer",
    "bucket",
    "postgres",
    "s3",
    "scale-report",
    "scale-settings",
    "scheduler",
    *COMPUTE,
)
HOLD_OUT_ROWS = 171
S3_IMAGE = "ceph-s3:18"
SECRET_BYTES = 24


@pytest.fixture(scope="module")
def scaled(images: None) -> Iterator[Project]:
    """The demo after its round, in which PostgreSQL and S3 were restarted."""
    there = subprocess.run(["docker", "image", "inspect", S3_IMAGE], capture_output=True, timeout=60)
    if there.returncode != 0:
        reason = f"no image of an S3 server, {S3_IMAGE}"
        if os.environ.get("ODC_REQUIRE_S3"):
            pytest.fail(f"ODC_REQUIRE_S3 is set, but there is {reason}")
        pytest.skip(reason)
    ports = {name: str(free_port()) for name in ("ODC_DEMO_PORT", "ODC_DEMO_BALANCER_PORT")}
    project = Project("odc-test-scale", settings=ports, profiles=["scale"])
    project.down()
    try:
        project.run("build", "balancer")
        play(project)
        yield project
    finally:
        project.down()
    assert project.left_over() == []


def play(project: Project) -> None:
    """Play the round; as soon as one uplink is acknowledged, both stores are restarted."""
    project.up(*HOSPITALS)
    accepted = "SELECT count(*) FROM ledger WHERE event = 'accept uplink'"
    until(lambda: asked(project, accepted) != ["0"], "an uplink is acknowledged")
    project.run("restart", "--timeout", "10", "postgres", "s3")
    project.up()
    assert project.exit_code("summary") == 0, project.log("summary")


def asked(project: Project, question: str) -> list[str]:
    """Ask the database, as its administrator can in its container."""
    words = ("exec", "-T", "postgres", "psql", "-U", "odc", "-At", "-c", question)
    return project.run(*words).stdout.decode().split("\n")[:-1]


def test_every_hospital_ends_well_with_predictions(scaled: Project) -> None:
    found = {name: one["State"] for name, one in scaled.containers().items()}
    assert {name: found[name]["ExitCode"] for name in HOSPITALS} == dict.fromkeys(HOSPITALS, 0)
    for hospital in HOSPITALS:
        text = scaled.file(hospital, f"{HOME}/predictions.csv").decode()
        assert len(list(csv.DictReader(io.StringIO(text)))) == HOLD_OUT_ROWS
    for server in (*ANALYSTS, "balancer", "postgres", "s3"):
        assert found[server]["Health"]["Status"] == "healthy", server
    report = json.loads(scaled.file("summary", "/results/report.json"))
    assert report["state"] == "released"
    assert report["scores"]["collaboration"]["roc_auc"] >= report["scores"]["central"]["roc_auc"] - 0.02


def test_records_are_in_postgresql_and_an_uplink_is_accepted_once(scaled: Project) -> None:
    assert asked(scaled, "SELECT state FROM collaborations") == ["released"]
    accepted = "SELECT party FROM ledger WHERE event = 'accept uplink' ORDER BY party"
    assert asked(scaled, accepted) == list(HOSPITALS)
    for analyst in ANALYSTS:
        assert not [name for name in scaled.files_under(analyst, f"{HOME}/.") if "sqlite" in name]


LIST = f"""
import os
from obstore.store import S3Store
for line in open("{HOME}/shared/environment"):
    name, value = line.strip().split("=", 1)
    os.environ[name] = value
config = {{name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}}
options = {{"allow_http": True, "allow_invalid_certificates": True}}
for page in S3Store("odc-demo", config=config, client_options=options).list("arrays/"):
    print(*(one["path"] for one in page), sep="\\n")
"""


def test_arrays_are_in_s3(scaled: Project) -> None:
    listed = scaled.python("bucket", LIST)
    assert listed.returncode == 0, listed.stderr
    (collaboration,) = asked(scaled, "SELECT id FROM collaborations")
    kept = {name.split("/")[2] for name in listed.stdout.decode().split() if collaboration in name}
    assert {"uplinks", "results"} <= kept
    for analyst in ANALYSTS:
        assert not [name for name in scaled.files_under(analyst, f"{HOME}/.") if name.startswith("./blobs/")]


def test_both_analysts_are_asked_and_by_the_balancer_alone(scaled: Project) -> None:
    networks = scaled.containers()["balancer"]["NetworkSettings"]["Networks"].values()
    addresses = {one["IPAddress"] for one in networks}
    for analyst in ANALYSTS:
        seen = re.findall(r" address=(\S+) party=(\S+)", scaled.log(analyst))
        assert {address for address, _party in seen} <= addresses
        assert len({party for _address, party in seen}) > 1


WORKERS = """
from distributed import Client
with Client("tcp://scheduler:8786", timeout="30s") as client:
    print(*sorted(one["host"] for one in client.scheduler_info(n_workers=-1)["workers"].values()))
"""


def test_rounds_are_computed_by_two_workers_and_in_no_server(scaled: Project) -> None:
    listed = scaled.python("scheduler", WORKERS)
    assert listed.returncode == 0, listed.stderr
    found = scaled.containers()
    addresses = {
        found[name]["NetworkSettings"]["Networks"][f"{scaled.name}_servers"]["IPAddress"] for name in COMPUTE
    }
    assert set(listed.stdout.decode().split()) == addresses
    for analyst in ANALYSTS:
        assert "multiprocessing" not in docker("top", found[analyst]["Id"])


def test_what_the_profile_adds_is_confined_and_meets_no_hospital(scaled: Project) -> None:
    found = scaled.containers()
    for name in ADDED:
        host = found[name]["HostConfig"]
        assert host["ReadonlyRootfs"], name
        assert host["CapDrop"] == ["ALL"], name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name
        assert 0 < host["Memory"] <= 2 * 2**30, name
        assert host["PidsLimit"] > 0, name
        if name not in ("balancer", "scale-settings"):
            assert list(found[name]["NetworkSettings"]["Networks"]) == [f"{scaled.name}_servers"], name


def test_no_secret_of_the_servers_is_shown(scaled: Project) -> None:
    password = scaled.file("analyst", f"{HOME}/shared/pgpass").decode().strip().split(":")[-1]
    environment = scaled.file("analyst", f"{HOME}/shared/environment").decode()
    (key,) = re.findall("AWS_SECRET_ACCESS_KEY=(.+)", environment)
    told = json.dumps(scaled.containers()) + scaled.run("logs", "--no-color").stdout.decode()
    told += docker("image", "inspect", "odc-demo-analyst", "odc-demo-balancer")
    for secret in (password, key):
        assert len(secret) >= SECRET_BYTES
        assert secret not in told
