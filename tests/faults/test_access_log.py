"""The log of a real server says who asked for what and how it ended, refused requests too."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import NotFoundError
from protocol.operations import FETCH_TERMS
from protocol.tokens import new_token, token_digest, token_id
from tests.harness.consortium import Consortium, consortium


def lines(made: Consortium) -> list[dict[str, Any]]:
    """The lines of requests; every line of the log has to be JSON."""
    found = [json.loads(line) for line in made.log().splitlines()]
    return [each for each in found if each["logger"] == "analyst_server.api.access_log"]


def test_each_request_names_who_asked_and_how_it_ended(tmp_path: Path) -> None:
    with consortium(tmp_path, "hospital-a", ODC_ANALYST_LOG_FORMAT="json") as made:
        made.publish()
        session = made.lead
        session.collaborations()
        with pytest.raises(NotFoundError):
            session.connection.ask(FETCH_TERMS, collaboration_id="0" * 32)
        token = new_token()
        with httpx.Client(verify=trust(made), trust_env=False) as stranger:
            url = session.membership.analyst_url
            refused = stranger.get(f"{url}/v1/collaborations")
            forged = stranger.get(f"{url}/v1/x%0A%7B%22party%22:%22hospital-a%22%7D%E2%80%8B")
            with_token = {"Authorization": f"Bearer {token}"}
            unknown = stranger.get(f"{url}/v1/collaborations", headers=with_token)
        found = lines(made)
    assert (refused.status_code, forged.status_code, unknown.status_code) == (401, 401, 401)
    serial = f"{session.home.certificate().serial_number:x}"
    mine = [each for each in found if each["party"] == "hospital-a"]
    assert {(each["serial"], each["role"], each["token"]) for each in mine} == {(serial, "lead", None)}
    assert ("GET", 200, "ok") in {(each["method"], each["status"], each["outcome"]) for each in mine}
    (missing,) = [each for each in mine if "0" * 32 in each["path"]]
    assert (missing["status"], missing["outcome"]) == (404, "not-found")
    strange = [each for each in found if each["status"] in (401, 403)]
    assert [(each["party"], each["serial"], each["outcome"]) for each in strange] == [
        (None, None, "certificate-required"),
        (None, None, "certificate-required"),
        (None, None, "token-refused"),
    ]
    assert strange[2]["token"] == token_id(token_digest(token))
    assert token not in made.log()
    assert strange[0]["address"] == "127.0.0.1"


def trust(made: Consortium) -> ssl.SSLContext:
    context = ssl.create_default_context()
    root = made.lead.home.root().certificate
    context.load_verify_locations(cadata=root.public_bytes(Encoding.PEM).decode())
    return context
