"""What Prometheus is told: everything that docs/operations.md lists, nothing else, and no name of a party."""

from __future__ import annotations

import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from analyst_server.api.doors import Doors, Places
from analyst_server.app import create_app
from analyst_server.blobs import DirectoryBlobs
from analyst_server.services import rounds
from analyst_server.services.readiness import Readiness
from analyst_server.settings import Settings
from analyst_server.telemetry.collected import FRESH_S, Collected
from analyst_server.telemetry.listener import MetricsListener, Place
from analyst_server.telemetry.measures import Measures
from metering.counts import Counts, Flow
from metering.server import Purpose
from protocol import operations
from protocol.errors import InputError
from tests.harness.certificates import issue, shared_root
from tests.harness.tree import REPOSITORY
from tests.harness.world import World, make_uplink

TOKEN = "a-token-of-the-operator"
DOCUMENT = (REPOSITORY / "docs" / "operations.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram|info) \|([^|]*)\|", re.MULTILINE)


def families(registry: CollectorRegistry) -> dict[str, Metric]:
    text = generate_latest(registry).decode()
    return {found.name: found for found in text_string_to_metric_families(text)}


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


@pytest.fixture
def measures(world: World) -> Measures:
    """Of an application in which everything has happened once."""
    found = Measures()
    create_app(world.analyst, Settings(data_dir=world.directory), measures=found)
    found.request("GET", operations.HEALTH.path, 200, 0.01)
    found.carried(Purpose("uplink", "hospital-a"), Counts(Flow(1000), Flow(20)))
    found.step("train_model", "done", 2.0)
    found.notified("delivered")
    with world.records.begin(write=True):
        pass
    world.publish()
    return found


def documented() -> dict[str, tuple[str, set[str]]]:
    return {name: (kind, set(re.findall("`(\\w+)`", labels))) for name, kind, labels in ROW.findall(DOCUMENT)}


def test_the_document_lists_every_metric_with_its_type_and_labels(measures: Measures) -> None:
    found: dict[str, tuple[str, set[str]]] = {}
    for family in measures.registry.collect():
        name = {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(
            family.type, family.name
        )
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = family.type, labels
    assert documented() == found


def test_names_follow_the_convention(measures: Measures) -> None:
    """A base unit or a plain count at the end, as Prometheus wants it."""
    for name, (kind, _) in documented().items():
        if kind == "histogram":
            assert name.endswith("_seconds")
        assert not re.search("_(ms|milliseconds|days|kb|mb)(_|$)", name)


def test_no_party_and_no_collaboration_is_named(world: World, measures: Measures) -> None:
    measures.request("GET", f"/v1/collaborations/{world.id}/terms", 200, 0.1)
    measures.request("GET", "/somebody/made/this/up", 404, 0.1)
    text = generate_latest(measures.registry).decode()
    assert 'operation="other"' in text
    for name in (*world.terms.parties, world.id, "somebody"):
        assert name not in text


def test_a_collaboration_is_counted_with_whom_it_waits_for(world: World, measures: Measures) -> None:
    registry = measures.registry
    assert value(registry, "odc_analyst_collaborations", state="enrolling") == 1
    awaited = "odc_analyst_awaited_actions"
    assert value(registry, awaited, action="accept-terms") == len(world.terms.parties)
    since = "odc_analyst_collaboration_unchanged_since_timestamp_seconds"
    assert value(registry, since, state="enrolling") == world.row().updated_at
    assert value(registry, since, state="sealed") is None, "there is none that could have waited"
    world.accept(*world.terms.parties)
    assert value(registry, awaited, action="accept-terms") == 0
    assert value(registry, awaited, action="create-anchor") == 1


def test_a_round_goes_from_contribution_to_the_queue_and_into_a_held_state(
    world: World, measures: Measures
) -> None:
    registry = measures.registry
    world.accept(*world.terms.parties)
    world.publish_anchor()
    awaited = len(world.terms.parties)
    assert value(registry, "odc_analyst_awaited_actions", action="contribute") == awaited
    for number, party in enumerate(world.terms.parties):
        uplink = make_uplink(world.terms, party, seed=number)
        world.begin(uplink)
        assert value(registry, "odc_analyst_uplinks_unfinished") == 1
        world.send(uplink)
        assert value(registry, "odc_analyst_uplinks_unfinished") == 0
    assert value(registry, "odc_analyst_compute_queue", work="round") == 1
    assert rounds.claim(world.analyst, "worker", 10) == world.id
    rounds.compute(world.analyst, world.id, "worker", hold_release=True)
    assert value(registry, "odc_analyst_collaborations", state="held") == 1
    assert value(registry, "odc_analyst_collaborations", state="training") == 0
    assert value(registry, "odc_analyst_awaited_actions", action="release") == 1


def test_a_byte_that_is_taken_back_fails_no_request() -> None:
    """Of a peer's farewell, where the connection ends while the kernel is asked."""
    measures = Measures()
    for up in (10, -1):
        measures.carried(Purpose("control"), Counts(Flow(up), Flow(5)))
    carried = [
        value(measures.registry, "odc_analyst_wire_bytes_total", direction=way, kind="control")
        for way in ("up", "down")
    ]
    assert carried == [10, 10]


def test_what_is_counted_from_many_threads_is_all_there(world: World) -> None:
    measures = Measures()

    def count() -> None:
        for _ in range(500):
            measures.request("GET", operations.HEALTH.path, 200, 0.001)
            measures.carried(Purpose("control"), Counts(Flow(3), Flow(2)))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = {"operation": operations.HEALTH.name, "kind": "control", "status": "2xx"}
    assert value(measures.registry, "odc_analyst_requests_total", **labels) == 4000
    assert value(measures.registry, "odc_analyst_wire_bytes_total", direction="up", kind="control") == 12000


def test_a_database_that_is_away_leaves_the_rest(world: World, measures: Measures) -> None:
    world.records.dispose()
    database = world.directory / "odc.sqlite"
    database.rename(database.with_suffix(".away"))
    database.mkdir()
    registry = measures.registry
    assert value(registry, "odc_analyst_collaborations", state="enrolling") is None
    assert value(registry, "odc_analyst_ready", part="database") == 0
    assert value(registry, "odc_analyst_disk_free_bytes") is not None


def test_blobs_are_looked_at_once_in_a_while(world: World) -> None:
    now = [0.0]
    doors, readiness = Doors(Places()), Readiness(world.analyst)
    collected = Collected(world.analyst, doors, readiness, lambda: True, lambda: 0, lambda: now[0])
    registry = CollectorRegistry()
    registry.register(collected)
    world.analyst.blobs.write("a/b", b"x" * 100)
    world.analyst.blobs.append("a/c", 0, b"y" * 11)
    assert value(registry, "odc_analyst_blob_bytes") == 111
    world.analyst.blobs.erase("a")
    assert value(registry, "odc_analyst_blob_bytes") == 111
    now[0] += FRESH_S
    assert value(registry, "odc_analyst_blob_bytes") == 0


def test_who_is_refused_at_the_doors_is_counted(world: World) -> None:
    doors = Doors(Places(in_all=4, for_strangers=1, per_address=1, per_certificate=1))
    measures = Measures()
    create_app(world.analyst, Settings(data_dir=world.directory), doors, measures=measures)
    refused = "odc_analyst_connections_refused_total"
    first = doors.enter("192.0.2.1", lambda: None)
    assert first is not None
    doors.note_phase(first, True, False)
    assert doors.enter("192.0.2.1", lambda: None) is None
    assert value(measures.registry, refused, reason="no-place") == 1
    assert value(measures.registry, "odc_analyst_connections", of="stranger") == 1


# The listener


@pytest.fixture
def identity_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "identity"
    directory.mkdir()
    me = issue(shared_root(), "analyst", "analyst", dns=["localhost"])
    key = me.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "key.pem").write_bytes(key)
    (directory / "certificate.pem").write_bytes(me.pem)
    return directory


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def loopback(measures: Measures, identity_dir: Path) -> Iterator[MetricsListener]:
    with MetricsListener(Place("127.0.0.1", 0, None, identity_dir), measures.registry) as listener:
        yield listener


