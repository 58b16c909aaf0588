"""Both sides count the same bytes, and every one of them has its place in the explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from analyst_server.services.meter import counts_of
from analyst_server.services.report import explain_round
from metering import client_traffic as traffic_module
from metering.client_traffic import Recorded, recorded
from metering.client_transport import MeteredTransport
from metering.counts import Counts, kernel_counts
from metering.explanation import TERMS, PartyExplanation, RoundExplanation
from protocol.operations import COLLABORATION_STATUS, Kind
from tests.harness.certificates import shared_root
from tests.harness.consortium import Consortium, consortium
from user_client.errors import TlsFailedError
from user_client.transport import AnalystConnection, Traffic

KINDS: tuple[Kind, ...] = ("control", "anchor", "uplink", "downlink")
NAMES = ("lead-hospital", "hospital-b")


class Played:
    """A round that is over, everybody gone, and what both sides have written down."""

    def __init__(self, made: Consortium) -> None:
        self.made = made
        self.id = made.anchored()
        made.contribute_all(self.id)
        made.receive_all(self.id)
        made.lead.round(self.id).fetch_terms()
        self.ours = {name: self._explained(name) for name in NAMES}
        for session in made.sessions.values():
            session.close()
        made.stop_servers()
        self.recorded = {name: recorded(made.sessions[name].home.traffic_path) for name in NAMES}
        self.ours = {name: self._explained(name) for name in NAMES}
        with made.operator() as opened, opened.records.begin() as unit:
            row = unit.collaboration(self.id)
            assert row is not None
            found = explain_round(unit, row)
            assert found is not None
            self.theirs: RoundExplanation = found
            self.stored = {
                (row.party, row.collaboration_id, row.kind): counts_of(row)
                for named in ("", self.id)
                for row in unit.traffic(named)
            }

    def _explained(self, name: str) -> PartyExplanation:
        found = self.made.sessions[name].round(self.id).explain_bytes()
        assert found is not None
        return found.parties[0]


@pytest.fixture(scope="module", params=["kernel", "transport"])
def played(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    settings = {}
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "transport":
            settings["ODC_ANALYST_COUNTER"] = "transport"
            patch.setattr(traffic_module, "kernel_counts", lambda: False)
        elif not kernel_counts():
            pytest.skip("this kernel does not count for us")
        with consortium(tmp_path_factory.mktemp(request.param), *NAMES, **settings) as made:
            yield Played(made)


def bare(counts: Counts) -> Counts:
    """What both ends can know of a connection: not what TCP sent again, nor segments still under way."""
    return Counts(*(replace(flow, retransmitted_bytes=0, segments=0) for flow in (counts.up, counts.down)))


def counted(found: Recorded, collaboration_id: str, kind: Kind) -> Counts:
    return bare(found.counts.get((collaboration_id, kind), Counts()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_count_the_same_bytes_of_each_kind(played: Played, name: str, kind: Kind) -> None:
    theirs = played.stored.get((name, played.id, kind), Counts())
    assert counted(played.recorded[name], played.id, kind) == bare(theirs)
    assert theirs != Counts()


@pytest.mark.parametrize("name", NAMES)
def test_both_sides_count_the_same_bytes_of_joining_and_listing(played: Played, name: str) -> None:
    theirs = played.stored[name, "", "control"]
    assert counted(played.recorded[name], "", "control") == bare(theirs)


def test_both_sides_say_who_counted(played: Played, request: pytest.FixtureRequest) -> None:
    counters = {found.counter for found in played.recorded.values()}
    assert counters == {played.theirs.counter}


def test_both_sides_explain_an_uplink_and_a_downlink_alike(played: Played) -> None:
    for theirs in played.theirs.parties:
        ours = played.ours[theirs.party]
        for mine, other in ((ours.uplink, theirs.uplink), (ours.downlink, theirs.downlink)):
            repeated = other.retransmitted_bytes - mine.retransmitted_bytes
            assert replace(mine, retransmitted_bytes=0, measured_bytes=0, tls_bytes=-_terms(mine)) == replace(
                other, retransmitted_bytes=0, measured_bytes=0, tls_bytes=-_terms(other)
            )
            assert other.measured_bytes - mine.measured_bytes == repeated


def _terms(found: Any) -> int:
    return int(found.measured_bytes - found.tls_bytes - found.retransmitted_bytes)


@pytest.mark.parametrize("name", NAMES)
def test_the_explanation_of_a_real_round_adds_up_to_all_that_was_counted(played: Played, name: str) -> None:
    counts = played.recorded[name].counts.values()
    measured = sum(both.up.measured_bytes + both.down.measured_bytes for both in counts)
    total = played.ours[name].total
    assert total.measured_bytes == measured
    assert sum(getattr(total, term) for term in TERMS) == measured


def test_an_uplink_is_its_formula_its_labels_and_what_it_travels_in(played: Played) -> None:
    for found in played.ours.values():
        assert found.uplink.formula_bytes == (40 + 4) * 2 * 4
        assert found.uplink.labels_bytes == 40
        assert found.uplink.repeated_bytes == found.uplink.encoding_bytes == 0
        assert min(found.uplink.framing_bytes, found.uplink.http_bytes, found.uplink.tls_bytes) > 0
        assert found.uplink.http_bytes < 1000


def test_a_downlink_is_its_formula_the_models_container_and_what_it_travels_in(played: Played) -> None:
    for found in played.ours.values():
        down = found.downlink
        assert down.formula_bytes + down.encoding_bytes > 0
        assert min(down.framing_bytes, down.http_bytes, down.tls_bytes) > 0
        assert down.repeated_bytes == 0


def test_the_anchor_goes_up_once_for_each_member_and_down_to_each(played: Played) -> None:
    lead, other = (played.ours[name].anchor for name in NAMES)
    assert lead.formula_bytes == 4 * 4 * 4  # a m q / 8, once
    assert lead.formula_bytes + lead.encoding_bytes == 32 * 3  # a seed for each, and its own back
    assert (other.formula_bytes, other.encoding_bytes) == (0, 32)


def test_control_traffic_stays_below_its_bound(played: Played) -> None:
    for found in played.ours.values():
        assert found.total.control_bytes <= 48_000


class ClosingTransport(MeteredTransport):
    """Asks the server to close the connection after each answer."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["connection"] = "close"
        return super().handle_request(request)


