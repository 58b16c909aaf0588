"""The dashboard and the alerts ask for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from analyst_server.app import create_app
from analyst_server.settings import Settings
from analyst_server.telemetry.measures import Measures
from metering.counts import Counts, Flow
from metering.server import Purpose
from protocol import operations
from tests.harness.tree import REPOSITORY
from tests.harness.world import World

DASHBOARD = json.loads((REPOSITORY / "deploy/grafana/odc-analyst.json").read_text())
RULES = REPOSITORY / "deploy/prometheus/odc-analyst.rules.yml"
RULES_TESTS = RULES.with_name("odc-analyst.tests.yml")
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds."""
METRIC = re.compile(r"\b((?:odc|process)_\w+)(?:\{([^}]*)\})?")


def queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    yield from re.findall(r"- alert: (\w+)\n\s+expr: (.*)", RULES.read_text())


QUERIES = list(queries())


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the labels of every sample of a server in which everything has happened once."""
    world, measures = World(tmp_path_factory.mktemp("world")), Measures()
    create_app(world.analyst, Settings(data_dir=world.directory), measures=measures)
    measures.request("GET", operations.HEALTH.path, 200, 0.01)
    measures.carried(Purpose("uplink", "hospital-a"), Counts(Flow(1000), Flow(20)))
    measures.step("train_model", "done", 2.0)
    world.publish()
    text = generate_latest(measures.registry).decode()
    world.records.dispose()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_there_are_panels_and_alerts_for_what_operators_have_to_know() -> None:
    alerts = {name for name, _ in QUERIES if name.startswith("Odc")}
    assert {"OdcRoundWaits", "OdcDiskFillsUp", "OdcCertificateEnds", "OdcConnectionsRefused"} <= alerts
    assert len(DASHBOARD["panels"]) > 10


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[f"{one[0]}-{i}" for i, one in enumerate(QUERIES)])
def test_a_query_asks_for_metrics_and_labels_that_exist(
    where: str, query: str, known: dict[str, set[str]]
) -> None:
    asked = METRIC.findall(query)
    assert asked or "up{" in query, where
    for name, matchers in asked:
        assert name in known, where
        labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=|!~)", matchers))
        assert labels <= known[name] | OF_PROMETHEUS, (where, name)


def test_panels_do_not_lie_on_each_other_and_fit_the_width() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_itself_reads_the_rules_and_they_fire() -> None:
    subprocess.run(["promtool", "check", "rules", RULES], check=True, capture_output=True)
    subprocess.run(["promtool", "test", "rules", RULES_TESTS], check=True, capture_output=True)
