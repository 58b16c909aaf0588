"""The claims about the wire, computed from the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.report import Report
from benchmarks.wire.compare import Compared
from benchmarks.wire.ours import Round
from benchmarks.wire.tables import Work
from metering.explanation import PartyExplanation
from odc_demo.sitting import Exchanged

LARGE_UPLINK_BYTES: Final = 8_000_000
DOWNLINK_ALLOWANCE_BYTES: Final = 4_000
BYTES_BOUNDS: Final = {"breast_cancer": 50, "digits": 50, "mnist": 200}
SECONDS_BOUND: Final = 50


def uplink_ratio(party: PartyExplanation) -> float:
    """Return the wire bytes of the uplink, divided by formula (3) plus the labels."""
    return party.uplink.measured_bytes / (party.uplink.formula_bytes + party.uplink.labels_bytes)


def downlink_ratio(party: PartyExplanation) -> float:
    """Return the wire bytes of the downlink minus the allowance, divided by formula (4)."""
    return (party.downlink.measured_bytes - DOWNLINK_ALLOWANCE_BYTES) / party.downlink.formula_bytes


def control_bytes(party: PartyExplanation) -> int:
    """Return the bytes that are neither uplink, downlink nor anchor, joining included."""
    return party.control.measured_bytes + party.membership.measured_bytes


def meter_gap(our_round: Round, party: str) -> float:
    """Return the relative difference between our own count of a party's bytes and the interface's.

    Only the sender knows what TCP sends again, so repeats towards the party come from the analyst's count.
    """
    counted = our_round.explained[party].total.measured_bytes + _repeated_by_analyst(our_round.report, party)
    outside = our_round.by_party[party].tcp_payload_bytes
    return abs(counted - outside) / outside


def _repeated_by_analyst(report: dict[str, Any], party: str) -> int:
    (row,) = (row for row in report["wire"]["parties"] if row["party"] == party)
    kinds = ("uplink", "downlink", "anchor", "control", "membership")
    return sum(int(row[kind]["retransmitted_bytes"]) for kind in kinds)


def our_row(work: Work, our_round: Round) -> dict[str, Any]:
    """Return the measurements of one round of ours, with every byte explained."""
    parties = our_round.explained.values()
    total = sum((party.total for party in parties), type(next(iter(parties)).total)(measured_bytes=0))
    return {
        "dataset": work.name,
        "system": "ODC",
        "parties": len(work.parties),
        "rows": sum(table.num_rows for table in work.by_party.values()),
        "features": work.features,
        "latent_dim": work.latent_dim,
        "bytes": our_round.bytes,
        "tcp_payload_bytes": sum(line.tcp_payload_bytes for line in our_round.by_party.values()),
        "seconds": our_round.seconds,
        "seconds_without_joining": our_round.seconds_without_joining,
        "seconds_by_step": our_round.laps,
        "explained": asdict(total),
        "uplink_over_formula": max(map(uplink_ratio, parties)),
        "downlink_over_formula": max(map(downlink_ratio, parties)),
        "control_bytes_of_lead": control_bytes(our_round.explained[work.parties[0]]),
        "control_bytes_of_others": max(control_bytes(our_round.explained[name]) for name in work.parties[1:]),
        "meter_vs_interface": max(meter_gap(our_round, name) for name in work.parties),
        **our_round.scores,
    }


def sitting_row(name: str, exchanged: Exchanged) -> dict[str, Any]:
    """Return the control bytes of one member that joined and played in one sitting."""
    return {"sitting": name, **asdict(exchanged), "total_bytes": exchanged.total_bytes}


def add_claims(
    found: Report, large: Round, compared: Sequence[Compared], sitting: Mapping[str, Exchanged]
) -> None:
    """Add the claims and their bounds to the report."""
    rounds = [large, *(our_round for one in compared for our_round in one.our_rounds)]
    parties = [party for one in rounds for party in one.explained.values()]
    payloads = [party for party in parties if party.uplink.formula_bytes >= LARGE_UPLINK_BYTES]
    found.claim("uplink_over_formula", max(map(uplink_ratio, payloads)), "ratio", "<=", 1.003)
    found.claim("downlink_over_formula", max(map(downlink_ratio, parties)), "ratio", "<=", 1.01)
    members = sitting.values()
    found.claim("control_bytes_per_party", max(one.round_bytes for one in members), "bytes", "<=", 16_384)
    found.claim("control_bytes_with_joining", max(one.total_bytes for one in members), "bytes", "<=", 32_768)
    gaps = [meter_gap(one, party) for one in rounds for party in one.by_party]
    found.claim("meter_vs_interface", 100 * max(gaps), "%", "<=", 0.1)
    _add_claims_on_flower(found, compared)


def _add_claims_on_flower(found: Report, compared: Sequence[Compared]) -> None:
    """Add what Flower costs over ours after all rounds, and until it scores as ours, with the same bounds."""
    for one in compared:
        name = f"flower_bytes_{one.work.name}"
        if one.work.name in BYTES_BOUNDS:
            bound = BYTES_BOUNDS[one.work.name]
            found.claim(name, one.bytes_ratio, "times", ">=", bound)
            found.claim(f"{name}_to_our_score", one.bytes_ratio_to_our_score, "times", ">=", bound)
    found.claim("flower_seconds", min(one.seconds_ratio for one in compared), "times", ">=", SECONDS_BOUND)
    to_our_score = min(one.seconds_ratio_to_our_score for one in compared)
    found.claim("flower_seconds_to_our_score", to_our_score, "times", ">=", SECONDS_BOUND)
    found.claim("flower_score_gap", max(one.score_gap for one in compared), "points", "<=", 1)
    found.claim("flower_replay_gap", max(one.replay_gap for one in compared), "points", "<=", 0.1)
