"""What images are made from: the lock files of the roles, and files that name no address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCKER = REPOSITORY / "deploy" / "docker"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
ROLES = ("client", "server")


def pins(path: Path) -> set[str]:
    """``name==version`` of every line that pins one."""
    return set(re.findall(r"^([a-z0-9._-]+==\S+)", path.read_text(), re.MULTILINE))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=~!\[; ]", line)[0] for line in requirements}


@pytest.mark.parametrize("role", ROLES)
def test_an_image_gets_the_versions_that_the_tests_run_with(role: str) -> None:
    assert pins(DOCKER / f"{role}.lock") <= pins(REPOSITORY / "requirements.lock")


@pytest.mark.parametrize("role", ROLES)
def test_the_lock_file_of_a_role_has_what_its_extra_asks_for(role: str) -> None:
    asked = names(PROJECT["dependencies"] + PROJECT["optional-dependencies"][role])
    assert asked <= {pin.split("==")[0] for pin in pins(DOCKER / f"{role}.lock")}


@pytest.mark.parametrize("role", ROLES)
def test_the_lock_file_of_a_role_has_nothing_for_developers(role: str) -> None:
    developers = names(PROJECT["optional-dependencies"]["dev"]) - {"psutil"}  # which Dask measures with
    assert not developers & {pin.split("==")[0] for pin in pins(DOCKER / f"{role}.lock")}


def test_what_an_image_does_not_import_is_the_other_role_s_meter_and_plots() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    left_out = {
        role: set(names.split())
        for role, names in re.findall(r"(user_client|analyst_server) \\\n +--without ([a-z_. ]+)", text)
    }
    left_out["user_client"].remove("user_client.sdk.plots")  # its library is an extra of its own
    assert left_out == {
        "user_client": {"metering.server", "metering.private_parts"},
        "analyst_server": {"metering.client_traffic", "metering.client_transport"},
    }
    modules = {f"metering.{path.stem}" for path in (REPOSITORY / "metering").glob("*.py")}
    assert left_out["user_client"] | left_out["analyst_server"] <= modules


def test_the_version_on_the_images_is_the_package_s() -> None:
    assert f'image.version="{PROJECT["version"]}"' in (DOCKER / "Dockerfile").read_text()


def test_tables_beside_a_compose_file_get_neither_into_a_build_nor_into_the_repository() -> None:
    first, *exceptions = (REPOSITORY / ".dockerignore").read_text().splitlines()[1:]
    assert first == "*"
    assert "!deploy/compose/demo" in exceptions
    assert not {"!deploy", "!deploy/compose"} & set(exceptions)
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    assert {"deploy/compose/desk/", "deploy/compose/drop/"} <= set(ignored)


def test_a_build_needs_no_registry_but_for_its_base_images() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert not text.startswith("# syntax")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE))
    assert set(bases) - stages == {"${PYTHON_IMAGE}", "${DEBIAN_IMAGE}", "scratch", "build-${ROLE}"}


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((REPOSITORY / "deploy").rglob("*")) if path.is_file()],
    ids=lambda path: str(path.relative_to(REPOSITORY)),
)
def test_no_file_for_deploying_knows_a_proxy_an_index_or_an_authority(path: Path) -> None:
    text = re.sub("https://(analyst|balancer):8443|http://s3:9000", "", path.read_text())  # of the demo
    assert not re.search(r"https?://|index-url|trusted-host|SSL_CERT|REQUESTS_CA|PIP_INDEX", text)
