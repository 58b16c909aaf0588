"""What a simulated round comes to for each party, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from metering.formulas import Downlink, Uplink

if TYPE_CHECKING:
    from orthonormal_data_collaboration.simulation import Member, Simulation

_COLUMNS: Final = pa.schema(
    [
        ("party", pa.string()),
        ("rows", pa.int64()),
        ("held_out", pa.int64()),
        ("metric", pa.string()),
        ("together", pa.float64()),
        ("alone", pa.float64()),
        ("gain", pa.float64()),
        ("uplink_bytes", pa.int64()),
        ("uplink_by_formula", pa.float64()),
        ("downlink_bytes", pa.int64()),
        ("downlink_by_formula", pa.float64()),
        ("hidden_share", pa.float64()),
        ("row_bits", pa.float64()),
        ("sent_bits", pa.float64()),
        ("concordance_gap", pa.float64()),
        ("suspected", pa.bool_()),
    ]
)


def by_party(found: Simulation) -> pa.Table:
    """Return one row for each party, in the order of the parties; columns that do not apply are empty."""
    members = found.members.values()
    rows = [_row(member) for member in members]
    if found.terms.sums is None:
        gaps, suspected, formulas = found.report["alignment"]["party_gaps"], found.suspected, found.formulas
        costs = zip(formulas.uplinks, formulas.downlinks, strict=True)
        for row, member, cost in zip(rows, members, costs, strict=True):
            row |= _row_of_rows(member, *cost)
            row |= {"suspected": member.name in suspected, "concordance_gap": gaps[member.name]}
    return pa.Table.from_pylist(rows, _COLUMNS)


def _row(member: Member) -> dict[str, Any]:
    """Return what is known of every party: its bytes, and its scores if there are any."""
    row = {
        "party": member.name,
        "rows": member.rows,
        "held_out": len(member.held_out),
        "uplink_bytes": member.uplink_bytes,
        "downlink_bytes": member.downlink_bytes,
    }
    found = member.evaluation
    if found is not None:
        gained = None if found.alone is None else found.together - found.alone
        row |= {"metric": found.metric, "together": found.together, "alone": found.alone, "gain": gained}
    return row


def _row_of_rows(member: Member, uplink: Uplink, downlink: Downlink) -> dict[str, Any]:
    """Return what is known of a party that has sent rows: its bytes by the formulas, and its risk."""
    row: dict[str, Any] = {
        "uplink_by_formula": uplink.total_bytes,
        "downlink_by_formula": downlink.total_bytes,
    }
    if member.prepared.hidden_share is not None:
        row["hidden_share"] = member.prepared.hidden_share.median
    if member.prepared.information is not None:
        bits = member.prepared.information
        row |= {"row_bits": bits.row_bits, "sent_bits": bits.sent_bits}
    return row
