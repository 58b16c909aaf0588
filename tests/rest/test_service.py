"""What the OpenAPI document of `odc serve` says is so: schemathesis finds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from schemathesis.config import SchemathesisConfig

from tests.harness.described import Meaning, Occasion, ask_everything
from tests.harness.in_process import COLUMNS, Consortium
from user_client.sdk import Predictor
from user_client.service.app import create_app

SERVICE_TOKEN = "a-token-that-nobody-guesses"
ROW = dict.fromkeys(COLUMNS, 0.5)
BODIES = (
    {"rows": [ROW]},
    {"rows": [ROW, dict.fromkeys(COLUMNS, " 0.5")], "thresholds": {"yes": 0.3}},
    {"rows": [dict.fromkeys(COLUMNS)]},
    {"rows": [ROW], "thresholds": {"nobody": 0.3}},
    {"rows": [ROW], "interval": 0.9},
    {"rows": [ROW, dict.fromkeys(COLUMNS), {}], "skip_unfit": True},
)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Predictor]:
    with pytest.MonkeyPatch.context() as patched:
        made = Consortium(Path(tmp_path_factory.mktemp("service")), patched)
        made.until_released()
        made.hospital_round.receive()
        yield made.hospital_round.predictor()
        made.close()


@pytest.mark.parametrize("sent", [None, SERVICE_TOKEN, "another-token-of-somebody"])
def test_every_answer_is_described_whatever_token_is_sent(predictor: Predictor, sent: str | None) -> None:
    described: dict[str, Any] = {
        "generation": {"max-examples": 20, "deterministic": True, "database": "none"},
        "phases": {"stateful": {"enabled": False}},  # nothing here changes a state
        "checks": {"positive_data_acceptance": {"enabled": False}},  # the columns are those of the terms
        **({"auth": {"openapi": {"apiToken": {"bearer": sent}}}} if sent else {}),
    }
    meaning = Meaning(
        {("POST", "/v1/predictions"): [Occasion({}, {}, json.dumps(body).encode()) for body in BODIES]}
    )
    app = create_app(predictor, SERVICE_TOKEN)
    findings = ask_everything(app, SchemathesisConfig.from_dict(described), meaning)
    assert not findings, "\n\n".join(findings)
