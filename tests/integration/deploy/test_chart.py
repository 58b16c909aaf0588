"""The Helm chart: rendered by Helm, and held against the schemas of Kubernetes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analyst_server.settings import Settings

REPOSITORY = Path(__file__).parents[3]
CHART = REPOSITORY / "deploy" / "helm" / "odc-analyst"
TOOLS = REPOSITORY / "build" / "tools" / "bin"
IDENTITY = {"identity.existingSecret": "identity"}
OUTSIDE = {**IDENTITY, "database.existingSecret": "database", "blobs.url": "s3://bucket/odc", "replicas": "3"}
METRICS = {
    **IDENTITY,
    "metrics.enabled": "true",
    "metrics.existingSecret": "metrics",
    "metrics.serviceMonitor.enabled": "true",
    "metrics.serviceMonitor.serverName": "analyst.example",
}
OLDEST, NEWEST = "1.27", "1.37"


def tool(name: str) -> str:
    """Return a program that `deploy/helm/tools.sh` gets, or skip the test."""
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if found is None and os.environ.get("ODC_REQUIRE_HELM"):
        pytest.fail(f"ODC_REQUIRE_HELM is set, but {name} is not installed")
    if found is None:
        pytest.skip(f"{name} is not installed: sh deploy/helm/tools.sh build/tools")
    return found


def helm(values: dict[str, str]) -> subprocess.CompletedProcess[str]:
    chosen = ["--set", ",".join(f"{name}={value}" for name, value in values.items())]
    command = [tool("helm"), "template", "demo", str(CHART), *chosen]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(values: dict[str, str]) -> str:
    done = helm(values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kinds(text: str) -> set[str]:
    return set(re.findall(r"(?m)^kind: (\w+)$", text))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [IDENTITY, OUTSIDE, METRICS], ids=["one", "three", "metrics"])
def test_what_is_rendered_has_the_schema_of_kubernetes(
    values: dict[str, str], version: str, tmp_path: Path
) -> None:
    documents = rendered(values).split("\n---\n")
    path = tmp_path / "rendered.yaml"
    # a ServiceMonitor is no kind of Kubernetes itself
    path.write_text("\n---\n".join(one for one in documents if "kind: ServiceMonitor" not in one))
    command = [tool("kubernetes-validate"), "--strict", "-k", version, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_replica_keeps_its_rounds_in_a_volume_and_is_never_two() -> None:
    text = rendered(IDENTITY)
    assert "PersistentVolumeClaim" in kinds(text)
    assert "PodDisruptionBudget" not in kinds(text)
    assert "type: Recreate" in text
    assert "egress: []" in text


def test_several_replicas_keep_nothing_and_are_replaced_one_by_one() -> None:
    text = rendered(OUTSIDE)
    assert "PersistentVolumeClaim" not in kinds(text)
    assert "PodDisruptionBudget" in kinds(text)
    assert "type: RollingUpdate" in text
    assert "sessionAffinity: ClientIP" in text
    assert "postgresql" not in text  # the address with its password stays in the Secret


def test_metrics_are_behind_a_token() -> None:
    text = rendered(METRICS)
    assert "ServiceMonitor" in kinds(text)
    assert "insecureSkipVerify" not in text
    assert "ODC_ANALYST_METRICS_TOKEN_FILE" in text


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "identity.existingSecret is not set"),
        ({**IDENTITY, "replicas": "2"}, "replicas is above 1"),
        ({**IDENTITY, "metrics.enabled": "true"}, "metrics.existingSecret"),
        ({**METRICS, "metrics.serviceMonitor.serverName": ""}, "serverName is not set"),
        ({**METRICS, "metrics.enabled": "false"}, "without metrics.enabled"),
        ({**METRICS, "networkPolicy.metricsFrom": "null"}, "lets everybody ask"),
        ({**IDENTITY, "blobs.url": "file:///srv/blobs"}, "nothing is mounted"),
        ({**IDENTITY, "settings.ODC_ANALYST_PORT": "443"}, "use the value service.port"),
    ],
)
def test_values_that_cannot_work_are_refused_with_what_is_missing(values: dict[str, str], says: str) -> None:
    done = helm(values)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    "outside", [{"database.existingSecret": "db"}, {"networkPolicy.egress[0].ports[0].port": "443"}]
)
def test_whatever_is_outside_may_be_reached(outside: dict[str, str]) -> None:
    text = rendered({**IDENTITY, **outside})
    assert "egress: []" not in text
    assert "port: 53" in text


def test_values_that_are_left_empty_are_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("identity: {existingSecret: i}\nsettings:\nblobs: {url: }\n")
    command = [tool("helm"), "template", "demo", str(CHART), "--values", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_numbers_of_a_file_of_values_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(
        "identity: {existingSecret: i}\n"
        "settings: {ODC_ANALYST_MAX_UPLINK_BYTES: 68719476736,"
        " ODC_ANALYST_POLL_S: 0.5, ODC_ANALYST_HOLD_RELEASE: true}\n"
    )
    done = subprocess.run(
        [tool("helm"), "template", "demo", str(CHART), "--values", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(re.findall(r'name: ODC_ANALYST_(\w+), value: "([^"]*)"', done.stdout))
    assert found["MAX_UPLINK_BYTES"] == "68719476736"
    assert (found["POLL_S"], found["HOLD_RELEASE"]) == ("0.5", "true")


def test_files_of_the_operator_are_mounted_for_the_server_and_the_job() -> None:
    volume = {"extraVolumes[0].name": "ca", "extraVolumes[0].configMap.name": "authorities"}
    mount = {"extraVolumeMounts[0].name": "ca", "extraVolumeMounts[0].mountPath": "/etc/ssl/certs"}
    text = rendered({**IDENTITY, **volume, **mount})
    assert text.count("mountPath: /etc/ssl/certs") == text.count("name: authorities") == 2


def test_the_port_of_the_service_is_not_that_of_the_container() -> None:
    text = rendered({**IDENTITY, "service.port": "443"})
    assert "containerPort: 8443" in text
    assert "{name: https, port: 443, targetPort: https}" in text


def test_the_job_that_compares_is_in_the_policy_and_the_alerts_find_their_job() -> None:
    assert "odc-analyst-verify" in rendered(IDENTITY).partition("kind: NetworkPolicy")[2].partition("---")[0]
    assert "jobLabel: app.kubernetes.io/name" in rendered(METRICS)


def test_the_job_that_compares_waits_for_a_server_that_starts() -> None:
    assert 'args: [verify, --wait, "300"]' in (CHART / "templates" / "verify.yaml").read_text()


def test_every_setting_that_the_chart_names_is_one() -> None:
    named = set(re.findall(r"ODC_ANALYST_(\w+)", "".join(p.read_text() for p in CHART.rglob("*.*"))))
    assert {name.lower() for name in named} <= set(Settings.model_fields)
