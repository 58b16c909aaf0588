"""The demo between containers, on a Docker engine: what it does, what it keeps apart, what it survives."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from odc_demo.actors import free_port
from tests.harness.compose import HOME, HOSPITALS, Project, docker, until

pytestmark = pytest.mark.compose

HOLD_OUT_ROWS = 171
MIB = 2**20
LIMIT_MB = {"odc-demo-hospital": 400, "odc-demo-analyst": 650}
HELD_AFTER = 5 * MIB // 4
FEATURES = 100


@pytest.fixture(scope="module")
def demo(images: None) -> Iterator[Project]:
    """The demo after its round; afterwards nothing of it may be left."""
    project = Project("odc-test-demo", settings={"ODC_DEMO_PORT": str(free_port())})
    project.down()
    try:
        project.up()
        assert project.exit_code("summary") == 0, project.log("summary")
        yield project
    finally:
        project.down()
    assert project.left_over() == []


# the round


def test_every_hospital_ends_well_and_the_analyst_stays(demo: Project) -> None:
    found = {name: one["State"] for name, one in demo.containers().items()}
    assert {name: found[name]["ExitCode"] for name in HOSPITALS} == dict.fromkeys(HOSPITALS, 0)
    assert found["analyst"]["Status"] == "running"
    assert found["analyst"]["Health"]["Status"] == "healthy"


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_each_hospital_has_its_predictions_and_its_receipt(demo: Project, hospital: str) -> None:
    files = demo.files_under(hospital, f"{HOME}/.")
    predictions = list(csv.DictReader(io.StringIO(files["./predictions.csv"].decode())))
    assert len(predictions) == HOLD_OUT_ROWS
    assert set(predictions[0]) == {"prediction", "probability_benign", "probability_malignant"}
    assert any(name.endswith("/receipt.odc") for name in files)


def test_the_last_service_prints_rows_bytes_and_scores(demo: Project) -> None:
    shown = demo.log("summary")
    report = json.loads(demo.file("summary", "/results/report.json"))
    for party in report["parties"]:
        assert party["name"] in shown
        assert f"{party['uplink_payload_bytes']:,}" in shown
        scales = 2 * 4 * report["latent_dim"]
        assert party["uplink_payload_bytes"] == party["uplink_formula_bytes"] / 4 + scales + party["rows"]
    for found in report["evaluated"].values():
        assert found["sent"]
        assert f"{100 * (found['together'] - found['alone']):+.1f}" in shown
    scores = report["scores"]
    assert f"{scores['collaboration']['accuracy']:.1%}" in shown
    assert scores["collaboration"]["roc_auc"] >= scores["central"]["roc_auc"] - 0.02
    assert report["state"] == "released"


def client(demo: Project, directory: Path, *, with_certificate: bool = True) -> httpx.Client:
    for name in ("root.pem", "certificate.pem", "key.pem"):
        (directory / name).write_bytes(demo.file("hospital-b", f"{HOME}/{name}"))
    context = ssl.create_default_context(cafile=directory / "root.pem")
    if with_certificate:
        context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
    return httpx.Client(base_url=f"https://localhost:{demo.settings['ODC_DEMO_PORT']}", verify=context)


def test_the_api_answers_on_localhost_to_a_certificate_of_the_consortium(
    demo: Project, tmp_path: Path
) -> None:
    with client(demo, tmp_path) as api:
        (found,) = api.get("/v1/collaborations").raise_for_status().json()["collaborations"]
    assert found["state"] == "released"
    assert [member["party"] for member in found["members"]] == list(HOSPITALS)


def test_the_api_answers_nobody_without_a_certificate(demo: Project, tmp_path: Path) -> None:
    with client(demo, tmp_path, with_certificate=False) as api:
        assert api.get("/healthz").is_success
        assert api.get("/v1/collaborations").status_code == 401


# what is kept apart

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9000), timeout=3)
except OSError as error:
    sys.exit(f"refused: {error}")
print("connected")
"""
LISTEN = """
import socket
with socket.create_server(("0.0.0.0", 9000)) as door:
    print("open", flush=True)
    while True:
        door.accept()
"""


