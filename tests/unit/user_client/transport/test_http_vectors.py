"""The exchanges of tests/vectors/http.json, played by the client's transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from protocol.codec import decode
from protocol.errors import OdcError
from protocol.messages import UplinkManifest
from protocol.operations import FETCH_DOWNLINK
from tests.harness.scripted_server import connect
from tests.vectors import generate
from user_client.transport.download import Download
from user_client.transport.upload import send_uplink

CONTENT = json.loads((Path(generate.__file__).parent / "http.json").read_text())
ALL = bytes(range(100))


def named(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CONTENT[kind], ids=lambda case: str(case["name"]))


def answer_of(given: dict[str, Any]) -> httpx.Response:
    body = bytes.fromhex(given["hex"]) if "hex" in given else json.dumps(given.get("json")).encode()
    return httpx.Response(given["status"], headers=given["headers"], content=body)


@named("uploads")
def test_an_upload_goes_on_as_the_vector_says(case: dict[str, Any], tmp_path: Path) -> None:
    stream, steps, stands = bytes.fromhex(CONTENT["stream"]), list(case["steps"]), case["begins"]

    def analyst(request: httpx.Request) -> httpx.Response:
        nonlocal stands
        if request.method == "POST":
            return httpx.Response(201, json={"upload_id": CONTENT["upload_id"], **case["begins"]})
        if request.method == "HEAD":
            offsets = {"upload-offset": str(stands["offset"]), "upload-begun": str(stands["begun"])}
            return httpx.Response(204, headers=offsets)
        step = steps.pop(0)
        assert request.headers["upload-offset"] == str(step["at"])
        assert request.headers["odc-whole-digest"] == CONTENT["whole_digest"]
        assert request.headers["repr-digest"] == CONTENT["repr_digest"]
        assert request.read() == stream[step["at"] :]
        stands = step.get("stands", stands)
        if step.get("break"):
            raise httpx.ReadError("the line broke")
        return answer_of(step["answer"])

    manifest = decode(UplinkManifest, bytes.fromhex(CONTENT["manifest"]))
    payload, at = tmp_path / "uplink.payload", 0
    with payload.open("wb") as file:
        for spec in manifest.arrays:  # one chunk each, behind its digest
            file.write(stream[at + 32 : at + 32 + spec.payload_bytes])
            at += 32 + spec.payload_bytes
    try:
        with connect(analyst) as connection:
            receipt = send_uplink(
                connection, CONTENT["collaboration_id"], b"signed", manifest, payload, pause=lambda _s: None
            )
        assert receipt.hex() == CONTENT["receipt"]
        verdict = "valid"
    except OdcError as error:
        verdict = error.code
    assert verdict == case["verdict"]
    assert steps == []


@named("downloads")
def test_a_download_goes_on_as_the_vector_says(case: dict[str, Any]) -> None:
    steps = list(case["steps"])

    def pieces(step: dict[str, Any]) -> Any:
        yield ALL[step["answer"]["from"] : step["answer"]["to"]]
        if step.get("break"):
            raise httpx.ReadError("the line broke")

    def analyst(request: httpx.Request) -> httpx.Response:
        step = steps.pop(0)
        assert request.headers["range"] == f"bytes={step['at']}-"
        assert request.headers.get("if-range") == step.get("if_range")
        if step["answer"]["status"] >= 400:
            return answer_of(step["answer"])
        return httpx.Response(
            step["answer"]["status"], headers=step["answer"]["headers"], content=pieces(step)
        )

    try:
        with connect(analyst) as connection:
            download = Download(connection, FETCH_DOWNLINK, collaboration_id=CONTENT["collaboration_id"])
            assert b"".join(download) == ALL
        verdict = "valid"
    except OdcError as error:
        verdict = error.code if case["verdict"] != "refused" else "refused"
    assert verdict == case["verdict"]
    assert steps == []
