"""Other systems with a token, over real TLS; and the ledger of a real round, by the commands."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_server.services import report
from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium

LEAD, HOSPITAL = "lead-hospital", "hospital-b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    directory = tmp_path_factory.mktemp("tokens")
    settings = {"ODC_ANALYST_LOG_LEVEL": "debug", "ODC_ANALYST_HOLD_RELEASE": "true"}
    with consortium(directory, LEAD, HOSPITAL, **settings) as found:
        yield found


@pytest.fixture(scope="module")
def computed(made: Consortium) -> str:
    """A round that waits for the operator's word."""
    found = made.anchored()
    made.contribute_all(found)
    made.wait_for(found, "training")
    return found


def another_system(made: Consortium, token: str) -> httpx.Client:
    """It holds the root's certificate and a token, and no certificate of its own."""
    context = ssl.create_default_context(cafile=made.lead.home.root_path)
    headers = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=made.analyst.url, verify=context, timeout=60, headers=headers)


def counted(made: Consortium, collaboration_id: str) -> Any:
    with made.operator() as opened, opened.records.begin() as unit:
        found = unit.collaboration(collaboration_id)
        assert found is not None
        explained = report.explain_round(unit, found)
    assert explained is not None
    return {party.party: party for party in explained.parties}


def release(scheduler: httpx.Client, address: str) -> str:
    """Release a round when it waits for that; trying earlier is out of order."""
    for _ in range(WAIT_S * 20):
        answer = scheduler.post(f"{address}/release")
        if answer.status_code != 409:
            return str(answer.raise_for_status().json()["state"])
        time.sleep(0.05)
    raise AssertionError(answer.text)


def test_systems_with_tokens_see_and_steer_a_round_and_nothing_of_them_is_logged(
    made: Consortium, computed: str
) -> None:
    ours = made.institution(HOSPITAL).odc("token", "create", "--label", "monitor")["token"]
    theirs = json.loads(made.analyst.run("token", "create", "--scope", "manage", "--json"))["token"]
    address = f"/v1/collaborations/{computed}"
    with another_system(made, ours) as monitor, another_system(made, theirs) as scheduler:
        seen = monitor.get(address).raise_for_status().json()
        assert seen["you"]["party"] == HOSPITAL
        assert monitor.post(f"{address}/release").status_code == 403
        assert monitor.get(f"{address}/downlink").status_code == 403
        assert release(scheduler, address) == "released"
        assert monitor.get(f"{address}/report").raise_for_status().json()["state"] == "released"
        made.institution(HOSPITAL).odc("token", "revoke", ours)
        assert monitor.get(address).status_code == 401  # on the same connection
    log = made.log()
    assert " DEBUG " in log
    for token in (ours, theirs):
        assert token.removeprefix("odct_") not in log
        for path in made.analyst.data_dir.rglob("*"):
            assert not path.is_file() or token.encode() not in path.read_bytes()


def test_a_tokens_traffic_is_in_no_partys_count(made: Consortium, computed: str) -> None:
    token = made.institution(HOSPITAL).odc("token", "create")["token"]
    for session in made.sessions.values():
        session.close()
    made.stop_servers()  # which writes what was counted
    before = counted(made, computed)
    made.start_servers()
    with another_system(made, token) as monitor:
        for _ in range(20):
            monitor.get(f"/v1/collaborations/{computed}/report").raise_for_status()
    made.stop_servers()
    assert counted(made, computed) == before
    with made.operator() as opened, opened.records.begin() as unit:
        nobodys = [row for row in unit.traffic("") if row.party == ""]
    made.start_servers()
    assert sum(row.down_body_bytes for row in nobodys) > 20 * 500


def test_every_member_checks_the_ledger_and_they_see_the_same(
    made: Consortium, computed: str, tmp_path: Path
) -> None:
    lead, hospital = made.institution(LEAD), made.institution(HOSPITAL)
    file = tmp_path / "ledger.odc"
    seen = lead.odc("ledger", "fetch", "--out", str(file), "--collaboration", computed)
    assert seen["checked"][:2] == ["terms.odc", "acceptance.odc"]
    assert hospital.odc("ledger", "fetch", "-c", computed)["head"] == seen["head"]
    assert hospital.odc("ledger", "verify", str(file), "-c", computed)["head"] == seen["head"]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        hospital.odc("ledger", "verify", str(file), "-c", computed)
    assert caught.value.exit_code in (4, 5)
    assert len(caught.value.stderr.splitlines()) == 2