@pytest.fixture
def listening(demo: Project) -> Iterator[str]:
    """A container of hospital-b that takes connections; its address."""
    words = ("run", "--detach", "--no-deps", "--use-aliases", "--entrypoint", "python")
    container = demo.run(*words, "hospital-b", "-c", LISTEN).stdout.decode().split()[-1]
    try:
        until(lambda: "open" in docker("logs", container), "hospital-b listens")
        networks = json.loads(docker("inspect", container))[0]["NetworkSettings"]["Networks"]
        yield networks[f"{demo.name}_hospital-b"]["IPAddress"]
    finally:
        docker("rm", "--force", "--volumes", container)


def test_a_hospital_cannot_open_a_connection_to_another(demo: Project, listening: str) -> None:
    from_analyst = demo.run("exec", "-T", "analyst", "python", "-c", CONNECT, listening)
    assert from_analyst.stdout.strip() == b"connected"  # so there is somebody to connect to
    for target in (listening, "hospital-b"):
        source = CONNECT.replace("sys.argv[1]", repr(target))
        refused = demo.python("hospital-c", source)
        assert refused.returncode == 1
        assert b"refused" in refused.stderr


def test_a_hospital_has_no_way_out_but_the_network_it_shares_with_the_analyst(demo: Project) -> None:
    routes = "print([line.split()[1] for line in open('/proc/net/route').readlines()[1:]])"
    found = demo.python("hospital-c", routes).stdout.decode()
    assert found.count("'") == 2  # one network
    assert "00000000" not in found  # and no default route
    names = {name: one["NetworkSettings"]["Networks"] for name, one in demo.containers().items()}
    for hospital in HOSPITALS:
        assert list(names[hospital]) == [f"{demo.name}_{hospital}"]
        assert sum(f"{demo.name}_{hospital}" in networks for networks in names.values()) == 2


def test_a_hospital_cannot_reach_the_machine_of_the_engine(demo: Project) -> None:
    with socket.create_server(("0.0.0.0", 0)) as door:  # noqa: S104  # what a careless service does
        port = str(door.getsockname()[1])
        source = CONNECT.replace("9000", port)
        gateway = "{{(index .IPAM.Config 0).Gateway}}"
        address = docker("network", "inspect", "bridge", "--format", gateway)
        plain = ("docker", "run", "--rm", "--entrypoint", "python", "odc-demo", "-c")
        if subprocess.run([*plain, source, address], capture_output=True, timeout=60).returncode != 0:
            pytest.skip("the engine's machine is not this one")
        address = docker("network", "inspect", f"{demo.name}_hospital-c", "--format", gateway)
        refused = demo.python("hospital-c", source.replace("sys.argv[1]", repr(address)))
    assert refused.returncode == 1
    assert b"refused" in refused.stderr


def test_a_hospitals_keys_lie_in_a_volume_that_nobody_else_mounts(demo: Project) -> None:
    services = json.loads(demo.run("config", "--format", "json").stdout)["services"]
    mounted: dict[str, set[str]] = {}
    for name, service in services.items():
        for volume in service.get("volumes", []):
            if volume["target"] == HOME:
                mounted.setdefault(volume["source"], set()).add(name)
    assert (
        mounted
        == {
            "hospital-a": {"hospital-a", "founding", "approval"},  # its own steps
            **{name: {name} for name in HOSPITALS[1:]},
            "analyst": {"analyst", "request", "report"},
        }
    )
    elsewhere = [
        volume["source"]
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume["target"] != HOME
    ]
    assert not set(elsewhere) & set(mounted)


# what a container may do


@pytest.mark.parametrize("service", ["data", "founding", "analyst", "hospital-b", "summary"])
def test_a_container_cannot_write_its_root_file_system(demo: Project, service: str) -> None:
    writing = (
        "import errno, os\n"
        "for place in ('/x', '/opt/odc/app/x', '/etc/x', '/usr/local/bin/x'):\n"
        "    try: open(place, 'w')\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
        "print(os.getuid())\n"
    )
    assert demo.python(service, writing).stdout.decode().split() == ["EROFS"] * 4 + ["10001"]


