"""`odc conformance`: our own analyst passes every check, and one that answers otherwise is named."""

from __future__ import annotations

import httpx
import pytest

from protocol.version import MEDIA_TYPE
from tests.harness.in_process import LEAD
from tests.harness.odc import Odc
from user_client.transport import connection as connection_module

NOBODY = {"the revocation list", "what the lead alone may ask"}


def test_our_analyst_passes_every_check(odc: Odc) -> None:
    odc.consortium.until_accepted()
    found = odc("conformance", "-c", odc.consortium.id, "--json")
    checks = found.json["checks"]
    assert [one for one in checks if one["outcome"] == "failed"] == []
    assert {one["what"] for one in checks if one["outcome"] == "skipped"} <= NOBODY
    assert len(checks) >= 18
    assert found.code == 0


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
    assert "passed" not in found.out
    assert "checks have failed" in found.err