def test_the_loopback_answers_what_prometheus_reads(loopback: MetricsListener) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{loopback.port}/metrics") as answer:
        found = {one.name for one in text_string_to_metric_families(answer.read().decode())}
    assert {"odc_analyst_collaborations", "odc_analyst_requests", "odc_analyst_build_info"} <= found


def test_nothing_else_is_served(loopback: MetricsListener) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{loopback.port}/")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "analyst.example"])  # noqa: S104
def test_another_address_needs_a_token(host: str, identity_dir: Path) -> None:
    with pytest.raises(InputError, match="need a token") as caught:
        Place(host, 9100, None, identity_dir)
    assert "ODC_ANALYST_METRICS_TOKEN_FILE" in caught.value.hint


@pytest.mark.parametrize("written", ["", "short", "é" * 40])
def test_a_file_without_a_token_is_refused(written: str, identity_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(written)
    with pytest.raises(InputError, match="has no token"):
        Place("0.0.0.0", 9100, path, identity_dir).token()  # noqa: S104


def test_another_address_answers_over_tls_and_to_the_token_alone(
    measures: Measures, identity_dir: Path, token_file: Path
) -> None:
    trusting = ssl.create_default_context(cadata=shared_root().pem.decode())
    place = Place("0.0.0.0", 0, token_file, identity_dir)  # noqa: S104
    with MetricsListener(place, measures.registry) as listener:
        asked = urllib.request.Request(f"https://localhost:{listener.port}/metrics")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, context=trusting)  # noqa: S310
        asked.add_header("Authorization", "Bearer another-token-altogether")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, context=trusting)  # noqa: S310
        asked.add_header("Authorization", f"Bearer {TOKEN}")
        with urllib.request.urlopen(asked, context=trusting) as answer:  # noqa: S310
            assert b"odc_analyst_ready" in answer.read()


def test_a_port_that_is_taken_is_named(loopback: MetricsListener, identity_dir: Path) -> None:
    with pytest.raises(InputError, match=f"127.0.0.1:{loopback.port}"):
        MetricsListener(Place("127.0.0.1", loopback.port, None, identity_dir), CollectorRegistry())


def test_bytes_of_blobs_that_vanish_meanwhile_are_passed_over(tmp_path: Path) -> None:
    assert DirectoryBlobs(tmp_path / "none").stored_bytes() == 0
