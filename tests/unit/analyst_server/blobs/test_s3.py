from __future__ import annotations

from pathlib import Path

import pytest

from analyst_server.blobs import S3Blobs
from protocol.errors import InputError

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        for each in (f"{name}_proxy", f"{name}_proxy".upper()):
            monkeypatch.delenv(each, raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "s3.example"},
        {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"},
        {"ALL_PROXY": PROXY, "NO_PROXY": "*"},
        {"HTTP_PROXY": PROXY},
        {
            "HTTPS_PROXY": PROXY,
            "NO_PROXY": "localhost, 10.0.0.0/8",
            "AWS_ENDPOINT_URL": "https://10.1.2.3:9000",
        },
        {
            "HTTPS_PROXY": PROXY,
            "NO_PROXY": "s3.eu-central-1.amazonaws.com",
            "AWS_ENDPOINT_URL": "",
            "AWS_REGION": "eu-central-1",
        },
    ],
)
def test_a_server_that_no_proxy_is_for_is_reached(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AWS_ENDPOINT_URL": "https://s3.example", **given}.items():
        monkeypatch.setenv(name, value)
    S3Blobs("s3://bucket/odc", tmp_path).require_direct()


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({"HTTPS_PROXY": PROXY}, "s3.us-east-1.amazonaws.com"),
        ({"ALL_PROXY": PROXY, "AWS_REGION": "eu-central-1"}, "s3.eu-central-1.amazonaws.com"),
        ({"HTTP_PROXY": PROXY, "AWS_ENDPOINT_URL": "http://s3.example:9000"}, "s3.example"),
        (
            {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8", "AWS_ENDPOINT_URL": "https://192.168.0.1"},
            "192.168.0.1",
        ),
    ],
)
def test_a_server_behind_a_proxy_is_refused_with_the_name_to_leave_out(
    given: dict[str, str], host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"the S3 server {host} would be reached through a proxy") as caught:
        S3Blobs("s3://bucket/odc", tmp_path).require_direct()
    assert f"add {host} to NO_PROXY" in caught.value.hint
