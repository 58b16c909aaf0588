"""`odc conformance`: our own analyst passes every check, and one that answers otherwise is named."""

from __future__ import annotations

import re

import httpx
import pytest

from protocol.identity import key_digest
from protocol.version import MEDIA_TYPE
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc
from tests.harness.tree import REPOSITORY
from user_client.transport import connection as connection_module

NOBODY = {"the revocation list", "what the lead alone may ask"}
AFTER, BEFORE = "a part behind the end of a downlink", "a downlink before the release"


def test_our_analyst_passes_every_check(odc: Odc) -> None:
    odc.consortium.until_accepted()
    found = odc("conformance", "-c", odc.consortium.id, "--json")
    checks = found.json["checks"]
    assert [one for one in checks if one["outcome"] == "failed"] == []
    assert {one["what"] for one in checks if one["outcome"] == "skipped"} <= {*NOBODY, AFTER}
    assert len(checks) >= 42
    assert found.code == 0


def test_nothing_is_changed_by_what_is_tried(odc: Odc) -> None:
    made = odc.consortium.until_released()
    made.hospital_round.receive()
    before = made.hospital_round.fetch_ledger()[1]
    found = odc("conformance", "-c", made.id, "--json")
    assert [one for one in found.json["checks"] if one["outcome"] == "failed"] == []
    assert {one["what"] for one in found.json["checks"] if one["outcome"] == "skipped"} <= {*NOBODY, BEFORE}
    assert made.hospital_round.fetch_ledger()[1].entries == before.entries
    with made.analyst.records.begin() as unit:
        assert len(unit.uplinks_of(made.id, HOSPITAL)) == 1


def test_with_the_analysts_key_in_the_terms_as_well(odc: Odc) -> None:
    made = odc.consortium
    made.until_accepted(analyst_key=key_digest(made.analyst.key.public_key()))
    found = odc("conformance", "-c", made.id[:6])
    assert found.code == 0, found.out
    assert "passed   a ledger that there is not, as seen (section 10)" in found.out


def test_what_is_tried_stands_in_the_document(odc: Odc) -> None:
    odc.consortium.until_accepted()
    checks = odc("conformance", "-c", odc.consortium.id, "--json").json["checks"]
    parts = re.split(r"^## (\d+)\. ", (REPOSITORY / "docs/protocol.md").read_text(), flags=re.MULTILINE)
    text = {number: " ".join(part.split()) for number, part in zip(parts[1::2], parts[2::2], strict=True)}
    quoted = [one for one in checks if one["says"]]
    assert len(quoted) >= 20
    assert [one["what"] for one in quoted if one["says"] not in text[one["section"]]] == []


def test_the_lead_is_told_what_does_not_concern_it(odc: Odc) -> None:
    odc.consortium.until_accepted()
    shown = odc("conformance", home=LEAD)
    assert "skipped  what the lead alone may ask (section 11): this institution is the lead" in shown.out
    assert "its ledger holds" not in shown.out


def test_an_analyst_that_takes_everything_fails(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc.consortium.until_accepted()

    def easy(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/.well-known/odc":
            return httpx.Response(200, json={"wire_versions": [1], "media_types": [MEDIA_TYPE], "limits": {}})
        return httpx.Response(200, json={"status": "fine"})

    monkeypatch.setattr(
        connection_module,
        "metered",
        lambda _url, _traffic: lambda _trust, _identity: httpx.MockTransport(easy),
    )
    found = odc("conformance")
    assert found.code == 4
    assert "failed   discovery names version 1 and the limits (section 11): limits has no mess" in found.out
    assert "a stranger is asked for a certificate (section 11): expected certificate-required" in found.out
    assert "failed   the end of an unknown upload (section 11): expected not-found, got 200" in found.out
    assert "passed" not in found.out
    assert "checks have failed" in found.err