def test_every_container_is_confined(demo: Project) -> None:
    for name, one in demo.containers().items():
        host = one["HostConfig"]
        assert one["Config"]["User"] == "10001:10001", name
        assert host["ReadonlyRootfs"], name
        assert host["CapDrop"] == ["ALL"], name
        assert not host["CapAdd"], name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name
        assert 0 < host["Memory"] <= 1.5 * 2**30, name
        assert 0 < host["PidsLimit"] <= 128, name
        assert not host["Privileged"], name


def secrets_of(demo: Project) -> set[str]:
    """Whatever opens something: the passphrase, join secrets, and the bodies of private keys."""
    found = {demo.file("hospital-a", f"{HOME}/passphrase").decode().strip()}
    for hospital in HOSPITALS[1:]:
        found.add(json.loads(demo.file(hospital, "/drop/invitation.json"))["join_secret"])
    for service, path in [(name, f"{HOME}/key.pem") for name in HOSPITALS] + [
        ("analyst", f"{HOME}/identity/key.pem")
    ]:
        found.add(demo.file(service, path).decode().splitlines()[1])
    return found


def test_inspection_shows_no_secret(demo: Project) -> None:
    secrets = secrets_of(demo)
    assert len(secrets) == 1 + 4 + 6
    assert all(len(secret) >= 32 for secret in secrets)
    told = json.dumps(demo.containers())
    for image in ("odc-demo-hospital", "odc-demo-analyst", "odc-demo"):
        told += docker("image", "inspect", image) + docker("history", "--no-trunc", image)
    assert not [secret for secret in secrets if secret in told]
    assert "PRIVATE KEY" not in told
    for name, one in demo.containers().items():
        variables = {line.split("=")[0] for line in one["Config"]["Env"]}
        allowed = {"PATH", "LANG", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
        own = {"ODC_HOME", "ODC_ANALYST_DATA_DIR", "PARTY", "COLUMNS", "OPENBLAS_NUM_THREADS"}
        assert variables - allowed <= own, name


# what an image holds


@pytest.mark.parametrize(
    ("service", "has", "has_not"),
    [
        ("hospital-b", "user_client", ["analyst_server", "sklearn", "sqlalchemy", "odc_demo", "pip"]),
        ("analyst", "analyst_server", ["user_client", "httpx", "pyarrow", "odc_demo", "pip"]),
    ],
)
def test_an_image_holds_its_role_alone(demo: Project, service: str, has: str, has_not: list[str]) -> None:
    source = f"from importlib.util import find_spec\nprint([n for n in {[has, *has_not]} if find_spec(n)])"
    assert demo.python(service, source).stdout.decode().strip() == str([has])


def test_images_are_as_small_as_we_say(demo: Project) -> None:
    for image, limit in LIMIT_MB.items():
        assert int(docker("image", "inspect", "--format", "{{.Size}}", image)) <= limit * 10**6, image


def test_images_do_not_know_where_they_were_built(demo: Project) -> None:
    for service in ("hospital-b", "analyst", "data"):
        image = demo.containers()[service]["Image"]
        told = docker("image", "inspect", image) + docker("history", "--no-trunc", image)
        assert not re.search(r"(?i)_proxy|index.url|pip_|ssl_cert|requests_ca|https?://", told)
        source = "import glob; print(glob.glob('/etc/pip.conf') + glob.glob('/etc/ssl/certs/*'))"
        assert demo.python(service, source).stdout.decode().strip() == "[]"


# what it survives


def wide_table(path: Path) -> Path:
    """One large site, whose uplink is more than a mebibyte and a half, and four small ones."""
    counts = {"a": 30_000, "b": 60, "c": 60, "d": 60, "e": 60}
    site = np.repeat(list(counts), list(counts.values()))
    rng = np.random.default_rng(20240304)
    values = rng.integers(0, 100, (len(site), FEATURES))
    label = np.where(values[:, :20].sum(axis=1) > 990, "ill", "well")
    columns = {f"x{index}": values[:, index] for index in range(FEATURES)}
    pyarrow.csv.write_csv(pa.table({"site": site, "label": label, **columns}), path)
    path.chmod(0o644)
    return path


class Disturbed:
    """A round in which everything goes wrong that may, and what was seen on the way.

    The line of hospital-a, the lead, holds its uplink in the middle for as long as the test wants.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.kept_bytes = 0
        self.before_restart: dict[str, Any] = {}
        self.after_restart: dict[str, Any] = {}

    def play(self) -> None:
        project = self.project
        project.up("line", *HOSPITALS[:4])
        until(lambda: "joined" in project.log("hospital-d"), "hospital-d has joined")
        project.up("--no-deps", "hospital-e")  # late
        until(lambda: self._received() == set(HOSPITALS[1:]), "the others have sent their uplinks", pause_s=3)
        until(lambda: self._part_bytes() >= MIB, "the analyst keeps the first mebibyte of hospital-a")
        project.run("kill", "hospital-a")
        self.kept_bytes = self._part_bytes()
        self.before_restart = self._status()
        project.run("restart", "analyst")
        self.after_restart = self._status()
        project.settings["ODC_TEST_HOLD_AFTER"] = "None"
        project.up("--no-deps", "line")
        project.up("report")
        assert project.exit_code("report") == 0

    def _status(self) -> dict[str, Any]:
        told = self.project.run("exec", "-T", "analyst", "odc-analyst", "collaboration", "list", "--json")
        (found,) = json.loads(told.stdout)
        return dict(found)

    def _received(self) -> set[str]:
        return {one["party"] for one in self._status()["members"] if one["uplink"] == "received"}

    def _part_bytes(self) -> int:
        counting = f"cat {HOME}/blobs/*/uplinks/*.part | wc -c"
        return int(self.project.run("exec", "-T", "analyst", "sh", "-c", counting).stdout)


@pytest.fixture(scope="module")
def disturbed(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disturbed]:
    table = wide_table(tmp_path_factory.mktemp("wide") / "wide.csv")
    settings = {
        "ODC_DEMO_PORT": str(free_port()),
        "ODC_DEMO_DATA": str(table),
        "ODC_DEMO_LABEL": "label",
        "ODC_DEMO_SITE": "site",
        "ODC_TEST_HOLD_AFTER": str(HELD_AFTER),
    }
    project = Project("odc-test-faults", ("docker-compose.yml", "tests/e2e/compose_line.yml"), settings)
    project.down()
    try:
        found = Disturbed(project)
        found.play()
        yield found
    finally:
        project.down()


def test_a_hospital_killed_during_its_uplink_goes_on_where_it_stopped(disturbed: Disturbed) -> None:
    assert disturbed.kept_bytes >= MIB
    assert disturbed.project.containers()["hospital-a"]["State"]["ExitCode"] == 0
    assert disturbed.project.file("hospital-a", f"{HOME}/predictions.csv")
    report = json.loads(disturbed.project.file("report", "/drop/report.json"))
    (payload,) = (one["uplink_payload_bytes"] for one in report["parties"] if one["party"] == "hospital-a")
    status = json.loads(disturbed.project.file("hospital-a", "/desk/status.json"))
    assert payload > 3 * MIB // 2
    assert status["traffic_bytes"]["uplink"]["sent"] < payload - MIB // 2  # counted by the second process


def test_an_analyst_restarted_between_uplinks_has_forgotten_none(disturbed: Disturbed) -> None:
    before, after = disturbed.before_restart, disturbed.after_restart
    assert before["state"] == after["state"] == "collecting"
    rows = [{one["party"]: one["rows"] for one in found["members"]} for found in (before, after)]
    assert rows[0] == rows[1]
    assert [name for name, count in rows[1].items() if count is None] == ["hospital-a"]


def test_a_hospital_that_starts_late_ends_well_like_the_others(disturbed: Disturbed) -> None:
    states = {name: one["State"]["ExitCode"] for name, one in disturbed.project.containers().items()}
    assert {name: states[name] for name in HOSPITALS} == dict.fromkeys(HOSPITALS, 0)
    report = json.loads(disturbed.project.file("report", "/drop/report.json"))
    assert report["state"] == "released"
    assert len(report["parties"]) == 5