def test_a_connection_the_server_closes_is_counted_to_its_end(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with consortium(tmp_path_factory.mktemp("close"), *NAMES) as made:
        session = made.sessions["hospital-b"]
        found = made.publish()
        session.close()
        path = session.home.traffic_path
        path.unlink()
        traffic = Traffic(path)
        url, root = session.membership.analyst_url, session.home.root_path.read_text()
        identity = session.home.certificate_path, session.home.key_path
        with AnalystConnection(
            url, root, identity, traffic, transport=lambda trust, _: ClosingTransport(url, trust, traffic)
        ) as line:
            line.ask(COLLABORATION_STATUS, collaboration_id=found)
            line.ask(COLLABORATION_STATUS, collaboration_id=found)
        made.stop_servers()
        ours = sum((counts for counts in recorded(path).of(found).values()), Counts())
        with made.operator() as opened, opened.records.begin() as unit:
            (row,) = unit.traffic(found)
            assert bare(counts_of(row)) == bare(ours)
        assert ours.down.wire_bytes > 2 * 1000  # two handshakes


def test_a_handshake_that_fails_has_cost_its_bytes(tmp_path_factory: pytest.TempPathFactory) -> None:
    with consortium(tmp_path_factory.mktemp("handshake"), *NAMES) as made:
        session = made.sessions["hospital-b"]
        path = session.home.traffic_path
        before = recorded(path).counts["", "control"]
        other_root = shared_root().pem.decode()
        line = AnalystConnection(session.membership.analyst_url, other_root, None, Traffic(path))
        with line, pytest.raises(TlsFailedError):
            line.discover()
        after = recorded(path).counts["", "control"] - before
        assert after.up.wire_bytes > 100
        assert after.down.wire_bytes > 1000
        assert after.up.plain_bytes == 0
